//! The errors of a GGUF header, as messages.

use super::limits::{
    MAX_DEPTH, MAX_DIMENSIONS, MAX_HEADER_BYTES, MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_STRINGS,
};
use crate::error::{Reason, quote};

/// Why a file is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// A file of another format.
    #[error(
        "not a GGUF file: expected it to begin with GGUF, got {}",
        opening(got)
    )]
    Magic {
        /// Its first bytes.
        got: Vec<u8>,
    },

    /// A file for machines that put the highest byte first.
    #[error(
        "big-endian GGUF file: expected little-endian, got version {version} in big-endian order"
    )]
    BigEndian {
        /// The version, read the other way round.
        version: u32,
    },

    /// A version that is not read.
    #[error("GGUF version: expected 2 or 3, got {version}")]
    Version {
        /// The version.
        version: u32,
    },

    /// A field that ends after the end of the file.
    #[error("truncated file: expected at least {stop} bytes for {what}, got {file_bytes}")]
    Truncated {
        /// What does not fit.
        what: String,
        /// Where it would end.
        stop: u128,
        /// The file's size.
        file_bytes: u64,
    },

    /// A header longer than any that is read.
    #[error("header is too long: expected at most {MAX_HEADER_BYTES} bytes, got more for {what}")]
    TooLong {
        /// What goes beyond the limit.
        what: String,
    },

    /// More of something than is read.
    #[error("too many {what}: expected at most {limit}, got {got}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit, of the format or of the file's size.
        limit: u64,
        /// How many the file claims.
        got: u64,
    },

    /// A string that is none.
    #[error("{what} is not text: expected UTF-8, got byte 0x{byte:02x} at position {at}")]
    NotUtf8 {
        /// Which string.
        what: String,
        /// Where in it.
        at: usize,
        /// The byte there.
        byte: u8,
    },

    /// A key or a name with signs that it should not have.
    #[error(
        "{what} {} is not plain: expected text without control characters, at least one character",
        quote(name)
    )]
    Name {
        /// A key or a tensor's name.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// A key or a tensor's name that is duplicated.
    #[error("{what} {} is duplicated: expected each once", quote(name))]
    Twice {
        /// A key or a tensor's name.
        what: &'static str,
        /// The name.
        name: String,
    },

    /// A type of value that the format does not have.
    #[error("{what} has an unknown type: expected 0 to 12, got {code}")]
    ValueType {
        /// Which value.
        what: String,
        /// The type's number.
        code: u32,
    },

    /// A truth value that is neither.
    #[error("{what} is not a boolean: expected 0 or 1, got {got}")]
    Bool {
        /// Which value.
        what: String,
        /// The byte.
        got: u8,
    },

    /// Arrays in arrays without end.
    #[error(
        "{what} is nested too deeply: expected at most {MAX_DEPTH} arrays in one another, got more"
    )]
    Depth {
        /// Which value.
        what: String,
    },

    /// An alignment that is none.
    #[error("general.alignment: expected a power of two from 8 to 65536 as UINT32, got {got}")]
    Alignment {
        /// What is there.
        got: String,
    },

    /// A storage type that ggml does not have, or has no more.
    #[error(
        "tensor {} has an unknown type: expected one of ggml's, got number {code}",
        quote(name)
    )]
    TensorType {
        /// The tensor.
        name: String,
        /// The type's number.
        code: u32,
    },

    /// Dimensions of which no size follows.
    #[error(
        "tensor {} has impossible dimensions: expected whole blocks of {block_values} values and a size below 2^63, got {dimensions:?} of {kind}",
        quote(name)
    )]
    Dimensions {
        /// The tensor.
        name: String,
        /// Its type.
        kind: &'static str,
        /// Values of a block.
        block_values: u64,
        /// Its dimensions.
        dimensions: Vec<u64>,
    },

    /// An offset that the alignment forbids.
    #[error(
        "tensor {} is not aligned: expected an offset in steps of {alignment}, got {offset}",
        quote(name)
    )]
    Unaligned {
        /// The tensor.
        name: String,
        /// The file's alignment.
        alignment: u64,
        /// The offset as written.
        offset: u64,
    },

    /// A tensor that starts before the one in front of it ends.
    #[error(
        "tensor {} overlaps another: expected a start at byte {expected}, got {start}",
        quote(name)
    )]
    Overlap {
        /// The tensor.
        name: String,
        /// Its first byte in the file.
        start: u64,
        /// Where it could start.
        expected: u64,
    },

    /// Bytes that belong to no tensor.
    #[error(
        "gap before tensor {}: expected a start at byte {expected}, got {start}",
        quote(name)
    )]
    Hole {
        /// The tensor after the gap.
        name: String,
        /// Its first byte in the file.
        start: u64,
        /// Where it should start.
        expected: u64,
    },

    /// Bytes after the last tensor.
    #[error(
        "bytes after the last tensor: expected a file of at most {expected} bytes, got {file_bytes}"
    )]
    Trailing {
        /// Where the tensors and their padding end.
        expected: u64,
        /// The file's size.
        file_bytes: u64,
    },

    /// A name or key longer than the format allows.
    #[error("{what} is too long: expected at most {limit} bytes, got {got}")]
    LongName {
        /// A key or a tensor's name.
        what: &'static str,
        /// The format's limit.
        limit: u64,
        /// What the file claims.
        got: u64,
    },

    /// More dimensions than ggml has.
    #[error(
        "tensor {} has too many dimensions: expected at most {MAX_DIMENSIONS}, got {got}",
        quote(name)
    )]
    TooManyDimensions {
        /// The tensor.
        name: String,
        /// What the file claims.
        got: u32,
    },
}

impl Reason for GgufError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Truncated { .. } => Some("download or copy the file again"),
            Self::Version { .. } | Self::BigEndian { .. } => {
                Some("convert the model again with a current llama.cpp")
            }
            _ => None,
        }
    }
}

impl GgufError {
    pub(super) fn long_key(got: u64) -> Self {
        let (what, limit) = ("key", MAX_KEY_BYTES);
        Self::LongName { what, limit, got }
    }

    pub(super) fn long_name(got: u64) -> Self {
        let (what, limit) = ("tensor name", MAX_NAME_BYTES);
        Self::LongName { what, limit, got }
    }

    pub(super) fn too_many_strings(got: u64) -> Self {
        let (what, limit) = ("strings", MAX_STRINGS);
        Self::TooMany { what, limit, got }
    }
}

/// A file's first bytes as text.
fn opening(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    format!("'{}'", bytes.escape_ascii())
}
