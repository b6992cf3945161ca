//! The errors of a header, as messages.

use super::{
    dtype::DType,
    limits::{
        MAX_HEADER_BYTES, MAX_METADATA_BYTES, MAX_METADATA_ENTRIES, MAX_NAME_BYTES, MAX_TENSORS,
    },
};
use crate::error::{Reason, quote};

/// Why a file is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The small text that git keeps in place of a large file.
    #[error("git LFS pointer instead of the file itself: expected tensors{}, got the pointer's text", of_bytes(size.as_deref()))]
    LfsPointer {
        /// The size that the pointer names.
        size: Option<String>,
    },

    /// A file of another format.
    #[error("not a safetensors file: expected safetensors, got {format}")]
    OtherFormat {
        /// What it looks like.
        format: &'static str,
    },

    /// No room for the header's length.
    #[error("truncated file: expected at least 8 bytes, got {file_bytes}")]
    TooShort {
        /// The file's size.
        file_bytes: u64,
    },

    /// A header longer than any that is read.
    #[error(
        "not a safetensors file, or a damaged one: its first 8 bytes specify a header of {header_bytes} bytes, expected at most {MAX_HEADER_BYTES}"
    )]
    TooLong {
        /// The length that the file claims.
        header_bytes: u64,
    },

    /// A header longer than the file.
    #[error(
        "truncated file: expected a header of {header_bytes} bytes, got a file of {file_bytes}"
    )]
    Truncated {
        /// The length that the file claims.
        header_bytes: u64,
        /// The file's size.
        file_bytes: u64,
    },

    /// A header that is no text.
    #[error("header is not text: expected UTF-8, got byte 0x{byte:02x} at position {at}")]
    NotUtf8 {
        /// Where, counted from the header's start.
        at: usize,
        /// The byte there.
        byte: u8,
    },

    /// A header that does not start with a brace.
    #[error("header does not start with an object: expected '{{', got {}", first(*got))]
    NotAnObject {
        /// What is there instead; none for an empty header.
        got: Option<char>,
    },

    /// A header that is not JSON of the expected form.
    #[error("header is malformed: {reason}")]
    Json {
        /// What is expected, what is there and where.
        reason: String,
    },

    /// A name that two entries have.
    #[error(
        "header is malformed: {} is duplicated: expected each name once",
        quote(name)
    )]
    Twice {
        /// The name.
        name: String,
    },

    /// A name that could do harm where it is used.
    #[error("name {} is not plain: expected {fault} in it", quote(name))]
    Name {
        /// The name.
        name: String,
        /// What it should not have.
        fault: &'static str,
    },

    /// A name that is no name.
    #[error(
        "name {} is too long: expected at most {MAX_NAME_BYTES} bytes, got {raw_bytes}",
        quote(opening)
    )]
    LongName {
        /// How it begins.
        opening: String,
        /// Its length as written.
        raw_bytes: usize,
    },

    /// More tensors than any model has.
    #[error("too many tensors: expected at most {MAX_TENSORS} in one file, got more")]
    TooManyTensors,

    /// Metadata that are no notes any more.
    #[error(
        "metadata are too long: expected at most {MAX_METADATA_ENTRIES} entries in {MAX_METADATA_BYTES} bytes, got more"
    )]
    Metadata,

    /// A tensor without bytes at the offset of another.
    #[error(
        "tensor {} has no bytes and shares its offset with {}: expected larger types first, then names in order",
        quote(name),
        quote(other)
    )]
    Misplaced {
        /// The tensor without bytes.
        name: String,
        /// The adjacent tensor.
        other: String,
    },

    /// A NaN or an infinity, where they were looked for.
    #[error(
        "tensor {} is not finite: expected finite numbers, got {value} at {}",
        quote(name),
        dimensions(index)
    )]
    NotFinite {
        /// The tensor.
        name: String,
        /// What was found.
        value: &'static str,
        /// Where in the tensor, from 0.
        index: Vec<u64>,
    },

    /// A type that no version of the format has.
    #[error(
        "tensor {} has an unknown dtype: expected one like F32 or BF16, got {}",
        quote(name),
        quote(dtype)
    )]
    UnknownDType {
        /// The tensor.
        name: String,
        /// Its type as written.
        dtype: String,
    },

    /// Offsets that are no range.
    #[error(
        "tensor {} has impossible offsets: expected a start before its end, got [{from}, {to}]",
        quote(name)
    )]
    Offsets {
        /// The tensor.
        name: String,
        /// First byte as written.
        from: u64,
        /// End as written.
        to: u64,
    },

    /// A shape whose size is no number of bytes.
    #[error(
        "tensor {} has an impossible shape: expected a whole number of bytes below 2^61, got {}",
        quote(name),
        dimensions(shape)
    )]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape as written.
        shape: Vec<u64>,
    },

    /// Offsets that do not fit shape and type.
    #[error("tensor {} has the wrong size: expected {expected} bytes for {} of {}, got {got}", quote(name), dimensions(shape), dtype.name)]
    Size {
        /// The tensor.
        name: String,
        /// Its type.
        dtype: DType,
        /// Its shape.
        shape: Vec<u64>,
        /// Bytes by shape and type.
        expected: u64,
        /// Bytes by the offsets.
        got: u64,
    },

    /// A tensor that starts before the one in front of it ends.
    #[error(
        "tensor {} overlaps another: expected a start at byte {covered}, got {start}",
        quote(name)
    )]
    Overlap {
        /// The tensor.
        name: String,
        /// Its first byte in the file.
        start: u64,
        /// Where the tensors before it end.
        covered: u64,
    },

    /// Bytes that belong to no tensor.
    #[error(
        "gap before tensor {}: expected a start at byte {covered}, got {start}",
        quote(name)
    )]
    Hole {
        /// The tensor after the gap.
        name: String,
        /// Its first byte in the file.
        start: u64,
        /// Where the tensors before it end.
        covered: u64,
    },

    /// A tensor that ends after the end of the file.
    #[error(
        "truncated file: expected at least {stop} bytes for tensor {}, got {file_bytes}",
        quote(name)
    )]
    TruncatedData {
        /// The tensor.
        name: String,
        /// Its end in the file.
        stop: u64,
        /// The file's size.
        file_bytes: u64,
    },

    /// Bytes after the last tensor.
    #[error("bytes after the last tensor: expected a file of {covered} bytes, got {file_bytes}")]
    Trailing {
        /// Where the tensors end.
        covered: u64,
        /// The file's size.
        file_bytes: u64,
    },
}

