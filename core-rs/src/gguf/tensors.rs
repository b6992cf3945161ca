//! The tensors of a GGUF file: their description, and whether they fit the file.

use std::io::Read;

use super::{
    error::GgufError,
    limits::{MAX_DIMENSIONS, MAX_NAME_BYTES},
    names::plain,
    source::{Source, Stop},
    types::GgmlType,
};
use crate::error::quote;

/// A tensor according to the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Its name.
    pub name: String,
    /// How its values are stored.
    pub kind: GgmlType,
    /// Its dimensions as ggml has them: values of the first are contiguous.
    pub dimensions: Vec<u64>,
    /// Its first byte, counted from the start of the file.
    pub start: u64,
    /// One past its last byte, without padding.
    pub stop: u64,
}

/// A tensor whose place in the file is not known yet.
pub(super) struct Entry {
    name: String,
    kind: GgmlType,
    dimensions: Vec<u64>,
    offset: u64,
    bytes: u64,
}

/// Reads the entry of one tensor and checks it on its own.
pub(super) fn read<R: Read>(source: &mut Source<R>) -> Result<Entry, Stop> {
    let count = source.u64("a tensor's name")?;
    if count > MAX_NAME_BYTES {
        return Err(GgufError::long_name(count).into());
    }
    let name = plain("tensor name", source.text_of(count, "a tensor's name")?)?;
    let got = source.u32("a tensor's dimensions")?;
    if got > MAX_DIMENSIONS {
        return Err(GgufError::TooManyDimensions { name, got }.into());
    }
    let dimensions = (0..got)
        .map(|_| source.u64("a tensor's dimensions"))
        .collect::<Result<Vec<_>, _>>()?;
    let code = source.u32("a tensor's type")?;
    let offset = source.u64("a tensor's offset")?;
    let Some(kind) = GgmlType::from_code(code) else {
        return Err(GgufError::TensorType { name, code }.into());
    };
    let Some(bytes) = kind.bytes(&dimensions) else {
        return Err(GgufError::Dimensions {
            name,
            kind: kind.name,
            block_values: kind.block_values,
            dimensions,
        }
        .into());
    };
    Ok(Entry {
        name,
        kind,
        dimensions,
        offset,
        bytes,
    })
}

/// Puts tensors in the order of their bytes and checks that each starts where the one before it and its
/// padding end, and that the file ends with the last.
pub(super) fn place(
    mut entries: Vec<Entry>,
    alignment: u64,
    header_bytes: u64,
    file_bytes: u64,
) -> Result<Vec<GgufTensor>, GgufError> {
    let data_start = header_bytes.next_multiple_of(alignment);
    // Stable: tensors without bytes keep their order.
    entries.sort_by_key(|entry| (entry.offset, entry.bytes));
    let (mut expected, mut tensors) = (data_start, Vec::with_capacity(entries.len()));
    for entry in entries {
        let tensor = place_one(entry, alignment, (data_start, expected), file_bytes)?;
        expected = tensor.stop.next_multiple_of(alignment);
        tensors.push(tensor);
    }
    if file_bytes > expected {
        return Err(GgufError::Trailing {
            expected,
            file_bytes,
        });
    }
    Ok(tensors)
}

fn place_one(
    entry: Entry,
    alignment: u64,
    (data_start, expected): (u64, u64),
    file_bytes: u64,
) -> Result<GgufTensor, GgufError> {
    let (name, offset) = (entry.name, entry.offset);
    if !offset.is_multiple_of(alignment) {
        return Err(GgufError::Unaligned {
            name,
            alignment,
            offset,
        });
    }
    let start = data_start.saturating_add(offset);
    if start < expected {
        return Err(GgufError::Overlap {
            name,
            start,
            expected,
        });
    }
    if start > expected {
        return Err(GgufError::Hole {
            name,
            start,
            expected,
        });
    }
    let stop = u128::from(start) + u128::from(entry.bytes);
    // No file is so long that its end, padded, would overflow.
    match u64::try_from(stop)
        .ok()
        .filter(|stop| *stop <= file_bytes.min(i64::MAX as u64))
    {
        Some(stop) => Ok(GgufTensor {
            name,
            kind: entry.kind,
            dimensions: entry.dimensions,
            start,
            stop,
        }),
        None => Err(GgufError::Truncated {
            what: format!("tensor {}", quote(&name)),
            stop,
            file_bytes,
        }),
    }
}

impl Entry {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
