//! What can go wrong in the core, as sentences: what is wrong, expected X, got Y.
//!
//! Each reader, and the aggregators, have an error of their own with all that they can find; here it is
//! a [`Reason`], so that nothing in this file knows them.

use std::{any::Any, error::Error, io, path::PathBuf};

/// Characters of a name that a message quotes; a name can be as long as a header.
pub(crate) const QUOTED_CHARS: usize = 120;

/// What is wrong with an input.
pub trait Reason: Error + Any + Send + Sync {
    /// What the user can do about it, where that is known.
    fn hint(&self) -> Option<&'static str> {
        None
    }
}

/// An input that the core refuses.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// A buffer holds another number of values than the operation needs.
    #[error("{what} has the wrong length: expected {expected} values, got {got}")]
    Length {
        /// The buffer's name.
        what: &'static str,
        /// What the operation needs.
        expected: usize,
        /// What it was given.
        got: usize,
    },

    /// A matrix without any value, for which no scale exists.
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

    /// Finite differences whose absolute values add up to more than float32 holds.
    #[error(
        "differences in {what} {index} are too large: expected their sum within float32, got an infinity"
    )]
    SumOverflow {
        /// `row`, `column` or `matrix`.
        what: &'static str,
        /// Which one, from 0.
        index: usize,
    },

    /// A group of signs that does not begin with a byte.
    #[error("group is unfit: expected a multiple of 8, at least 8, got {group}")]
    Group {
        /// Values that share a scale.
        group: usize,
    },

    /// Finite values whose absolute values add up to more than float32 holds.
    #[error(
        "{what} is too large in row {row}: expected a sum of absolute values within float32, got more"
    )]
    TooLarge {
        /// The matrix's name.
        what: &'static str,
        /// Row, from 0.
        row: usize,
    },

    /// A group whose step between two codes is no float16.
    #[error(
        "values in row {row}, columns {start} to {last} spread too far: expected a step of at most 65504 between two codes (float16), got {step}"
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

    /// A group whose scale is no float16.
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

    /// A byte that stands for no five digits in base 3.
    #[error(
        "codes are no ternary digits: expected bytes of at most 242, got {got} in row {row}, byte {byte}"
    )]
    Digits {
        /// Row, from 0.
        row: usize,
        /// Byte of the row, from 0.
        byte: usize,
        /// The byte found there.
        got: u8,
    },

    /// A file that is not what it should be.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, as its reader has it.
        reason: Box<dyn Reason>,
    },

    /// A file that became shorter after it was opened.
    #[error("{}: cut short while it was read: expected it to stay as it was opened, got its end", path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
    },

    /// A path that names no regular file.
    #[error("{}: not a regular file: expected a file with tensors, got {kind}", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        kind: &'static str,
    },

    /// A range of bytes that the file does not have.
    #[error("{}: no bytes {start} to {stop}: expected a range within the file's {length} bytes", path.display())]
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

    /// An identity over no tensor at all.
    #[error("no tensor names: expected at least one, got none")]
    NoNames,

    /// A tensor of an identity that comes too late.
    #[error(
        "tensor {name} is out of order: expected a name that comes after {last}, got one before it or the same"
    )]
    NameOrder {
        /// The tensor, quoted.
        name: String,
        /// The one before it, quoted.
        last: String,
    },

    /// A tensor that none of the files holds.
    #[error(
        "tensor {name} is missing: expected it in one of {files} files, got none that holds it"
    )]
    MissingTensor {
        /// The tensor, quoted.
        name: String,
        /// How many files were searched.
        files: usize,
    },

    /// A tensor that two files hold.
    #[error("tensor {name} is there twice: expected one file, got {} and {}", first.display(), second.display())]
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

    /// Memory that somebody wrote to while it was read.
    #[error("{what} changed while they were read: expected the same values to the end, got others")]
    Changed {
        /// What was read.
        what: &'static str,
    },

    /// Memory that the system does not give.
    #[error("out of memory: expected {bytes} more bytes, got none")]
    Memory {
        /// How much was asked for.
        bytes: usize,
    },

    /// Work that was to stop (see [`crate::threads::until`]); what it was to write is half done.
    #[error("stopped: expected time to finish, got a request to stop")]
    Stopped,

    /// Whatever the file system answers.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The file system's answer.
        source: io::Error,
    },
}

impl CoreError {
    /// What the user can do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File { reason, .. } | Self::Aggregate(reason) => reason.hint(),
            Self::CutShort { .. } => Some("fetch or copy the file again"),
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

    /// That a file is not what it should be.
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

/// A name between quotes, harmless on a terminal and not too long.
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
