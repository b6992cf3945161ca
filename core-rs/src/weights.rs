//! Weights in memory: float32, float16 or bfloat16, worked on in float32.

use std::ops::Range;

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::error::CoreError;

/// Values along a row that a kernel handles at once. Part of the definition of a scale
/// (see [`crate::signs`]), so it is not a matter of tuning.
pub const BLOCK: usize = 4096;

/// A buffer for one block in float32.
pub(crate) type Scratch = [f32; BLOCK];

/// A row-major matrix of weights, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// float32.
    F32(&'a [f32]),
    /// float16.
    F16(&'a [f16]),
    /// bfloat16.
    Bf16(&'a [bf16]),
}

impl Weights<'_> {
    /// The number of weights.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most [`BLOCK`] weights as float32, which is exact for every type.
    pub(crate) fn block<'s>(&'s self, range: Range<usize>, scratch: &'s mut Scratch) -> &'s [f32] {
        let room = &mut scratch[..range.len()];
        match self {
            Self::F32(values) => return &values[range],
            Self::F16(values) => values[range].convert_to_f32_slice(room),
            Self::Bf16(values) => values[range].convert_to_f32_slice(room),
        }
        room
    }
}

/// A row-major matrix of weights, borrowed to be changed.
#[derive(Debug)]
pub enum WeightsMut<'a> {
    /// float32.
    F32(&'a mut [f32]),
    /// float16.
    F16(&'a mut [f16]),
    /// bfloat16.
    Bf16(&'a mut [bf16]),
}

/// How a weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    F16,
    Bf16,
}

/// Weights that a kernel handles at once on every instruction set.
pub(crate) const CHUNK: usize = 32;

/// One weight of some type. The two functions are the definition of its conversions.
///
/// # Safety
/// A kernel reads and writes weights in memory as what `KIND` names: it must be the type's own.
#[allow(unsafe_code)]
pub(crate) unsafe trait Weight: Copy + Default + Send + Sync + 'static {
    const KIND: Kind;

    /// The same numbers as float32; exact.
    fn widen(weights: &[Self; CHUNK]) -> [f32; CHUNK];

    /// Rounded to nearest, ties to even.
    fn narrow(values: &[f32; CHUNK]) -> [Self; CHUNK];

    /// Changes at most [`BLOCK`] weights through float32, rounding back to nearest, ties to even.
    fn edit(weights: &mut [Self], change: impl FnOnce(&mut [f32]));
}

/// [`Weight::edit`] for the types that are narrower than float32.
fn edit_narrow<W>(weights: &mut [W], change: impl FnOnce(&mut [f32]))
where
    [W]: HalfFloatSliceExt,
{
    let mut scratch = [0.0; BLOCK];
    let room = &mut scratch[..weights.len()];
    weights.convert_to_f32_slice(room);
    change(room);
    weights.convert_from_f32_slice(room);
}

// SAFETY: its own kind.
#[allow(unsafe_code)]
unsafe impl Weight for f32 {
    const KIND: Kind = Kind::F32;

    fn widen(weights: &[Self; CHUNK]) -> [f32; CHUNK] {
        *weights
    }

    fn narrow(values: &[f32; CHUNK]) -> [Self; CHUNK] {
        *values
    }

    fn edit(weights: &mut [Self], change: impl FnOnce(&mut [f32])) {
        change(weights);
    }
}

// SAFETY: its own kind.
#[allow(unsafe_code)]
unsafe impl Weight for f16 {
    const KIND: Kind = Kind::F16;

    fn widen(weights: &[Self; CHUNK]) -> [f32; CHUNK] {
        let mut values = [0.0; CHUNK];
        weights.convert_to_f32_slice(&mut values);
        values
    }

    fn narrow(values: &[f32; CHUNK]) -> [Self; CHUNK] {
        let mut weights = [Self::ZERO; CHUNK];
        weights.convert_from_f32_slice(values);
        weights
    }

    fn edit(weights: &mut [Self], change: impl FnOnce(&mut [f32])) {
        edit_narrow(weights, change);
    }
}

// SAFETY: its own kind.
#[allow(unsafe_code)]
unsafe impl Weight for bf16 {
    const KIND: Kind = Kind::Bf16;

    fn widen(weights: &[Self; CHUNK]) -> [f32; CHUNK] {
        weights.map(|weight| f32::from_bits(u32::from(weight.to_bits()) << 16))
    }

    fn narrow(values: &[f32; CHUNK]) -> [Self; CHUNK] {
        values.map(|value| Self::from_bits(round_to_bf16(value)))
    }

    fn edit(weights: &mut [Self], change: impl FnOnce(&mut [f32])) {
        edit_narrow(weights, change);
    }
}

/// The upper half of a float32, rounded; a NaN stays one. Without a branch, so that it vectorises.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the upper half is what is wanted
fn round_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1));
    let quiet = bits | 0x0040_0000;
    ((if value.is_nan() { quiet } else { rounded }) >> 16) as u16
}

/// The first value of a row that is not finite, as an error.
pub(crate) fn first_not_finite(
    what: &'static str,
    row: usize,
    start: usize,
    values: &[f32],
) -> Option<CoreError> {
    let found = values.iter().position(|value| !value.is_finite())?;
    Some(CoreError::NotFinite {
        what,
        row,
        column: start + found,
        value: values[found],
    })
}

/// Rows that one task takes at least, so that a task outweighs what it costs to start it.
pub(crate) fn rows_per_task(cols: usize) -> usize {
    (1 << 16) / cols.max(1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_bfloat16_agrees_with_the_half_crate_around_every_number() {
        for upper in 0..=u16::MAX {
            for lower in [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                let expected = bf16::from_f32(value).to_bits();
                assert_eq!(round_to_bf16(value), expected, "{upper:04x} {lower:04x}");
            }
        }
    }
}
