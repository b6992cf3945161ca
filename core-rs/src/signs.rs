//! The sign of a difference as one bit, and one scale for a row or for the whole matrix.
//!
//! With `d = tuned - base` in float32 (subtracted after both were widened, which is exact):
//!
//! - **Bits.** 1 where d > 0, else 0: zeros of either sign count as minus. Along a row, least
//!   significant bit first; each row starts a new byte, and the bits that fill up its last byte are 0.
//! - **Scale.** The mean of |d|. A row is cut into blocks of [`BLOCK`] = 4096 values, the last one
//!   shorter. Within a block, value `i` is added in float32 to lane `i mod 32`, in the order of `i`,
//!   each lane starting from 0. A block's sum is its lanes added in order in float64, a row's sum its
//!   blocks in order in float64, the matrix's sum its rows in order in float64. The sum is divided by
//!   the number of values (of the row or of the matrix) in float64 and rounded once to float32.
//! - **Applying** adds +scale or -scale to a weight in float32 and rounds to the weight's type, to
//!   nearest, ties to even. An overflow gives an infinity, as the arithmetic of that type has it.

use rayon::prelude::*;

use crate::{
    error::{CoreError, check_length},
    weights::{BLOCK, Scratch, Weight, Weights, WeightsMut, first_not_finite, rows_per_task},
};

/// Accumulators of a block's sum: value `i` goes to lane `i mod LANES`.
const LANES: usize = 32;

/// Bytes that a row of `cols` signs takes.
#[must_use]
pub fn row_bytes(cols: usize) -> usize {
    cols.div_ceil(8)
}

/// Packs the signs of `tuned - base` and the mean of its absolute values, in one pass.
///
/// `bits` holds [`row_bytes`] bytes for each row, `scales` one value for each row or a single one for
/// the matrix. What they hold after an error is not specified.
///
/// # Errors
/// [`CoreError::Empty`] without any value, [`CoreError::Length`] for buffers that do not fit,
/// [`CoreError::NotFinite`] at the first NaN or infinity in row order, be it in `base`, in `tuned` or
/// in their difference, [`CoreError::SumOverflow`] when their sum leaves float32.
pub fn pack_signs(
    base: Weights<'_>,
    tuned: Weights<'_>,
    cols: usize,
    bits: &mut [u8],
    scales: &mut [f32],
) -> Result<(), CoreError> {
    if base.is_empty() || cols == 0 {
        return Err(CoreError::Empty { what: "base" });
    }
    let rows = base.len().div_ceil(cols);
    check_length("base", rows.saturating_mul(cols), base.len())?;
    check_length("tuned", base.len(), tuned.len())?;
    check_length("bits", rows * row_bytes(cols), bits.len())?;
    check_scales(rows, scales.len())?;
    let sums = pack_rows(base, tuned, cols, bits);
    if let Some(row) = sums.iter().position(|sum| !sum.is_finite()) {
        return Err(refusal(base, tuned, cols, row));
    }
    if scales.len() == rows {
        for (scale, sum) in scales.iter_mut().zip(&sums) {
            *scale = mean(*sum, cols);
        }
    } else {
        scales[0] = mean(sums.iter().sum(), base.len());
    }
    Ok(())
}

/// Packs every row and returns its sum of |d|.
fn pack_rows(base: Weights<'_>, tuned: Weights<'_>, cols: usize, bits: &mut [u8]) -> Vec<f64> {
    bits.par_chunks_mut(row_bytes(cols))
        .with_min_len(rows_per_task(cols))
        .enumerate()
        .map_init(
            || ([0.0; BLOCK], [0.0; BLOCK]),
            |(base_room, tuned_room): &mut (Scratch, Scratch), (row, row_bits)| {
                let mut sum = 0.0;
                for (index, block_bits) in row_bits.chunks_mut(BLOCK / 8).enumerate() {
                    let range = block_range(row, cols, index);
                    sum += pack_block(
                        base.block(range.clone(), base_room),
                        tuned.block(range, tuned_room),
                        block_bits,
                    );
                }
                sum
            },
        )
        .collect()
}

/// Where block `index` of a row lies in the matrix.
fn block_range(row: usize, cols: usize, index: usize) -> std::ops::Range<usize> {
    let start = index * BLOCK;
    row * cols + start..row * cols + cols.min(start + BLOCK)
}

