//! Codes of few bits in groups of 128 along a row, each group with one float16 scale.
//!
//! With `d` the values, or `tuned - base` in float32 (both widened first, which is exact), and `mean`
//! of a group the sum of its |d| divided by their number, in float64: value `i` of the group is added
//! in float32 to lane `i mod 32`, the lanes are added in order in float64. `f16(x)` rounds to nearest,
//! ties to even. Each codec has a digit for each value and a rule for the scale:
//!
//! | codec | digits | value | scale |
//! |---|---|---|---|
//! | [`Codec::Sign`] | 0, 1 | `-scale`, `scale` | `f16(mean)` |
//! | [`Codec::Ternary`] | 0 to 2 | `(digit - 1) * scale` | refitted, from the threshold 0.75 mean |
//! | [`Codec::Int2`] | 0 to 3 | `(digit - 1.5) * scale` | refitted, from 1.25 mean |
//! | [`Codec::Int4`] | 1 to 15 | `(digit - 8) * scale` | the largest \|d\| / 7, reaching over it |
//! | [`Codec::Int8`] | 1 to 255 | `(digit - 128) * scale` | the largest \|d\| / 127, reaching over it |
//!
//! `groups/scalar.rs` defines both to the last bit. Every value is exact in float32, so applying rounds
//! once for the sum and once to the type of the weights, to nearest, ties to even.
//!
//! As many digits per byte as fit, the first one lowest: eight of a sign, four, two or one of the
//! integers, five of the ternary ones as a number in base 3. Each row starts a new byte, and what is
//! left of its last byte is 0.

use half::f16;
use rayon::{
    iter::IndexedParallelIterator,
    slice::{ParallelSlice, ParallelSliceMut},
};

use crate::{
    error::{CoreError, check_length},
    isa::{Isa, compiled, dispatch},
    signs::rows_of,
    threads,
    weights::{BLOCK, Scratch, Weight, Weights, WeightsMut, first_not_finite, rows_per_task},
};

mod codec;
mod scalar;

pub use codec::{Codec, GROUP};

compiled! { avx2, avx512, neon:
    fn pack_block(kind: Codec, values: &[f32], codes: &mut [u8], scales: &mut [f16]) = scalar::pack_block;
    fn apply_block(kind: Codec, codes: &[u8], scales: &[f16], values: &mut [f32]) = scalar::apply_block;
}

/// The largest byte of five ternary digits.
const LAST_TERNARY: u8 = 242;

/// Scales that a row of `cols` values has.
#[must_use]
pub fn row_groups(cols: usize) -> usize {
    cols.div_ceil(GROUP)
}

/// Packs a matrix, or the difference of two, into digits.
///
/// # Errors
/// [`CoreError::Empty`] without values, [`CoreError::Length`] for buffers that do not fit,
/// [`CoreError::NotFinite`] at the first NaN or infinity in row order, be it in `base`, in `tuned` or
/// in their difference, [`CoreError::ScaleOverflow`] for a group that float16 cannot scale. What
/// `codes` and `scales` contain then is unspecified.
pub fn pack_groups(
    kind: Codec,
    base: Option<Weights<'_>>,
    tuned: Weights<'_>,
    cols: usize,
    codes: &mut [u8],
    scales: &mut [f16],
    isa: Isa,
) -> Result<(), CoreError> {
    if tuned.is_empty() || cols == 0 {
        return Err(CoreError::Empty { what: "values" });
    }
    let rows = rows_of("values", tuned.len(), cols)?;
    if let Some(base) = base {
        check_length("base", tuned.len(), base.len())?;
    }
    check_length("codes", rows * kind.row_bytes(cols), codes.len())?;
    check_length("scales", rows * row_groups(cols), scales.len())?;
    let lines = codes
        .par_chunks_mut(kind.row_bytes(cols))
        .zip(scales.par_chunks_mut(row_groups(cols)))
        .enumerate();
    threads::try_each(lines, rows_per_task(cols), |(row, (codes, scales))| {
        let source = Source {
            base,
            tuned,
            row,
            cols,
        };
        pack_row(kind, &source, codes, scales, isa)
    })
}

/// A row to pack.
struct Source<'a> {
    base: Option<Weights<'a>>,
    tuned: Weights<'a>,
    row: usize,
    cols: usize,
}

