//! A bf16 matrix times one token: what the products with bits are measured against.
//!
//! Within a row, input `i` times its weight, rounded to float32, is added to lane `i mod 32` in the
//! order of `i`, in float32, each lane starting from 0. The lanes are added in float64, those of even
//! inputs in order and then those of odd ones, and rounded once. NaN and infinity go through as the
//! arithmetic has them.

use half::bf16;
use rayon::{
    iter::IndexedParallelIterator,
    slice::{ParallelSlice, ParallelSliceMut},
};

#[cfg(target_arch = "aarch64")]
use super::neon;
use super::scalar::{self, LANES, ROWS};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    threads,
};

/// Rows that a thread takes at a time.
const CHUNK: usize = 64;
/// Bytes ahead in its row that memory is asked for.
#[cfg(target_arch = "x86_64")]
pub(super) const AHEAD: usize = 256;

/// Writes the product of one token with every row of weights.
///
/// # Errors
/// [`CoreError::Length`] if `weights` is not `y.len()` rows of `x.len()`.
pub fn multiply_dense(
    isa: Isa,
    weights: &[bf16],
    x: &[f32],
    y: &mut [f32],
) -> Result<(), CoreError> {
    let cols = x.len();
    check_length("weights", y.len().saturating_mul(cols), weights.len())?;
    if cols == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let x: Vec<[f32; LANES]> = x.chunks(LANES).map(even_first).collect();
    let chunks = y.par_chunks_mut(CHUNK);
    let chunks = chunks.zip(weights.par_chunks(CHUNK * cols));
    threads::for_each(chunks, 1, |(y, weights)| {
        multiply_rows(isa, weights, cols, &x, y);
    })
}

/// Four rows at a time; where a kernel reads them side by side, from four places, each of which goes on with
/// the next row: neighbouring rows side by side come from memory at half the rate.
fn multiply_rows(isa: Isa, weights: &[bf16], cols: usize, x: &[[f32; LANES]], y: &mut [f32]) {
    let quarter = y.len().div_ceil(ROWS);
    let row = |row: usize| weights.chunks_exact(cols).nth(row);
    for first in 0..quarter {
        let numbers: [usize; ROWS] = std::array::from_fn(|part| {
            if side_by_side(isa) {
                first + part * quarter
            } else {
                ROWS * first + part
            }
        });
        let rows = numbers.map(|number| row(number).unwrap_or(&weights[..cols]));
        let lanes = lanes_of_rows(isa, rows, x);
        for (number, lanes) in numbers.into_iter().zip(&lanes) {
            if let Some(y) = y.get_mut(number) {
                *y = total(lanes);
            }
        }
    }
}

/// Whether a kernel reads its rows side by side, and not one after the other.
fn side_by_side(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Isa::Avx512(_) = isa {
        return true;
    }
    let _ = isa;
    false
}

/// Up to 32 inputs, those of even index first; zeros follow.
fn even_first(x: &[f32]) -> [f32; LANES] {
    std::array::from_fn(|lane| x.get(lane % 16 * 2 + lane / 16).copied().unwrap_or(0.0))
}

fn lanes_of_rows(isa: Isa, rows: [&[bf16]; ROWS], x: &[[f32; LANES]]) -> [[f32; LANES]; ROWS] {
    let whole = rows[0].len() / LANES;
    let mut lanes = dispatch!(isa, dense(rows, &x[..whole]));
    if let Some(x) = x.get(whole) {
        for (row, lanes) in rows.iter().zip(&mut lanes) {
            for (at, weight) in row[whole * LANES..].iter().enumerate() {
                let lane = at % 2 * 16 + at / 2;
                lanes[lane] += weight.to_f32() * x[lane];
            }
        }
    }
    lanes
}

#[allow(clippy::cast_possible_truncation)] // the one rounding
fn total(lanes: &[f32; LANES]) -> f32 {
    lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>() as f32
}