impl Reason for HeaderError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::LfsPointer { .. } => Some("download the file itself: git lfs pull"),
            Self::Truncated { .. } | Self::TruncatedData { .. } | Self::TooShort { .. } => {
                Some("download or copy the file again")
            }
            _ => None,
        }
    }
}

impl HeaderError {
    /// Recognises other formats that turn up under a safetensors name.
    pub(super) fn other_format(opening: &[u8]) -> Option<Self> {
        if opening.starts_with(b"version https://git-lfs.github.com/spec/") {
            let text = String::from_utf8_lossy(opening);
            let size = text.lines().find_map(|line| line.strip_prefix("size "));
            let size = size.filter(|size| size.bytes().all(|byte| byte.is_ascii_digit()));
            return Some(Self::LfsPointer {
                size: size.map(str::to_owned),
            });
        }
        let format = if opening.starts_with(b"PK\x03\x04") {
            "a zip archive, as PyTorch's pickle checkpoints are"
        } else if opening.starts_with(b"GGUF") {
            "GGUF"
        } else if opening.starts_with(b"<!") || opening.starts_with(b"<html") {
            "a web page"
        } else {
            return None;
        };
        Some(Self::OtherFormat { format })
    }

    /// The same for an entry of the header.
    pub(super) fn inside(self, name: &str) -> Self {
        let reason = match self {
            Self::Json { reason } => reason,
            Self::Twice { name } => {
                format!("{} is duplicated: expected each name once", quote(&name))
            }
            other => return other,
        };
        Self::Json {
            reason: format!("{}: {reason}", quote(name)),
        }
    }

    pub(super) fn unknown_field(name: &str) -> Self {
        let name = quote(name);
        let reason = format!("unknown field {name}: expected dtype, shape and data_offsets alone");
        Self::Json { reason }
    }

    pub(super) fn missing(field: &str) -> Self {
        let reason = format!("no {field}: expected dtype, shape and data_offsets");
        Self::Json { reason }
    }
}

fn first(got: Option<char>) -> String {
    got.map_or("nothing".to_owned(), |got| quote(&got.to_string()))
}

fn of_bytes(size: Option<&str>) -> String {
    size.map_or(String::new(), |size| format!(" in {size} bytes"))
}

/// A shape, its first sizes only.
fn dimensions(shape: &[u64]) -> String {
    let shown: Vec<_> = shape.iter().take(8).map(u64::to_string).collect();
    let cut = if shape.len() > shown.len() {
        ", ..."
    } else {
        ""
    };
    format!("[{}{cut}]", shown.join(", "))
}
