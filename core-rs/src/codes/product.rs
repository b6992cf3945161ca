//! The product of two low-rank factors, added to a matrix.
//!
//! With A as [rank, cols] and B as [rank, rows], `d[o, i]` is the sum over the rank of
//! `B[k, o] * A[k, i]`: each product in float64, which holds it exactly, added in float64 in the order
//! of k, starting at 0; rounded once to float32. Then `total[o, i] += d[o, i]` in float32.

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use crate::{
    error::{CoreError, check_length},
    isa::{Isa, compiled, dispatch},
    signs::rows_of,
    threads,
    weights::rows_per_task,
};

mod scalar;

compiled! { avx2, avx512, neon:
    fn add_row(a: &[f32], factors: &[f64], total: &mut [f32]) = scalar::add_row;
}

/// Adds the product of factors of rows `cols` (A) and B with as many rows as `total`.
///
/// # Errors
/// [`CoreError::Length`] for buffers that do not fit; `total` is then untouched.
pub fn add_product(
    a: &[f32],
    b: &[f32],
    cols: usize,
    total: &mut [f32],
    isa: Isa,
) -> Result<(), CoreError> {
    let rows = rows_of("total", total.len(), cols)?;
    let rank = rows_of("A", a.len(), cols)?;
    check_length("B", rank * rows, b.len())?;
    if rows == 0 {
        return Ok(());
    }
    let lines = total.par_chunks_mut(cols).enumerate();
    let at_least = rows_per_task(cols * rank.max(1));
    threads::for_each(lines, at_least, |(row, total)| {
        let column = b.iter().skip(row).step_by(rows).copied();
        let factors: Vec<f64> = column.map(f64::from).collect();
        dispatch!(isa, add_row(a, &factors, total));
    })
}

#[cfg(test)]
mod tests;