/// The definition of the signs and of the sum of one block.
fn pack_block(base: &[f32], tuned: &[f32], bits: &mut [u8]) -> f64 {
    let mut lanes = [0.0f32; LANES];
    let pairs = base.chunks(LANES).zip(tuned.chunks(LANES));
    for ((base, tuned), bytes) in pairs.zip(bits.chunks_mut(LANES / 8)) {
        let mut word = 0u32;
        for (lane, (base, tuned)) in base.iter().zip(tuned).enumerate() {
            let difference = tuned - base;
            lanes[lane] += difference.abs();
            word |= u32::from(difference > 0.0) << lane;
        }
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
    lanes.iter().map(|lane| f64::from(*lane)).sum()
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // rounded once, as defined
fn mean(sum: f64, count: usize) -> f32 {
    (sum / count as f64) as f32
}

/// Why a row's sum is not finite: the first value at fault, or the sum itself.
fn refusal(base: Weights<'_>, tuned: Weights<'_>, cols: usize, row: usize) -> CoreError {
    let (mut base_room, mut tuned_room) = ([0.0; BLOCK], [0.0; BLOCK]);
    for index in 0..cols.div_ceil(BLOCK) {
        let range = block_range(row, cols, index);
        let base = base.block(range.clone(), &mut base_room);
        let tuned = tuned.block(range, &mut tuned_room);
        let differences: Vec<f32> = tuned.iter().zip(base).map(|(t, b)| t - b).collect();
        let found = [
            ("base", base),
            ("tuned", tuned),
            ("tuned - base", &differences),
        ]
        .into_iter()
        .find_map(|(what, values)| first_not_finite(what, row, index * BLOCK, values));
        if let Some(error) = found {
            return error;
        }
    }
    CoreError::SumOverflow { row }
}

/// Writes +1 for each bit that is 1 and -1 for each that is 0.
///
/// # Errors
/// [`CoreError::Length`] unless `bits` holds [`row_bytes`] bytes for each row of `signs`.
pub fn unpack_signs(bits: &[u8], cols: usize, signs: &mut [f32]) -> Result<(), CoreError> {
    let rows = rows_of("signs", signs.len(), cols)?;
    check_length("bits", rows * row_bytes(cols), bits.len())?;
    if rows == 0 {
        return Ok(());
    }
    signs
        .par_chunks_mut(cols)
        .zip(bits.par_chunks(row_bytes(cols)))
        .with_min_len(rows_per_task(cols))
        .for_each(|(signs, bits)| {
            signs.fill(0.0);
            add_block(signs, bits, 1.0);
        });
    Ok(())
}

/// Adds each sign times its scale to the weights, in place.
///
/// `scales` holds one value for each row or a single one for the matrix.
///
/// # Errors
/// [`CoreError::Length`] for buffers that do not fit, [`CoreError::NotFinite`] for a scale that is
/// NaN or infinite. The weights are then untouched.
pub fn apply_signs(
    weights: WeightsMut<'_>,
    cols: usize,
    bits: &[u8],
    scales: &[f32],
) -> Result<(), CoreError> {
    match weights {
        WeightsMut::F32(weights) => apply_rows(weights, cols, bits, scales),
        WeightsMut::F16(weights) => apply_rows(weights, cols, bits, scales),
        WeightsMut::Bf16(weights) => apply_rows(weights, cols, bits, scales),
    }
}

fn apply_rows<W: Weight>(
    weights: &mut [W],
    cols: usize,
    bits: &[u8],
    scales: &[f32],
) -> Result<(), CoreError> {
    let rows = rows_of("weights", weights.len(), cols)?;
    check_length("bits", rows * row_bytes(cols), bits.len())?;
    check_scales(rows, scales.len())?;
    if let Some(row) = scales.iter().position(|scale| !scale.is_finite()) {
        let value = scales[row];
        return Err(CoreError::NotFinite {
            what: "scale",
            row,
            column: 0,
            value,
        });
    }
    if rows == 0 {
        return Ok(());
    }
    weights
        .par_chunks_mut(cols)
        .zip(bits.par_chunks(row_bytes(cols)))
        .with_min_len(rows_per_task(cols))
        .enumerate()
        .for_each(|(row, (weights, bits))| {
            let scale = scales[row.min(scales.len() - 1)];
            let blocks = weights.chunks_mut(BLOCK).zip(bits.chunks(BLOCK / 8));
            blocks.for_each(|(weights, bits)| {
                W::edit(weights, |values| add_block(values, bits, scale));
            });
        });
    Ok(())
}

/// The definition of applying: adds +scale or -scale.
fn add_block(values: &mut [f32], bits: &[u8], scale: f32) {
    for (values, byte) in values.chunks_mut(8).zip(bits) {
        for (bit, value) in values.iter_mut().enumerate() {
            *value += if byte >> bit & 1 == 1 { scale } else { -scale };
        }
    }
}

/// How many whole rows of `cols` a matrix has.
pub(crate) fn rows_of(what: &'static str, len: usize, cols: usize) -> Result<usize, CoreError> {
    let rows = len.checked_div(cols).unwrap_or(0);
    check_length(what, rows * cols, len)?;
    Ok(rows)
}

fn check_scales(rows: usize, got: usize) -> Result<(), CoreError> {
    if got == 1 && rows > 0 {
        return Ok(());
    }
    check_length("scales", rows, got)
}

#[cfg(test)]
mod tests;
