//! The weighted mean of plain contributions.
//!
//! For each column: weight times value, exact in float64, added in float64 in the order of the rows from
//! 0, divided by the sum of the weights, rounded to float32. Rows of weight 0 are left out; the order of
//! the others matters, so a round has one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use super::{Refusal, check_rows};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, compiled, dispatch},
    threads,
    weights::{BLOCK, Weights},
};

mod scalar {
    pub(super) use super::add_times as add;
}

compiled! { avx2, avx512, neon: fn add(weight: f64, values: &[f32], sums: &mut [f64]) = add_times; }

/// Writes the weighted mean of the rows for each column.
///
/// # Errors
/// [`Refusal`] for rows of unequal length, a weight that is negative or not finite, weights that are all 0,
/// or a NaN or infinity.
pub fn mean(
    isa: Isa,
    rows: &[Weights<'_>],
    weights: &[f32],
    means: &mut [f32],
) -> Result<(), CoreError> {
    let lengths = rows.iter().map(Weights::len);
    let cols = lengths.clone().next().unwrap_or(0);
    check_rows(lengths, cols, "values")?;
    check_length("weight", rows.len(), weights.len())?;
    check_length("means", cols, means.len())?;
    let weights: Vec<f64> = weights.iter().copied().map(f64::from).collect();
    let total = total(&weights)?;
    let finite = AtomicBool::new(true);
    let blocks = means.par_chunks_mut(BLOCK).enumerate();
    threads::for_each_with(
        blocks,
        1,
        || vec![0.0; BLOCK],
        |sums, (block, means)| {
            let columns = block * BLOCK..block * BLOCK + means.len();
            let sums = &mut sums[..means.len()];
            sums.fill(0.0);
            let mut scratch = [0.0; BLOCK];
            for (row, weight) in rows
                .iter()
                .zip(&weights)
                .filter(|(_, weight)| **weight > 0.0)
            {
                dispatch!(
                    isa,
                    add(*weight, row.block(columns.clone(), &mut scratch), sums)
                );
            }
            finite.fetch_and(sums.iter().all(|sum| sum.is_finite()), Relaxed);
            for (mean, sum) in means.iter_mut().zip(sums) {
                #[allow(clippy::cast_possible_truncation)] // rounded, as defined
                let rounded = (*sum / total) as f32;
                *mean = rounded;
            }
        },
    )?;
    if finite.into_inner() {
        return Ok(());
    }
    Err(super::dense::refusal(rows, cols))
}

fn total(weights: &[f64]) -> Result<f64, Refusal> {
    let wrong = |weight: &f64| !weight.is_finite() || *weight < 0.0;
    if let Some(row) = weights.iter().position(wrong) {
        #[allow(clippy::cast_possible_truncation)] // it was a float32
        let value = weights[row] as f32;
        let what = "weight";
        return Err(Refusal::Scale { what, row, value });
    }
    let total = weights.iter().fold(0.0, |sum, weight| sum + weight);
    if total > 0.0 {
        Ok(total)
    } else {
        let rows = weights.len();
        Err(Refusal::NoWeight { rows })
    }
}

#[inline(always)]
fn add_times(weight: f64, values: &[f32], sums: &mut [f64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += weight * f64::from(*value);
    }
}
