//! The errors of the core, as messages: what is wrong, expected X, got Y.
//!
//! Each reader, and the aggregators, have their own error type; here it is a [`Reason`], so that this
//! file does not depend on them.

use std::{any::Any, error::Error, io, path::PathBuf};

/// Characters of a name that a message quotes; a name can be as long as a header.
pub(crate) const QUOTED_CHARS: usize = 120;

/// An error of an input.
pub trait Reason: Error + Any + Send + Sync {
    /// What the user can do about it, if known.
    fn hint(&self) -> Option<&'static str> {
        None
    }
}

/// An input that the core refuses.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// A buffer has the wrong number of values.
    #[error("{what} has the wrong length: expected {expected} values, got {got}")]
    Length {
        /// The buffer's name.
        what: &'static str,
        /// What the operation needs.
        expected: usize,
        /// What it was given.
        got: usize,
    },

    /// A matrix without values, which has no scale.
    #[error("{what} is empty: expected at least one value, got none")]
    Empty {
        /// The matrix's name.
        what: &'static str,
    },

    /// A NaN or an infinity.
    #[error(
        "{what} is not finite: expected a finite number, got {value} in row {row}, column {column}"
    )]
    NotFinite {
        /// The matrix's name.
        what: &'static str,
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
        /// The value found there.
        value: f32,
    },

    /// Finite differences whose absolute values add up to more than float32 can represent.
    #[error(
        "differences in {what} {index} are too large: expected a sum within the range of float32, got infinity"
    )]
    SumOverflow {
        /// `row`, `column` or `matrix`.
        what: &'static str,
        /// Which one, from 0.
        index: usize,
    },

    /// A group of signs that does not start at a byte.
    #[error("wrong group: expected a multiple of 8, at least 8, got {group}")]
    Group {
        /// Values that share a scale.
        group: usize,
    },

    /// Finite values whose absolute values add up to more than float32 can represent.
    #[error(
        "{what} is too large in row {row}: expected a sum of absolute values within the range of float32"
    )]
    TooLarge {
        /// The matrix's name.
        what: &'static str,
        /// Row, from 0.
        row: usize,
    },

    /// A group whose step between two codes exceeds float16.
    #[error(
        "values in row {row}, columns {start} to {last} have too large a range: expected a step of at most 65504 between two codes (float16), got {step}"
    )]
    StepOverflow {
        /// Row, from 0.
        row: usize,
        /// First column of the group.
        start: usize,
        /// Last column of the group.
        last: usize,
        /// A third of the group's range.
        step: f32,
    },

    /// A group whose scale exceeds float16.
    #[error(
        "values in row {row}, columns {start} to {last} are too large: expected a scale of at most 65504 (float16), got more"
    )]
    ScaleOverflow {
        /// Row, from 0.
        row: usize,
        /// First column of the group.
        start: usize,
        /// Last column of the group.
        last: usize,
    },

    /// A byte that is not five digits in base 3.
    #[error(
        "codes are not ternary digits: expected bytes of at most 242, got {got} in row {row}, byte {byte}"
    )]
    Digits {
        /// Row, from 0.
        row: usize,
        /// Byte of the row, from 0.
        byte: usize,
        /// The byte found there.
        got: u8,
    },

    /// A file with invalid content.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, according to its reader.
        reason: Box<dyn Reason>,
    },

    /// A file that became shorter after it was opened.
    #[error("{}: truncated while it was read: expected its size to stay the same", path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
    },

    /// A path that is not a regular file.
    #[error("{}: not a regular file: expected a file with tensors, got {kind}", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        kind: &'static str,
    },

    /// A range outside the file.
    #[error("{}: wrong range {start} to {stop}: expected one within the file's {length} bytes", path.display())]
    Range {
        /// The file.
        path: PathBuf,
        /// First byte.
        start: u64,
        /// One past the last byte.
        stop: u128,
        /// The file's length.
        length: u64,
    },

    /// An identity over no tensors.
    #[error("no tensor names: expected at least one, got none")]
    NoNames,

    /// A tensor added out of order.
    #[error("tensor {name} is out of order: expected a name after {last}")]
    NameOrder {
        /// The tensor, quoted.
        name: String,
        /// The one before it, quoted.
        last: String,
    },

    /// A tensor that is in none of the files.
    #[error("tensor {name} is missing: expected it in one of {files} files")]
    MissingTensor {
        /// The tensor, quoted.
        name: String,
        /// How many files were searched.
        files: usize,
    },

    /// A tensor that is in two files.
    #[error("tensor {name} is duplicated: expected it in one file, got {} and {}", first.display(), second.display())]
    TensorTwice {
        /// The tensor, quoted.
        name: String,
        /// The file named earlier.
        first: PathBuf,
        /// The file named later.
        second: PathBuf,
    },

    /// Contributions that cannot be aggregated.
    #[error("{0}")]
    Aggregate(Box<dyn Reason>),

    /// Memory that was modified while it was read.
    #[error("{what} changed while they were read: expected unchanged values")]
    Changed {
        /// What was read.
        what: &'static str,
    },

    /// Memory that the system cannot allocate.
    #[error("out of memory: expected {bytes} more bytes, got none")]
    Memory {
        /// The requested bytes.
        bytes: usize,
    },

    /// Work that was cancelled (see [`crate::threads::until`]); its output is incomplete.
    #[error("stopped: expected time to finish, got a request to stop")]
    Stopped,

    /// An error of the file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl CoreError {
    /// What the user can do about it, if known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File { reason, .. } | Self::Aggregate(reason) => reason.hint(),
            Self::CutShort { .. } => Some("download or copy the file again"),
            _ => None,
        }
    }

    /// The reason, if it is one of this kind.
    #[must_use]
    pub fn reason<R: Reason>(&self) -> Option<&R> {
        match self {
            Self::File { reason, .. } | Self::Aggregate(reason) => {
                let reason: &dyn Any = reason.as_ref();
                reason.downcast_ref()
            }
            _ => None,
        }
    }

    /// Returns the error for a file with invalid content.
    pub(crate) fn file<R: Reason>(path: &std::path::Path) -> impl Fn(R) -> Self {
        let path = path.to_owned();
        move |reason| Self::File {
            path: path.clone(),
            reason: Box::new(reason),
        }
    }

    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                return Self::CutShort { path };
            }
            Self::Io { path, source }
        }
    }
}

/// A quoted name, escaped and shortened for a message.
pub(crate) fn quote(name: &str) -> String {
    let shown: String = name.chars().take(QUOTED_CHARS).collect();
    let cut = if shown.len() < name.len() { "..." } else { "" };
    format!("'{}{cut}'", shown.escape_debug())
}

/// Checks a buffer's number of values.
///
/// # Errors
/// [`CoreError::Length`] if it is not the expected one.
#[cfg(feature = "kernels")]
pub(crate) fn check_length(
    what: &'static str,
    expected: usize,
    got: usize,
) -> Result<(), CoreError> {
    if expected == got {
        return Ok(());
    }
    Err(CoreError::Length {
        what,
        expected,
        got,
    })
}
