//! Scalar products of signs with one scale for each contributor and tensor.
//!
//! With h of d columns different, and scales a and b: `(a b) (d - 2 h)`, where the first product is exact
//! in float64 and the second is rounded once, then to units.

use super::exact::{Exact, add, check_norms, units};
use crate::{
    aggregate::Refusal,
    error::{CoreError, check_length},
};

/// Adds the scalar products of one tensor's signs to `total`, [n, n].
///
/// # Errors
/// [`Refusal`] for a scale that is negative or not finite, or a squared norm of 2^40 or more.
/// [`CoreError::Length`] for another number of distances or sums than n times n.
pub fn add_signs(
    hamming: &[u64],
    cols: u64,
    scales: &[f32],
    total: &mut [Exact],
) -> Result<(), CoreError> {
    let count = scales.len();
    check_length("hamming", count * count, hamming.len())?;
    check_length("total", count * count, total.len())?;
    check_scales(scales, cols)?;
    let lines = hamming
        .chunks_exact(count)
        .zip(total.chunks_exact_mut(count));
    for ((distances, sums), above) in lines.zip(scales) {
        for ((distance, sum), beside) in distances.iter().zip(sums).zip(scales) {
            add(sum, units(product(*above, *beside, cols, *distance)));
        }
    }
    Ok(check_norms(total, count)?)
}

/// `d - 2 h` is exact: no tensor has 2^53 columns.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_wrap)]
fn product(above: f32, beside: f32, cols: u64, distance: u64) -> f64 {
    let agree = cols as i64 - 2 * distance as i64;
    f64::from(above) * f64::from(beside) * agree as f64
}

fn check_scales(scales: &[f32], cols: u64) -> Result<(), Refusal> {
    let what = "scale";
    for (row, value) in scales.iter().copied().enumerate() {
        if !value.is_finite() || value < 0.0 {
            return Err(Refusal::Scale { what, row, value });
        }
        if !super::exact::fits(product(value, value, cols, 0)) {
            return Err(Refusal::TooLarge { row });
        }
    }
    Ok(())
}
