//! A strict reader of GGUF headers, versions 2 and 3, little endian.
//!
//! A file is the word GGUF, its version, the numbers of tensors and of pairs of the metadata, those pairs,
//! an entry for each tensor, padding, and the data. Every length and count is compared with
//! the bytes that are left before memory is taken for it; arrays nest to a small depth; sizes follow from
//! ggml's table of types with checked arithmetic; tensors follow each other, padded to the
//! alignment, within the file. The tensors' own bytes are not read.
//!
//! Source of the format: `docs/gguf.md` of ggml. Version 1 and big-endian files are refused by name.

mod error;
pub mod limits;
mod names;
mod source;
mod tensors;
mod types;
mod value;

use std::io::{BufReader, Read};

use crate::{
    error::{CoreError, quote},
    files::OpenFile,
};
pub use error::GgufError;
use limits::{MAX_KEY_BYTES, MAX_PAIRS, MAX_TENSORS};
use names::plain;
use source::{Source, Stop};
pub use tensors::GgufTensor;
pub use types::GgmlType;
use value::Allowance;
pub use value::{Array, Number, Texts, Value};

const MAGIC: &[u8; 4] = b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const USUAL_ALIGNMENT: u64 = 32;

/// The fewest bytes of a pair: a key of one letter and one byte; of a tensor: a name of one letter.
const PAIR_BYTES: u64 = 8 + 1 + 4 + 1;
const TENSOR_BYTES: u64 = 8 + 1 + 4 + 4 + 8;

/// The header of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufHeader {
    /// The format's version, 2 or 3.
    pub version: u32,
    /// To how many bytes tensors are aligned.
    pub alignment: u64,
    /// Keys and values in the order of the file.
    pub metadata: Vec<(String, Value)>,
    /// The tensors in the order of their bytes.
    pub tensors: Vec<GgufTensor>,
}

/// Reads and checks the header of a file.
///
/// # Errors
/// [`GgufError`] for a malformed file, and the errors of [`OpenFile`].
pub fn read_header(file: &OpenFile) -> Result<GgufHeader, CoreError> {
    let source = Source::new(BufReader::new(file.stream()), file.length()?);
    read(source).map_err(|stop| match stop {
        Stop::Io(source) => CoreError::io(file.path())(source),
        Stop::Refused(reason) => CoreError::file(file.path())(reason),
    })
}

/// Reads and checks the header of a file in memory.
///
/// # Errors
/// [`GgufError`] for the first thing that is wrong.
pub fn parse(file: &[u8]) -> Result<GgufHeader, GgufError> {
    let file_bytes = file.len() as u64;
    read(Source::new(file, file_bytes)).map_err(|stop| match stop {
        Stop::Refused(reason) => reason,
        // Not met: a slice answers every read that the source allows.
        Stop::Io(error) => GgufError::Truncated {
            what: error.to_string(),
            stop: u128::from(file_bytes),
            file_bytes,
        },
    })
}

fn read<R: Read>(mut source: Source<R>) -> Result<GgufHeader, Stop> {
    let version = read_version(&mut source)?;
    let tensor_count = source.u64("the number of tensors")?;
    let pair_count = source.u64("the number of keys")?;
    check_count(&source, "tensors", tensor_count, MAX_TENSORS, TENSOR_BYTES)?;
    check_count(&source, "keys", pair_count, MAX_PAIRS, PAIR_BYTES)?;
    let mut allowance = Allowance::new();
    let metadata = (0..pair_count)
        .map(|_| read_pair(&mut source, &mut allowance))
        .collect::<Result<Vec<_>, _>>()?;
    refuse_twice("key", metadata.iter().map(|(key, _)| key.as_str()))?;
    let alignment = alignment(&metadata)?;
    let entries = (0..tensor_count)
        .map(|_| tensors::read(&mut source))
        .collect::<Result<Vec<_>, _>>()?;
    refuse_twice("tensor name", entries.iter().map(tensors::Entry::name))?;
    let tensors = tensors::place(entries, alignment, source.at, source.file_bytes)?;
    Ok(GgufHeader {
        version,
        alignment,
        metadata,
        tensors,
    })
}

fn read_version<R: Read>(source: &mut Source<R>) -> Result<u32, Stop> {
    let count = source.file_bytes.min(4);
    let got = source.bytes(count, "its first word")?;
    if got != MAGIC {
        return Err(GgufError::Magic { got }.into());
    }
    let version = source.u32("its version")?;
    match version {
        2 | 3 => Ok(version),
        other if other != 0 && other.trailing_zeros() >= 16 => {
            let version = other.swap_bytes();
            Err(GgufError::BigEndian { version }.into())
        }
        version => Err(GgufError::Version { version }.into()),
    }
}

/// Refuses a count beyond our limit or beyond what the rest of the file has room for.
fn check_count<R: Read>(
    source: &Source<R>,
    what: &'static str,
    got: u64,
    limit: u64,
    each: u64,
) -> Result<(), GgufError> {
    let limit = limit.min((source.file_bytes - source.at) / each);
    if got > limit {
        return Err(GgufError::TooMany { what, limit, got });
    }
    Ok(())
}

fn read_pair<R: Read>(
    source: &mut Source<R>,
    allowance: &mut Allowance,
) -> Result<(String, Value), Stop> {
    let count = source.u64("a key")?;
    if count > MAX_KEY_BYTES {
        return Err(GgufError::long_key(count).into());
    }
    let key = plain("key", source.text_of(count, "a key")?)?;
    let what = format!("the value of {}", quote(&key));
    let value = value::read_value(source, &what, allowance)?;
    Ok((key, value))
}

fn refuse_twice<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), GgufError> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(GgufError::Twice {
            what,
            name: pair[0].to_owned(),
        }),
        None => Ok(()),
    }
}

/// To how many bytes tensors are aligned: from the metadata, by default 32.
fn alignment(metadata: &[(String, Value)]) -> Result<u64, GgufError> {
    let Some((_, value)) = metadata.iter().find(|(key, _)| key == ALIGNMENT_KEY) else {
        return Ok(USUAL_ALIGNMENT);
    };
    let Value::Number(Number::U32, bytes) = value else {
        let got = "another type".to_owned();
        return Err(GgufError::Alignment { got });
    };
    let told = bytes
        .first_chunk()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if told.is_power_of_two() && (8..=65_536).contains(&told) {
        return Ok(u64::from(told));
    }
    let got = told.to_string();
    Err(GgufError::Alignment { got })
}

#[cfg(test)]
mod tests;
