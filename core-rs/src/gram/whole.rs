//! A Gram matrix rounded to 64 bits, so that every sum of the rules is exact in 64 bits.

use super::exact::{Exact, read};
use crate::error::{CoreError, check_length};

/// Rounds all products by the same power of two, halves up; returns its exponent.
///
/// The largest squared norm keeps 60 bits less twice the binary digits of n: mixing adds up to n^2
/// products, and a distance is four of these.
///
/// # Errors
/// [`CoreError::Length`] for another number of integers than products, or if n times n they are not.
pub fn to_whole(exact: &[Exact], count: usize, whole: &mut [i64]) -> Result<u32, CoreError> {
    check_length("gram", count * count, exact.len())?;
    check_length("whole", exact.len(), whole.len())?;
    let norms = exact.iter().step_by(count + 1).map(|norm| read(*norm));
    let largest = norms.max().unwrap_or(0).max(0);
    let digits = i128::BITS - largest.leading_zeros();
    let shift = digits.saturating_sub(bits(count));
    let half = 1i128 << shift >> 1;
    for (whole, exact) in whole.iter_mut().zip(exact) {
        // Cauchy and Schwarz: no product is larger than the largest norm, up to rounding.
        #[allow(clippy::cast_possible_truncation)]
        let rounded = ((read(*exact) + half) >> shift) as i64;
        *whole = rounded;
    }
    Ok(shift)
}

/// Bits of the largest squared norm.
fn bits(count: usize) -> u32 {
    60 - 2 * (usize::BITS - count.leading_zeros())
}

/// The squared distance of two contributions, by their products; 0 where rounding would make it negative.
pub(super) fn distance(gram: &[i64], count: usize, row: usize, column: usize) -> i64 {
    let norms = gram[row * count + row] + gram[column * count + column];
    (norms - 2 * gram[row * count + column]).max(0)
}
