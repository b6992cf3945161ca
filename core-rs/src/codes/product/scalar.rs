//! The definition for one row of the product, which is compiled for every instruction set.
#![allow(clippy::inline_always)] // so that an instruction set reaches down to the loops

/// Columns summed at once: their sums stay in the cache nearest to the processor.
const COLUMNS: usize = 512;

/// Adds the sum over the rank of `factors[k] * a[k, ..]` to a row.
#[allow(clippy::cast_possible_truncation)] // rounded once
#[inline(always)]
pub(super) fn add_row(a: &[f32], factors: &[f64], total: &mut [f32]) {
    let cols = total.len();
    for (index, total) in total.chunks_mut(COLUMNS).enumerate() {
        let mut sums = [0.0f64; COLUMNS];
        for (a, factor) in a.chunks_exact(cols).zip(factors) {
            let a = &a[index * COLUMNS..][..total.len()];
            for (sum, a) in sums.iter_mut().zip(a) {
                *sum += f64::from(*a) * factor;
            }
        }
        for (total, sum) in total.iter_mut().zip(&sums) {
            *total += *sum as f32;
        }
    }
}
