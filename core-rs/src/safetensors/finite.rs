//! A search for NaN and infinities in the tensors' own bytes.

use rayon::{iter::IndexedParallelIterator, slice::ParallelSlice};

use super::{error::HeaderError, header::TensorInfo};
use crate::{error::CoreError, files::OpenFile, threads};

/// Bytes read at a time; a multiple of values of every type.
const PIECE_BYTES: u64 = 4 << 20;

/// Bytes that one thread searches at once.
const BLOCK_BYTES: usize = 64 << 10;

/// How a type spells what is not finite, in its lowest `bytes` bytes.
#[derive(Clone, Copy)]
struct Spelling {
    bytes: usize,
    /// Without the sign, from where on a value is not finite.
    from: u64,
    /// The infinity among them, where there is one.
    infinity: Option<u64>,
    /// The bits that are looked at.
    mask: u64,
}

const fn ieee(bytes: usize, infinity: u64) -> Spelling {
    Spelling {
        bytes,
        from: infinity,
        infinity: Some(infinity),
        mask: u64::MAX >> (65 - 8 * bytes),
    }
}

const fn only_nan(from: u64, mask: u64) -> Spelling {
    Spelling {
        bytes: 1,
        from,
        infinity: None,
        mask,
    }
}

impl Spelling {
    /// None for integers, and for the short types that have finite values only.
    fn of(dtype: &str) -> Option<Self> {
        Some(match dtype {
            "F64" => ieee(8, 0x7FF0_0000_0000_0000),
            "F32" | "C64" => ieee(4, 0x7F80_0000),
            "F16" => ieee(2, 0x7C00),
            "BF16" => ieee(2, 0x7F80),
            "F8_E5M2" => ieee(1, 0x7C),
            "F8_E4M3" => only_nan(0x7F, 0x7F),
            "F8_E8M0" => only_nan(0xFF, 0xFF),
            // Minus zero stands for NaN: the sign counts, and one code alone.
            "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => only_nan(0x80, 0xFF),
            _ => return None,
        })
    }

    /// The first value that is not finite, by its place.
    fn find(self, dtype: &str, bytes: &[u8]) -> Option<(usize, &'static str)> {
        let wrong = |value: u64| value >= self.from;
        let exactly = |value: u64| value == self.from;
        let place = match self.bytes {
            1 if dtype.ends_with("FNUZ") => bytes.iter().position(|b| exactly(u64::from(*b))),
            1 => bytes.iter().position(|b| wrong(u64::from(*b) & self.mask)),
            size => bytes
                .chunks_exact(size)
                .position(|b| wrong(little_endian(b) & self.mask)),
        }?;
        let found = little_endian(&bytes[place * self.bytes..][..self.bytes]) & self.mask;
        let infinite = self.infinity == Some(found);
        Some((place, if infinite { "an infinity" } else { "NaN" }))
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// What is wrong with the first tensor with a NaN or an infinity.
pub(super) fn search(
    file: &OpenFile,
    tensors: &[TensorInfo],
) -> Result<Option<HeaderError>, CoreError> {
    for tensor in tensors {
        let Some(spelling) = Spelling::of(tensor.dtype.name) else {
            continue;
        };
        if let Some((place, value)) = search_tensor(file, tensor, spelling)? {
            return Ok(Some(HeaderError::NotFinite {
                name: tensor.name.clone(),
                value,
                index: index_of(place, tensor),
            }));
        }
    }
    Ok(None)
}

/// The first value of a tensor that is not finite, by its number.
fn search_tensor(
    file: &OpenFile,
    tensor: &TensorInfo,
    spelling: Spelling,
) -> Result<Option<(u64, &'static str)>, CoreError> {
    let mut at = tensor.start;
    while at < tensor.stop {
        let piece = file.range(at, PIECE_BYTES.min(tensor.stop - at))?;
        let blocks = piece.par_chunks(BLOCK_BYTES).enumerate();
        let found = threads::find_first(blocks, 1, |(number, block)| {
            let (place, value) = spelling.find(tensor.dtype.name, block)?;
            Some((number * BLOCK_BYTES / spelling.bytes + place, value))
        })?;
        if let Some((place, value)) = found {
            let before = (at - tensor.start) / spelling.bytes as u64;
            return Ok(Some((before + place as u64, value)));
        }
        at += piece.len() as u64;
    }
    Ok(None)
}

/// A value's number as an index of its tensor.
fn index_of(place: u64, tensor: &TensorInfo) -> Vec<u64> {
    // A complex number is two values.
    let mut rest = if tensor.dtype.name == "C64" {
        place / 2
    } else {
        place
    };
    let mut index = Vec::with_capacity(tensor.shape.len());
    for size in tensor.shape.iter().rev() {
        index.push(rest % size);
        rest /= size;
    }
    index.reverse();
    index
}

#[cfg(test)]
mod tests;