fn pack_row(
    kind: Codec,
    source: &Source<'_>,
    codes: &mut [u8],
    scales: &mut [f16],
    isa: Isa,
) -> Result<(), CoreError> {
    let block = kind.block();
    let pieces = codes
        .chunks_mut(block / kind.per_byte())
        .zip(scales.chunks_mut(block / GROUP));
    let mut values = [0.0; BLOCK];
    for (index, (codes, scales)) in pieces.enumerate() {
        let start = index * block;
        let len = block.min(source.cols - start);
        let values = &mut values[..len];
        read_block(source, start, values)?;
        let values = &*values;
        dispatch!(isa, pack_block(kind, values, codes, scales));
        if let Some(group) = scales.iter().position(|scale| !scale.is_finite()) {
            let first = start + group * GROUP;
            return Err(CoreError::ScaleOverflow {
                row: source.row,
                start: first,
                last: source.cols.min(first + GROUP) - 1,
            });
        }
    }
    Ok(())
}

/// Writes the values of a block, or its differences, and refuses what is not finite.
fn read_block(source: &Source<'_>, start: usize, values: &mut [f32]) -> Result<(), CoreError> {
    let (mut base_room, mut tuned_room): (Scratch, Scratch) = ([0.0; BLOCK], [0.0; BLOCK]);
    let from = source.row * source.cols + start;
    let range = from..from + values.len();
    let tuned = source.tuned.block(range.clone(), &mut tuned_room);
    values.copy_from_slice(tuned);
    let mut base: &[f32] = &[];
    if let Some(weights) = &source.base {
        base = weights.block(range, &mut base_room);
        for (value, base) in values.iter_mut().zip(base) {
            *value -= base;
        }
    }
    if values.iter().fold(true, |ok, value| ok & value.is_finite()) {
        return Ok(());
    }
    let names = [("base", base), ("tuned", tuned), ("tuned - base", values)];
    let found = names
        .into_iter()
        .find_map(|(what, values)| first_not_finite(what, source.row, start, values));
    found.map_or(Ok(()), Err)
}

/// Adds decoded digits to the weights, in place.
///
/// # Errors
/// [`CoreError::Length`] for buffers that do not fit, [`CoreError::NotFinite`] for a scale that is NaN
/// or infinite (its group as the column), [`CoreError::Digits`] for a byte that is not five ternary
/// digits. The weights are then untouched.
pub fn apply_groups(
    kind: Codec,
    weights: WeightsMut<'_>,
    cols: usize,
    codes: &[u8],
    scales: &[f16],
    isa: Isa,
) -> Result<(), CoreError> {
    match weights {
        WeightsMut::F32(weights) => apply_rows(kind, weights, cols, codes, scales, isa),
        WeightsMut::F16(weights) => apply_rows(kind, weights, cols, codes, scales, isa),
        WeightsMut::Bf16(weights) => apply_rows(kind, weights, cols, codes, scales, isa),
    }
}

fn apply_rows<W: Weight>(
    kind: Codec,
    weights: &mut [W],
    cols: usize,
    codes: &[u8],
    scales: &[f16],
    isa: Isa,
) -> Result<(), CoreError> {
    let rows = rows_of("weights", weights.len(), cols)?;
    check_length("codes", rows * kind.row_bytes(cols), codes.len())?;
    check_length("scales", rows * row_groups(cols), scales.len())?;
    check_content(kind, cols, codes, scales)?;
    if rows == 0 {
        return Ok(());
    }
    let block = kind.block();
    let lines = weights
        .par_chunks_mut(cols)
        .zip(codes.par_chunks(kind.row_bytes(cols)))
        .zip(scales.par_chunks(row_groups(cols)));
    threads::for_each(lines, rows_per_task(cols), |((weights, codes), scales)| {
        let pieces = codes
            .chunks(block / kind.per_byte())
            .zip(scales.chunks(block / GROUP));
        for (weights, (codes, scales)) in weights.chunks_mut(block).zip(pieces) {
            W::edit(weights, |values| {
                dispatch!(isa, apply_block(kind, codes, scales, values));
            });
        }
    })
}

fn check_content(kind: Codec, cols: usize, codes: &[u8], scales: &[f16]) -> Result<(), CoreError> {
    let groups = row_groups(cols);
    if let Some(found) = scales.iter().position(|scale| !scale.is_finite()) {
        return Err(CoreError::NotFinite {
            what: "scale",
            row: found / groups,
            column: found % groups,
            value: scales[found].to_f32(),
        });
    }
    if kind != Codec::Ternary || codes.iter().fold(0, |top, code| top.max(*code)) <= LAST_TERNARY {
        return Ok(());
    }
    let row_bytes = kind.row_bytes(cols);
    let found = codes.iter().position(|code| *code > LAST_TERNARY);
    found.map_or(Ok(()), |found| {
        Err(CoreError::Digits {
            row: found / row_bytes,
            byte: found % row_bytes,
            got: codes[found],
        })
    })
}

#[cfg(test)]
mod tests;
