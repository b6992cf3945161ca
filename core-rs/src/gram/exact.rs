//! Scalar products as integer numbers of 2^-80.

use crate::aggregate::Refusal;

/// The unit is 2 to the power of minus this.
pub const UNIT_BITS: i32 = 80;

/// A squared norm must be below 2 to the power of this, so that no sum leaves 128 bits.
pub const NORM_BITS: i32 = 40;

/// An exact sum, its lower 64 bits first; two's complement.
pub type Exact = [u64; 2];

/// The nearest integer number of units, ties to even; `value` is finite and far below 2^47.
#[allow(clippy::cast_possible_truncation)] // an integer that fits, by the callers' checks
pub(super) fn units(value: f64) -> i128 {
    (value * 2.0f64.powi(UNIT_BITS)).round_ties_even() as i128
}

/// The number in a sum.
#[must_use]
#[allow(clippy::cast_possible_wrap)] // two's complement
pub fn read(sum: Exact) -> i128 {
    (u128::from(sum[1]) << 64 | u128::from(sum[0])) as i128
}

/// Adds to a sum.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // halves of two's complement
pub(super) fn add(sum: &mut Exact, value: i128) {
    let new = read(*sum).wrapping_add(value) as u128;
    *sum = [new as u64, (new >> 64) as u64];
}

/// Whether a squared norm, or a part of one, is finite and within bounds.
pub(super) fn fits(norm: f64) -> bool {
    norm < 2.0f64.powi(NORM_BITS)
}

/// Refuses the first contributor whose squared norm is out of bounds.
pub(super) fn check_norms(total: &[Exact], count: usize) -> Result<(), Refusal> {
    let limit = 1i128 << (UNIT_BITS + NORM_BITS);
    let norms = total.iter().step_by(count + 1);
    match norms.map(|norm| read(*norm)).position(|norm| norm >= limit) {
        Some(row) => Err(Refusal::TooLarge { row }),
        None => Ok(()),
    }
}

/// Copies what lies above the diagonal below it.
pub(super) fn mirror<T: Copy>(matrix: &mut [T], count: usize) {
    for row in 1..count {
        for column in 0..row {
            matrix[row * count + column] = matrix[column * count + row];
        }
    }
}
