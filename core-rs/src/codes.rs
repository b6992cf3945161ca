//! Two-bit codes in groups along a row, each group with a float16 scale and a zero point.
//!
//! A row is cut into groups, the last one shorter. All arithmetic is float32, rounded to nearest with
//! ties to even; `rint` rounds to an integer in the same way. For each group:
//!
//! 1. `low = min(0, values)`, `high = max(0, values)`, `range = high - low`.
//! 2. `scale` = `range / 3` rounded to float16, and one float16 further up if `3 * scale < range`: so
//!    the four codes always reach over the whole range, and only a group of zeros has the scale 0
//!    (the smallest other one is 2^-24, float16's smallest number).
//! 3. `zero = min(192, rint(-low / scale * 64))`: the position of zero among the codes, in 64ths of a step.
//! 4. `code = rint(value / scale + zero / 64)`, held within 0 to 3.
//!
//! A group of zeros has scale 0, zero 0 and codes 0. A value reads back as
//! `(code - zero / 64) * scale`, which float32 represents exactly, and is at most half a step off (and a
//! rounding error of float32).
//!
//! Four codes per byte, the lowest two bits first; each row starts a new byte, and the padding bits
//! of its last byte are 0. `codes` has `ceil(cols / 4)` bytes for each row, `scales` and `zeros` have
//! `ceil(cols / group)` entries for each row.

pub mod groups;
pub mod product;

use half::f16;
use rayon::{
    iter::IndexedParallelIterator,
    slice::{ParallelSlice, ParallelSliceMut},
};

use crate::{
    error::{CoreError, check_length},
    signs::rows_of,
    threads,
    weights::{first_not_finite, rows_per_task},
};

/// The maximum zero point: the last code.
const LAST_ZERO: f32 = 192.0;

/// Parts of a step in which the zero point is counted.
const ZERO_PARTS: f32 = 64.0;

/// A matrix in codes, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Codes<'a> {
    /// Four codes to a byte.
    pub codes: &'a [u8],
    /// One scale for each group.
    pub scales: &'a [f16],
    /// One zero point for each group.
    pub zeros: &'a [u8],
}

/// A matrix in codes, borrowed to be written.
#[derive(Debug)]
pub struct CodesMut<'a> {
    /// Four codes to a byte.
    pub codes: &'a mut [u8],
    /// One scale for each group.
    pub scales: &'a mut [f16],
    /// One zero point for each group.
    pub zeros: &'a mut [u8],
}

/// Bytes that a row of `cols` codes takes.
#[must_use]
pub fn row_bytes(cols: usize) -> usize {
    cols.div_ceil(4)
}

/// Packs a matrix into two-bit codes.
///
/// # Errors
/// [`CoreError::Empty`] without values or with empty groups, [`CoreError::Length`] for
/// buffers that do not fit, [`CoreError::NotFinite`] at the first NaN or infinity in row order,
/// [`CoreError::StepOverflow`] for a group that float16 cannot scale. The content of `out` is then
/// unspecified.
pub fn pack_codes2(
    values: &[f32],
    cols: usize,
    group: usize,
    out: CodesMut<'_>,
) -> Result<(), CoreError> {
    let what = "values";
    if values.is_empty() || cols == 0 || group == 0 {
        return Err(CoreError::Empty { what });
    }
    let rows = rows_of(what, values.len(), cols)?;
    let groups = cols.div_ceil(group);
    let CodesMut {
        codes,
        scales,
        zeros,
    } = out;
    check_sizes(rows, cols, groups, codes.len(), scales.len(), zeros.len())?;
    let lines = values
        .par_chunks(cols)
        .zip(codes.par_chunks_mut(row_bytes(cols)))
        .zip(scales.par_chunks_mut(groups))
        .zip(zeros.par_chunks_mut(groups))
        .enumerate();
    threads::try_each(lines, rows_per_task(cols), |(row, line)| {
        let (((values, codes), scales), zeros) = line;
        let out = CodesMut {
            codes,
            scales,
            zeros,
        };
        pack_row(row, values, group, out)
    })
}

