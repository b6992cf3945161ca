//! A strict reader of safetensors headers.
//!
//! A file is eight bytes (the header's length, little endian), the header (JSON in UTF-8, padded with
//! spaces) and the data. Everything is checked before it is used: lengths with checked arithmetic,
//! no duplicate names, offsets that cover the data from its first byte to its last without gaps or
//! overlaps, sizes that equal shape times type. A header is refused within twice its own bytes of memory
//! and in a time that grows with them. The tensors' own bytes are read by [`check_finite`] alone.
//!
//! Stricter than the format's own library: no tensor has other fields than `dtype`, `shape` and
//! `data_offsets` or is duplicated, names are short and plain, the header starts with its brace, and
//! there are limits to the number of tensors and to the metadata. A tensor without bytes is where that
//! library writes it. `__metadata__` may be null, as MLX writes it.

mod dtype;
mod entries;
mod error;
pub(crate) mod finite;
mod header;
mod json;
pub mod limits;
mod names;
mod once;

use crate::{error::CoreError, files::OpenFile};
pub use dtype::DType;
pub use error::HeaderError;
pub use header::{Header, TensorInfo};
use limits::MAX_HEADER_BYTES;

/// Bytes before the header: its length.
const PREFIX_BYTES: u64 = 8;

/// Bytes from which another format is recognised.
const OPENING_BYTES: u64 = 512;

/// Reads and checks the header of a file.
///
/// # Errors
/// [`HeaderError`] for a malformed file, and the errors of [`OpenFile`].
pub fn read_header(file: &OpenFile) -> Result<Header, CoreError> {
    let file_bytes = file.length()?;
    let opening = file.range(0, OPENING_BYTES.min(file_bytes))?;
    let header_bytes = header_length(&opening, file_bytes).map_err(refused(file))?;
    let json = file.range(PREFIX_BYTES, header_bytes)?;
    parse_header(&json, file_bytes).map_err(refused(file))
}

/// Refuses a NaN or an infinity in any of the tensors that a file's header names.
///
/// # Errors
/// [`HeaderError::NotFinite`] that names tensor and index of the first one, and what [`OpenFile`]
/// refuses.
pub fn check_finite(file: &OpenFile, header: &Header) -> Result<(), CoreError> {
    match finite::search(file, &header.tensors)? {
        None => Ok(()),
        Some(reason) => Err(refused(file)(reason)),
    }
}

fn refused(file: &OpenFile) -> impl Fn(HeaderError) -> CoreError {
    CoreError::file(file.path())
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
