//! The values of a GGUF file's metadata.

use std::io::Read;

use super::{
    error::GgufError,
    limits::{MAX_ARRAYS, MAX_DEPTH, MAX_STRINGS},
    source::{Source, Stop},
};

/// The type of a number, or of the numbers of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are self-explanatory
pub enum Number {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    U64,
    I64,
    F64,
}

impl Number {
    fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Bytes of one number.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number as in the file: little endian.
    Number(Number, Vec<u8>),
    /// A string.
    Text(String),
    /// An array.
    Array(Array),
}

/// An array of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Array {
    /// Numbers of one type, as in the file.
    Numbers(Number, Vec<u8>),
    /// Strings.
    Texts(Texts),
    /// Arrays, each of a type of its own.
    Arrays(Vec<Array>),
}

/// Concatenated strings, and where each ends: a vocabulary costs little more than its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    joined: String,
    ends: Vec<u32>,
}

impl Texts {
    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = *end as usize;
            let text = self.joined.get(start..end).unwrap_or_default();
            start = end;
            text
        })
    }

    fn push(&mut self, text: &str) {
        self.joined.push_str(text);
        // A header's bytes are within 32 bits.
        self.ends
            .push(u32::try_from(self.joined.len()).unwrap_or(u32::MAX));
    }
}

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// The fewest bytes of a string, and of an array in an array.
const TEXT_BYTES: u64 = 8;
const ARRAY_BYTES: u64 = 12;

/// What may still be read of the kinds that take more memory than their bytes.
pub(super) struct Allowance {
    strings: u64,
    arrays: u64,
}

impl Allowance {
    pub(super) fn new() -> Self {
        Self {
            strings: MAX_STRINGS,
            arrays: MAX_ARRAYS,
        }
    }
}

/// Reads the type and value of a key.
pub(super) fn read_value<R: Read>(
    source: &mut Source<R>,
    what: &str,
    allowance: &mut Allowance,
) -> Result<Value, Stop> {
    let code = source.u32(what)?;
    match code {
        TEXT => Ok(Value::Text(source.text(what)?)),
        ARRAY => Ok(Value::Array(read_array(source, what, allowance, 1)?)),
        _ => {
            let number = number_of(code, what)?;
            let bytes = read_numbers(source, number, 1, what)?;
            Ok(Value::Number(number, bytes))
        }
    }
}

fn number_of(code: u32, what: &str) -> Result<Number, GgufError> {
    let what = || what.to_owned();
    Number::from_code(code).ok_or_else(|| GgufError::ValueType { what: what(), code })
}

fn read_numbers<R: Read>(
    source: &mut Source<R>,
    number: Number,
    count: u64,
    what: &str,
) -> Result<Vec<u8>, Stop> {
    source.check_room(count, number.bytes(), what)?;
    let bytes = source.bytes(count * number.bytes(), what)?;
    if number == Number::Bool
        && let Some(got) = bytes.iter().copied().find(|byte| *byte > 1)
    {
        let what = what.to_owned();
        return Err(GgufError::Bool { what, got }.into());
    }
    Ok(bytes)
}

/// Reads an array at this depth, 1 for one that is not nested.
fn read_array<R: Read>(
    source: &mut Source<R>,
    what: &str,
    allowance: &mut Allowance,
    depth: usize,
) -> Result<Array, Stop> {
    if depth > MAX_DEPTH {
        let what = what.to_owned();
        return Err(GgufError::Depth { what }.into());
    }
    let (code, count) = (source.u32(what)?, source.u64(what)?);
    match code {
        TEXT => read_texts(source, count, what, allowance).map(Array::Texts),
        ARRAY => {
            source.check_room(count, ARRAY_BYTES, what)?;
            allowance.arrays = allowance
                .arrays
                .checked_sub(count)
                .ok_or(GgufError::TooMany {
                    what: "arrays in arrays",
                    limit: MAX_ARRAYS,
                    got: count,
                })?;
            let inner = (0..count).map(|_| read_array(source, what, allowance, depth + 1));
            inner.collect::<Result<_, _>>().map(Array::Arrays)
        }
        _ => {
            let number = number_of(code, what)?;
            let bytes = read_numbers(source, number, count, what)?;
            Ok(Array::Numbers(number, bytes))
        }
    }
}

fn read_texts<R: Read>(
    source: &mut Source<R>,
    count: u64,
    what: &str,
    allowance: &mut Allowance,
) -> Result<Texts, Stop> {
    source.check_room(count, TEXT_BYTES, what)?;
    let left = allowance.strings.checked_sub(count);
    allowance.strings = left.ok_or_else(|| GgufError::too_many_strings(count))?;
    let mut texts = Texts::default();
    for _ in 0..count {
        texts.push(&source.text(what)?);
    }
    Ok(texts)
}