fn pack_row(row: usize, values: &[f32], group: usize, out: CodesMut<'_>) -> Result<(), CoreError> {
    out.codes.fill(0);
    let grid = out.scales.iter_mut().zip(out.zeros);
    for (index, (values, (scale, zero))) in values.chunks(group).zip(grid).enumerate() {
        let start = index * group;
        if let Some(error) = first_not_finite("value", row, start, values) {
            return Err(error);
        }
        (*scale, *zero) = choose_grid(values).map_err(|step| CoreError::StepOverflow {
            row,
            start,
            last: start + values.len() - 1,
            step,
        })?;
        for (column, value) in (start..).zip(values) {
            out.codes[column / 4] |= encode(*value, *scale, *zero) << (column % 4 * 2);
        }
    }
    Ok(())
}

/// The definition of a group's scale and zero point; the error is a step beyond float16.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an integer from 0 to 192
fn choose_grid(values: &[f32]) -> Result<(f16, u8), f32> {
    let low = values.iter().copied().fold(0.0, f32::min);
    let high = values.iter().copied().fold(0.0, f32::max);
    let range = high - low;
    if range == 0.0 {
        return Ok((f16::ZERO, 0));
    }
    let step = range / 3.0;
    let mut scale = f16::from_f32(step);
    if 3.0 * scale.to_f32() < range {
        scale = f16::from_bits(scale.to_bits() + 1);
    }
    if !scale.is_finite() {
        return Err(step);
    }
    let zero = (-low / scale.to_f32() * ZERO_PARTS).round_ties_even();
    Ok((scale, zero.min(LAST_ZERO) as u8))
}

/// The definition of a value's code.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an integer from 0 to 3
fn encode(value: f32, scale: f16, zero: u8) -> u8 {
    if scale == f16::ZERO {
        return 0;
    }
    let place = value / scale.to_f32() + f32::from(zero) / ZERO_PARTS;
    place.round_ties_even().clamp(0.0, 3.0) as u8
}

/// Reads a matrix back from two-bit codes.
///
/// # Errors
/// [`CoreError::Empty`] with empty groups, [`CoreError::Length`] for buffers that do not fit,
/// [`CoreError::NotFinite`] for a scale that is NaN or infinite.
pub fn unpack_codes2(
    packed: Codes<'_>,
    cols: usize,
    group: usize,
    values: &mut [f32],
) -> Result<(), CoreError> {
    if group == 0 {
        return Err(CoreError::Empty { what: "group" });
    }
    let rows = rows_of("values", values.len(), cols)?;
    let groups = cols.div_ceil(group);
    let Codes {
        codes,
        scales,
        zeros,
    } = packed;
    check_sizes(rows, cols, groups, codes.len(), scales.len(), zeros.len())?;
    if let Some(found) = scales.iter().position(|scale| !scale.is_finite()) {
        return Err(CoreError::NotFinite {
            what: "scale",
            row: found / groups,
            column: found % groups,
            value: scales[found].to_f32(),
        });
    }
    if rows == 0 {
        return Ok(());
    }
    let lines = values
        .par_chunks_mut(cols)
        .zip(codes.par_chunks(row_bytes(cols)))
        .zip(scales.par_chunks(groups))
        .zip(zeros.par_chunks(groups));
    threads::for_each(lines, rows_per_task(cols), |line| {
        let (((values, codes), scales), zeros) = line;
        let packed = Codes {
            codes,
            scales,
            zeros,
        };
        unpack_row(packed, group, values);
    })
}

/// The definition of reading a row back.
fn unpack_row(packed: Codes<'_>, group: usize, values: &mut [f32]) {
    let grid = packed.scales.iter().zip(packed.zeros);
    for (index, (values, (scale, zero))) in values.chunks_mut(group).zip(grid).enumerate() {
        let (scale, zero) = (scale.to_f32(), f32::from(*zero) / ZERO_PARTS);
        for (column, value) in (index * group..).zip(values) {
            let code = packed.codes[column / 4] >> (column % 4 * 2) & 3;
            *value = (f32::from(code) - zero) * scale;
        }
    }
}

fn check_sizes(
    rows: usize,
    cols: usize,
    groups: usize,
    codes: usize,
    scales: usize,
    zeros: usize,
) -> Result<(), CoreError> {
    check_length("codes", rows * row_bytes(cols), codes)?;
    check_length("scales", rows * groups, scales)?;
    check_length("zeros", rows * groups, zeros)
}

#[cfg(test)]
mod tests;
