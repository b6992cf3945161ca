//! Weights as they lie in memory: float32, float16 or bfloat16, worked on in float32.

use std::ops::Range;

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::error::CoreError;

/// Values along a row that a kernel handles at once. Part of the definition of a scale
/// (see [`crate::signs`]), so it is not a matter of tuning.
pub const BLOCK: usize = 4096;

/// Room for one block in float32.
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
    /// How many weights there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }

    /// Whether there is none.
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

/// One weight of some type.
pub(crate) trait Weight: Copy + Send + Sync {
    /// Changes at most [`BLOCK`] weights through float32, rounding back to nearest, ties to even.
    fn edit(weights: &mut [Self], change: impl FnOnce(&mut [f32]));
}

impl Weight for f32 {
    fn edit(weights: &mut [Self], change: impl FnOnce(&mut [f32])) {
        change(weights);
    }
}

impl Weight for f16 {
    fn edit(weights: &mut [Self], change: impl FnOnce(&mut [f32])) {
        let mut scratch = [0.0; BLOCK];
        let room = &mut scratch[..weights.len()];
        weights.convert_to_f32_slice(room);
        change(room);
        weights.convert_from_f32_slice(room);
    }
}

impl Weight for bf16 {
    fn edit(weights: &mut [Self], change: impl FnOnce(&mut [f32])) {
        let mut scratch = [0.0; BLOCK];
        let room = &mut scratch[..weights.len()];
        weights.convert_to_f32_slice(room);
        change(room);
        weights.convert_from_f32_slice(room);
    }
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
