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

fn multiply_rows(isa: Isa, weights: &[bf16], cols: usize, x: &[[f32; LANES]], y: &mut [f32]) {
    for (y, weights) in y.chunks_mut(ROWS).zip(weights.chunks(ROWS * cols)) {
        let first = &weights[..cols];
        let row = |row: usize| weights.chunks_exact(cols).nth(row).unwrap_or(first);
        let lanes = lanes_of_rows(isa, std::array::from_fn(row), x);
        for (y, lanes) in y.iter_mut().zip(&lanes) {
            *y = total(lanes);
        }
    }
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
