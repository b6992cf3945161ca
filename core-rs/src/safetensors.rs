//! A strict reader of safetensors headers.
//!
//! A file is eight bytes (the header's length, little endian), the header (JSON in UTF-8, padded with
//! spaces) and the data. Everything is checked before it is believed: lengths with checked arithmetic,
//! names once each, offsets that cover the data from its first byte to its last without a hole or an
//! overlap, sizes that equal shape times type. Memory stays within a few times [`MAX_HEADER_BYTES`]. The
//! tensors' own bytes are not read.
//!
//! Stricter than the format asks in one place: a tensor has no other fields than `dtype`,
//! `shape` and `data_offsets`. `__metadata__` may be null, as MLX writes it.

mod dtype;
mod error;
mod json;

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
use json::{RawHeader, RawTensor};

/// The longest header that is read; the format's own library has the same limit.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

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

fn read_range(mut file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(length).read_to_end(&mut bytes)?;
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
    if header_bytes > file_bytes - PREFIX_BYTES {
        return Err(HeaderError::Truncated {
            header_bytes,
            file_bytes,
        });
    }
    Ok(header_bytes)
}

/// Checks a header, given without the eight bytes before it, against the size of the whole file.
///
/// # Errors
/// [`HeaderError`] for the first thing that is wrong.
pub fn parse_header(json: &[u8], file_bytes: u64) -> Result<Header, HeaderError> {
    let text = std::str::from_utf8(json).map_err(|error| {
        let at = error.valid_up_to();
        HeaderError::NotUtf8 { at, byte: json[at] }
    })?;
    if !text.starts_with('{') {
        return Err(HeaderError::NotAnObject {
            got: text.chars().next(),
        });
    }
    let raw: RawHeader = serde_json::from_str(text).map_err(|error| HeaderError::json(&error))?;
    let data_start = PREFIX_BYTES + json.len() as u64;
    let mut tensors = raw
        .tensors
        .into_iter()
        .map(|(name, tensor)| check_tensor(name, tensor, data_start))
        .collect::<Result<Vec<_>, _>>()?;
    tensors.sort_by(|a, b| (a.start, a.stop, &a.name).cmp(&(b.start, b.stop, &b.name)));
    check_cover(&tensors, data_start, file_bytes)?;
    Ok(Header {
        tensors,
        metadata: raw.metadata,
    })
}

/// Checks one tensor by itself and counts its offsets from the start of the file.
fn check_tensor(name: String, raw: RawTensor, data_start: u64) -> Result<TensorInfo, HeaderError> {
    let Some(dtype) = DType::from_name(&raw.dtype) else {
        return Err(HeaderError::UnknownDType {
            name,
            dtype: raw.dtype,
        });
    };
    let (from, to) = raw.data_offsets;
    let (Some(start), Some(stop)) = (data_start.checked_add(from), data_start.checked_add(to))
    else {
        return Err(HeaderError::Offsets { name, from, to });
    };
    if start > stop {
        return Err(HeaderError::Offsets { name, from, to });
    }
    let expected = dtype.bytes(&raw.shape).ok_or_else(|| HeaderError::Shape {
        name: name.clone(),
        shape: raw.shape.clone(),
    })?;
    if expected != stop - start {
        return Err(HeaderError::Size {
            name,
            dtype,
            shape: raw.shape,
            expected,
            got: stop - start,
        });
    }
    Ok(TensorInfo {
        name,
        dtype,
        shape: raw.shape,
        start,
        stop,
    })
}

/// Checks that sorted tensors cover the data from its first byte to its last, each byte once.
fn check_cover(
    tensors: &[TensorInfo],
    data_start: u64,
    file_bytes: u64,
) -> Result<(), HeaderError> {
    let mut covered = data_start;
    for tensor in tensors {
        let name = || tensor.name.clone();
        if tensor.start < covered {
            return Err(HeaderError::Overlap {
                name: name(),
                start: tensor.start,
                covered,
            });
        }
        if tensor.start > covered {
            return Err(HeaderError::Hole {
                name: name(),
                start: tensor.start,
                covered,
            });
        }
        if tensor.stop > file_bytes {
            return Err(HeaderError::TruncatedData {
                name: name(),
                stop: tensor.stop,
                file_bytes,
            });
        }
        covered = tensor.stop;
    }
    if covered != file_bytes {
        return Err(HeaderError::Trailing {
            covered,
            file_bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
