//! A strict reader of safetensors headers.
//!
//! A file is eight bytes (the header's length, little endian), the header (JSON in UTF-8, padded with
//! spaces) and the data. Everything is checked before it is believed: lengths with checked arithmetic,
//! names once each, offsets that cover the data from its first byte to its last without a hole or an
//! overlap, sizes that equal shape times type. A header is refused within twice its own bytes of memory
//! and in a time that grows with them. The tensors' own bytes are read by [`finite`] alone.
//!
//! Stricter than the format's own library: no tensor has other fields than `dtype`, `shape` and
//! `data_offsets` or is there twice, names are short and plain, the header starts with its brace, and
//! there are limits to the number of tensors and to the metadata. A tensor without bytes lies where that
//! library writes it. `__metadata__` may be null, as MLX writes it.

mod dtype;
mod entries;
mod error;
pub mod finite;
mod json;
mod names;
mod once;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use crate::error::CoreError;
pub use dtype::DType;
pub use error::HeaderError;
pub(crate) use error::quote;

/// The longest header that is read; the format's own library has the same limit.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The most tensors of one file; published checkpoints have some thousands.
pub const MAX_TENSORS: usize = 1 << 18;

/// The longest metadata, as written.
pub const MAX_METADATA_BYTES: usize = 16_000_000;

/// The most entries of the metadata.
pub const MAX_METADATA_ENTRIES: usize = 1 << 14;

/// The longest name of a tensor or of a key of the metadata, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// The most dimensions of a tensor, as of a `NumPy` array.
pub const MAX_DIMENSIONS: usize = 64;

/// Bytes before the header: its length.
const PREFIX_BYTES: u64 = 8;

/// Bytes from which another format is recognised.
const OPENING_BYTES: u64 = 512;

/// What a header says of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub dtype: DType,
    /// Its shape; empty for a scalar.
    pub shape: Vec<u64>,
    /// Its first byte, counted from the start of the file.
    pub start: u64,
    /// One past its last byte.
    pub stop: u64,
}

/// What a file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The tensors in the order of their bytes; those without bytes by name.
    pub tensors: Vec<TensorInfo>,
    /// Free text by key.
    pub metadata: BTreeMap<String, String>,
}

/// Reads and checks the header of a file.
///
/// # Errors
/// [`CoreError::Header`] for a file that is not well-formed, [`CoreError::NotAFile`] for a folder or a
/// device, [`CoreError::Io`] for what the file system answers.
pub fn read_header(path: &Path) -> Result<Header, CoreError> {
    let file = open(path)?;
    header_of(&file, path)
}

/// Opens a regular file.
pub(crate) fn open(path: &Path) -> Result<File, CoreError> {
    // Asked before opening: opening a pipe would wait for its other end.
    let kind = std::fs::metadata(path).map_err(CoreError::io(path))?;
    if !kind.is_file() {
        return Err(CoreError::NotAFile {
            path: path.to_owned(),
            kind: if kind.is_dir() {
                "a folder"
            } else {
                "a device"
            },
        });
    }
    File::open(path).map_err(CoreError::io(path))
}

/// Reads and checks the header of an open file.
pub(crate) fn header_of(file: &File, path: &Path) -> Result<Header, CoreError> {
    let file_bytes = file.metadata().map_err(CoreError::io(path))?.len();
    let refused = |reason| CoreError::Header {
        path: path.to_owned(),
        reason,
    };
    let opening =
        read_range(file, 0, OPENING_BYTES.min(file_bytes)).map_err(CoreError::io(path))?;
    let header_bytes = header_length(&opening, file_bytes).map_err(refused)?;
    let json = read_range(file, PREFIX_BYTES, header_bytes).map_err(CoreError::io(path))?;
    parse_header(&json, file_bytes).map_err(refused)
}

/// A range that the file was found to have, with exactly the memory that it needs.
pub(crate) fn read_range(mut file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The header's length, from the file's first bytes and its size.
fn header_length(opening: &[u8], file_bytes: u64) -> Result<u64, HeaderError> {
    if let Some(error) = HeaderError::other_format(opening) {
        return Err(error);
    }
    let Some(prefix) = opening.first_chunk() else {
        return Err(HeaderError::TooShort { file_bytes });
    };
    let header_bytes = u64::from_le_bytes(*prefix);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(HeaderError::TooLong { header_bytes });
    }
    if header_bytes > file_bytes.saturating_sub(PREFIX_BYTES) {
        return Err(HeaderError::Truncated {
            header_bytes,
            file_bytes,
        });
    }
    Ok(header_bytes)
}

/// Reads and checks the header of a file in memory.
///
/// # Errors
/// [`HeaderError`] for the first thing that is wrong.
pub fn parse(file: &[u8]) -> Result<Header, HeaderError> {
    let file_bytes = file.len() as u64;
    let header_bytes = header_length(file, file_bytes)?;
    let stop = usize::try_from(PREFIX_BYTES + header_bytes).unwrap_or(file.len());
    parse_header(&file[8..stop], file_bytes)
}

/// Checks a header, given without the eight bytes before it, against the size of the whole file.
///
/// # Errors
/// [`HeaderError`] for the first thing that is wrong.
pub fn parse_header(json: &[u8], file_bytes: u64) -> Result<Header, HeaderError> {
    let header_bytes = json.len() as u64;
    if header_bytes > MAX_HEADER_BYTES {
        return Err(HeaderError::TooLong { header_bytes });
    }
    let text = std::str::from_utf8(json).map_err(|error| {
        let at = error.valid_up_to();
        HeaderError::NotUtf8 { at, byte: json[at] }
    })?;
    if !text.starts_with('{') {
        return Err(HeaderError::NotAnObject {
            got: text.chars().next(),
        });
    }
    let (mut entries, metadata) = entries::read(text)?;
    once::refuse_twice(text, &entries)?;
    let data_start = PREFIX_BYTES + header_bytes;
    entries::check_cover(text, &mut entries, data_start, file_bytes)?;
    let owned = |entry: &entries::Entry| entry.owned(text, data_start);
    Ok(Header {
        tensors: entries.iter().map(owned).collect::<Result<_, _>>()?,
        metadata,
    })
}

#[cfg(test)]
mod tests;
