//! Scalar products of low-rank contributions from their factors, which are not multiplied out.
//!
//! A contribution is `d[o, i] = sum over k of B[k, o] A[k, i]`, B being stored transposed. The scalar
//! product of two of them is the sum over k and l of `(B_k . B'_l) (A_k . A'_l)`: a scalar product of rows
//! is that of [`super::floats`] for each block, the blocks added in order in float64; the product of the
//! two is rounded to units and added exactly.

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use super::{
    exact::{Exact, add, check_norms, fits, mirror, units},
    floats::BLOCK,
};
use crate::{
    aggregate::Refusal,
    error::{CoreError, check_length},
    threads,
};

/// The factors of one contributor: A, [rank, inputs], and B, [rank, outputs], both row-major.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a> {
    /// A.
    pub a: &'a [f32],
    /// B.
    pub b: &'a [f32],
}

/// Adds the scalar products of one tensor to `total`, [n, n].
///
/// # Errors
/// [`Refusal`] for factors that do not fit the tensor, a NaN or infinity, or a squared norm of 2^40 or
/// more; `total` is incomplete then. [`CoreError::Length`] for another number of sums than n times n.
pub fn add_lowrank(
    rows: &[Factors<'_>],
    (inputs, outputs): (usize, usize),
    total: &mut [Exact],
) -> Result<(), CoreError> {
    let count = rows.len();
    check_length("total", count * count, total.len())?;
    if count == 0 || inputs == 0 || outputs == 0 {
        let what = if count == 0 { "contributor" } else { "column" };
        return Err(Refusal::Nothing { what }.into());
    }
    for (row, factors) in rows.iter().enumerate() {
        check(row, *factors, (inputs, outputs))?;
    }
    let lines = total.par_chunks_mut(count).enumerate();
    threads::for_each(lines, 1, |(row, total)| {
        for (other, total) in rows.iter().zip(total).skip(row) {
            add(total, product(&rows[row], other, (inputs, outputs)));
        }
    })?;
    check_norms(total, count)?;
    mirror(total, count);
    Ok(())
}

fn check(
    row: usize,
    factors: Factors<'_>,
    (inputs, outputs): (usize, usize),
) -> Result<(), Refusal> {
    let rank = factors.a.len() / inputs;
    for (values, expected) in [(factors.a, rank * inputs), (factors.b, rank * outputs)] {
        if values.len() != expected || rank == 0 {
            let (unit, got) = ("values", values.len());
            let expected = expected.max(inputs.min(outputs));
            return Err(Refusal::Length {
                row,
                unit,
                expected,
                got,
            });
        }
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            let value = values[index];
            return Err(Refusal::NotFinite { row, index, value });
        }
    }
    // A bound of every product below: Cauchy and Schwarz.
    if fits(dot(factors.a, factors.a) * dot(factors.b, factors.b)) {
        Ok(())
    } else {
        Err(Refusal::TooLarge { row })
    }
}

fn product(one: &Factors<'_>, other: &Factors<'_>, (inputs, outputs): (usize, usize)) -> i128 {
    let mut sum = 0i128;
    for (a, b) in one.a.chunks_exact(inputs).zip(one.b.chunks_exact(outputs)) {
        let factors = other
            .a
            .chunks_exact(inputs)
            .zip(other.b.chunks_exact(outputs));
        for (other_a, other_b) in factors {
            sum += units(dot(b, other_b) * dot(a, other_a));
        }
    }
    sum
}

/// The scalar product of two rows: the blocks' sums, added in order.
fn dot(one: &[f32], other: &[f32]) -> f64 {
    let blocks = one.chunks(BLOCK).zip(other.chunks(BLOCK));
    blocks.fold(0.0, |sum, (one, other)| sum + block(one, other))
}

fn block(one: &[f32], other: &[f32]) -> f64 {
    let mut lanes = [0.0f64; 8];
    for (one, other) in one.chunks(8).zip(other.chunks(8)) {
        for ((lane, one), other) in lanes.iter_mut().zip(one).zip(other) {
            *lane += f64::from(*one) * f64::from(*other);
        }
    }
    lanes.into_iter().fold(0.0, |sum, lane| sum + lane)
}
