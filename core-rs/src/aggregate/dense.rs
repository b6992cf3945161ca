//! Trimmed mean, median and mean around the median of plain contributions, float32, float16 or bfloat16.
//!
//! For each column: the values as float32 in ascending order, the `trim` lowest and highest dropped;
//! the rest added in ascending order in float64, starting from 0, divided by their number and rounded
//! to float32. (Zeros of either sign are equal, and a sum that starts from 0 does not distinguish them.)
//!
//! The mean around the median (Bulyan's last step, arXiv:1802.07927): the median m is the middle value, or
//! half the sum of the two in the middle, in float64; of the values in ascending order those `keep`
//! neighbours are kept of which the last is no farther from m than the one before the first, the lowest such;
//! they are added as above.
//!
//! The rows are sorted against each other by a network of comparators, 16 columns at a time: no branch
//! depends on a value. O(n log^2 n d).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod network;
mod scalar;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use super::{Refusal, check_rows, check_trim, strips::AHEAD};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    prefetch, threads,
    weights::{BLOCK, Weights},
};

/// Columns that are sorted at once.
const WIDTH: usize = 16;
/// Columns that are read at once: enough for the processor to see a row of memory coming.
const READ: usize = 256;

/// [`WIDTH`] columns of one row, in a cache line of their own.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; WIDTH]);

/// What fills up the rows to whole blocks: above every value.
const ABOVE: Line = Line([f32::INFINITY; WIDTH]);

/// Writes the trimmed mean of the rows for each column.
///
/// # Errors
/// [`Refusal`] for rows of unequal length, a trim that keeps nothing, or a NaN or
/// infinity: that of the first contributor who has one, and there the first.
pub fn trimmed_mean(
    isa: Isa,
    rows: &[Weights<'_>],
    trim: usize,
    means: &mut [f32],
) -> Result<(), CoreError> {
    let lengths = rows.iter().map(Weights::len);
    let cols = lengths.clone().next().unwrap_or(0);
    check_rows(lengths, cols, "values")?;
    check_trim(rows.len(), trim)?;
    for_lines(rows, cols, means, |lines, line| {
        dispatch!(isa, trimmed(rows.len(), trim, lines, line));
    })
}

/// Writes the mean of the `keep` values around the median for each column.
///
/// # Errors
/// [`Refusal`] as [`trimmed_mean`], and for no value kept or more than there are.
pub fn near_median(
    isa: Isa,
    rows: &[Weights<'_>],
    keep: usize,
    means: &mut [f32],
) -> Result<(), CoreError> {
    let lengths = rows.iter().map(Weights::len);
    let cols = lengths.clone().next().unwrap_or(0);
    check_rows(lengths, cols, "values")?;
    if keep == 0 || keep > rows.len() {
        let rows = rows.len();
        return Err(Refusal::Keep { rows, keep }.into());
    }
    for_lines(rows, cols, means, |lines, line| {
        dispatch!(isa, sort(lines));
        for (column, mean) in line.0.iter_mut().enumerate() {
            *mean = around_median(&lines[..rows.len()], column, keep);
        }
    })
}

/// The mean of the sorted values around the median.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // rounded, as defined
fn around_median(lines: &[Line], column: usize, keep: usize) -> f32 {
    let value = |row: usize| f64::from(lines[row].0[column]);
    let (low, high) = ((lines.len() - 1) / 2, lines.len() / 2);
    let median = f64::midpoint(value(low), value(high));
    let mut first = 0;
    while first + keep < lines.len() && value(first + keep) - median < median - value(first) {
        first += 1;
    }
    let sum = (first..first + keep).fold(0.0, |sum, row| sum + value(row));
    (sum / keep as f64) as f32
}

/// Calls `work` with each [`WIDTH`] columns of all rows, filled up to whole blocks of rows, and the line of
/// their results.
fn for_lines(
    rows: &[Weights<'_>],
    cols: usize,
    means: &mut [f32],
    work: impl Fn(&mut [Line], &mut Line) + Sync + Send,
) -> Result<(), CoreError> {
    check_length("means", cols, means.len())?;
    let padded = rows.len().next_multiple_of(network::BLOCK_ROWS);
    let finite = AtomicBool::new(true);
    let blocks = means.par_chunks_mut(READ).enumerate();
    let room = || vec![ABOVE; READ / WIDTH * padded];
    threads::for_each_with(blocks, 1, room, |room, (block, means)| {
        finite.fetch_and(read(rows, block * READ, means.len(), room), Relaxed);
        for (lines, means) in room.chunks_mut(padded).zip(means.chunks_mut(WIDTH)) {
            let mut line = ABOVE;
            work(lines, &mut line);
            means.copy_from_slice(&line.0[..means.len()]);
        }
    })?;
    if finite.into_inner() {
        Ok(())
    } else {
        Err(refusal(rows, cols))
    }
}

/// Copies some columns of all rows, [`WIDTH`] of them after the other, where the rows' lines are filled
/// up already; returns whether all are finite.
fn read(rows: &[Weights<'_>], start: usize, width: usize, room: &mut [Line]) -> bool {
    let padded = room.len() / (READ / WIDTH);
    let mut largest = [0; WIDTH];
    let mut scratch = [0.0; BLOCK];
    for (index, row) in rows.iter().enumerate() {
        match rows.get(index + AHEAD) {
            Some(Weights::F32(later)) => prefetch::now(&later[start..start + width]),
            Some(Weights::F16(later)) => prefetch::now(&later[start..start + width]),
            Some(Weights::Bf16(later)) => prefetch::now(&later[start..start + width]),
            None => {}
        }
        let values = row.block(start..start + width, &mut scratch);
        let lines = room[index..].iter_mut().step_by(padded);
        for (line, values) in lines.zip(values.chunks(WIDTH)) {
            if let Some(values) = values.first_chunk() {
                line.0 = *values;
            } else {
                line.0.fill(0.0);
                line.0[..values.len()].copy_from_slice(values);
            }
            for (largest, value) in largest.iter_mut().zip(line.0) {
                *largest = (*largest).max(value.to_bits() & 0x7fff_ffff);
            }
        }
    }
    largest.iter().all(|bits| *bits < f32::INFINITY.to_bits())
}

/// The invalid value.
pub(super) fn refusal(rows: &[Weights<'_>], cols: usize) -> CoreError {
    let mut scratch = [0.0; BLOCK];
    for (row, weights) in rows.iter().enumerate() {
        for start in (0..cols).step_by(BLOCK) {
            let values = weights.block(start..cols.min(start + BLOCK), &mut scratch);
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                let (index, value) = (start + at, values[at]);
                return Refusal::NotFinite { row, index, value }.into();
            }
        }
    }
    CoreError::Changed { what: "rows" }
}
