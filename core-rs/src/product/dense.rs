//! A bf16 matrix times a few tokens, each of which reads a row while it is in the first cache.
//!
//! Within a row and for a token, input `i` times its weight, rounded to float32, is added to lane `i mod 32` in the
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
use super::scalar::{self, Inputs, LANES, ROWS};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    threads,
};

/// Rows that a thread takes at a time: enough that the places it reads from are long.
const CHUNK: usize = 256;
/// Prefetch distance in a row, in bytes.
#[cfg(target_arch = "x86_64")]
pub(super) const AHEAD: usize = 256;

/// Writes the product of every token with every row of weights.
///
/// `x` is `[tokens, cols]` and `y` `[tokens, rows]`.
///
/// # Errors
/// [`CoreError::Length`] if `x` is not `tokens` rows, or `weights` does not fit `x` and `y`.
pub fn multiply_dense(
    isa: Isa,
    weights: &[bf16],
    x: &[f32],
    y: &mut [f32],
    tokens: usize,
) -> Result<(), CoreError> {
    let (cols, rows) = (x.len() / tokens.max(1), y.len() / tokens.max(1));
    check_length("x", tokens * cols, x.len())?;
    check_length("y", tokens * rows, y.len())?;
    if tokens == 0 {
        return Ok(());
    }
    check_length("weights", rows.saturating_mul(cols), weights.len())?;
    if cols == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let x: Vec<Vec<Inputs>> = x
        .chunks(cols)
        .map(|x| x.chunks(LANES).map(even_first).collect())
        .collect();
    let mut sums = vec![0.0; y.len()];
    let chunks = sums.par_chunks_mut(CHUNK * tokens);
    let chunks = chunks.zip(weights.par_chunks(CHUNK * cols));
    threads::for_each(chunks, 1, |(sums, weights)| {
        multiply_rows(isa, weights, cols, &x, sums);
    })?;
    for (token, y) in y.chunks_mut(rows.max(1)).enumerate() {
        for (y, sum) in y.iter_mut().zip(sums.iter().skip(token).step_by(tokens)) {
            *y = *sum;
        }
    }
    Ok(())
}

/// Four rows at a time, from as many places as the kernel reads side by side, each of which continues with the
/// next row: neighbouring rows side by side come from memory at half the rate.
///
/// `sums` has those of the tokens for each row.
fn multiply_rows(isa: Isa, weights: &[bf16], cols: usize, x: &[Vec<Inputs>], sums: &mut [f32]) {
    let tokens = x.len();
    let quarter = (sums.len() / tokens).div_ceil(ROWS);
    let places = places(isa);
    let of_place = ROWS / places;
    let row = |row: usize| weights.chunks_exact(cols).nth(row);
    for first in 0..quarter {
        let numbers: [usize; ROWS] = std::array::from_fn(|at| {
            let (step, place) = (at / places, at % places);
            of_place * (first + place * quarter) + step
        });
        let rows = numbers.map(|number| row(number).unwrap_or(&weights[..cols]));
        for (token, x) in x.iter().enumerate() {
            let lanes = lanes_of_rows(isa, rows, x);
            for (number, total) in numbers.into_iter().zip(totals(&lanes)) {
                if let Some(sum) = sums.get_mut(number * tokens + token) {
                    *sum = total;
                }
            }
        }
    }
}

/// How many rows a kernel reads side by side: as many as its registers have room for sums.
fn places(isa: Isa) -> usize {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512(_) => 4,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2(_) => 2,
        _ => 1,
    }
}

/// Up to 32 inputs, those of even index first; zeros follow.
fn even_first(x: &[f32]) -> Inputs {
    let of_lane = |lane: usize| x.get(lane % 16 * 2 + lane / 16).copied();
    Inputs(std::array::from_fn(|lane| of_lane(lane).unwrap_or(0.0)))
}

fn lanes_of_rows(isa: Isa, rows: [&[bf16]; ROWS], x: &[Inputs]) -> [[f32; LANES]; ROWS] {
    let whole = rows[0].len() / LANES;
    let mut lanes = dispatch!(isa, dense(rows, &x[..whole]));
    if let Some(x) = x.get(whole) {
        for (row, lanes) in rows.iter().zip(&mut lanes) {
            for (at, weight) in row[whole * LANES..].iter().enumerate() {
                let lane = at % 2 * 16 + at / 2;
                lanes[lane] += weight.to_f32() * x.0[lane];
            }
        }
    }
    lanes
}

/// Adds each row's lanes in their order; the rows side by side, as every addition waits for the one before.
#[allow(clippy::cast_possible_truncation)] // the one rounding
fn totals(lanes: &[[f32; LANES]; ROWS]) -> [f32; ROWS] {
    let mut sums = [0.0; ROWS];
    for lane in 0..LANES {
        for (sum, lanes) in sums.iter_mut().zip(lanes) {
            *sum += f64::from(lanes[lane]);
        }
    }
    sums.map(|sum| sum as f32)
}
