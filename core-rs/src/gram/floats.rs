//! Scalar products of plain contributions: float32, float16 or bfloat16.
//!
//! Per block of 1,024 columns, counted from the start of the rows: the products of two float32, exact in
//! float64, are added in 8 interleaved lanes in index order, each from 0, then the lanes in order. The
//! block's sum is rounded to units and added exactly. (An exact product makes a fused multiply-add the
//! same as a product and a sum.) Shards have a multiple of 1,024 columns, but for the last one.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod tile;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use self::tile::{LANES, TILE, Tile};
use super::exact::{Exact, add, check_norms, fits, mirror, units};
use crate::{
    aggregate::{Refusal, check_rows},
    error::{CoreError, check_length},
    isa::{Isa, compiled, dispatch},
    threads,
    weights::{self, Weights},
};

mod scalar {
    pub(super) use super::tile::multiply_small as multiply;
}

compiled! { avx2, neon: fn multiply(above: &[&[f32]], beside: &[&[f32]], tile: &mut Tile) = tile::multiply_small; }

/// Columns whose products are added in float64.
pub const BLOCK: usize = 1024;

/// Adds the scalar products of all pairs of rows to `total`, [n, n], row-major.
///
/// # Errors
/// [`Refusal`] for rows of unequal length, a NaN or infinity, or a squared norm of 2^40 or more;
/// `total` is incomplete then. [`CoreError::Length`] for another number of sums than n times n.
pub fn add_floats(isa: Isa, rows: &[Weights<'_>], total: &mut [Exact]) -> Result<(), CoreError> {
    let lengths = rows.iter().map(Weights::len);
    let cols = lengths.clone().next().unwrap_or(0);
    check_rows(lengths, cols, "values")?;
    let count = rows.len();
    check_length("total", count * count, total.len())?;
    let mut panel = vec![[0.0; BLOCK]; count];
    for start in (0..cols).step_by(BLOCK) {
        let width = BLOCK.min(cols - start);
        fill(rows, start, width, &mut panel);
        add_block(isa, &panel, width, total).map_err(|row| refusal(rows, row))?;
    }
    check_norms(total, count)?;
    mirror(total, count);
    Ok(())
}

/// Copies some columns of all rows, with zeros after the last up to whole lanes.
fn fill(rows: &[Weights<'_>], start: usize, width: usize, panel: &mut [[f32; BLOCK]]) {
    let mut scratch = [0.0; weights::BLOCK];
    for (row, room) in rows.iter().zip(panel) {
        let values = row.block(start..start + width, &mut scratch);
        room[..width].copy_from_slice(values);
        room[width..].fill(0.0);
    }
}

/// Adds the products of a block above the diagonal; the error is the first row of which a part of the norm
/// is out of bounds.
fn add_block(
    isa: Isa,
    panel: &[[f32; BLOCK]],
    width: usize,
    total: &mut [Exact],
) -> Result<(), Option<usize>> {
    let width = width.next_multiple_of(LANES);
    let rows: Vec<&[f32]> = panel.iter().map(|row| &row[..width]).collect();
    let wrong = AtomicUsize::new(usize::MAX);
    let groups = total.par_chunks_mut(TILE * rows.len()).enumerate();
    let done = threads::for_each(groups, 1, |(group, total)| {
        let first = group * TILE;
        let above = &rows[first..rows.len().min(first + TILE)];
        let mut tile = Tile::default();
        for left in (first..rows.len()).step_by(TILE) {
            let beside = &rows[left..rows.len().min(left + TILE)];
            dispatch!(isa, multiply(above, beside, &mut tile));
            if left == first {
                let norms = (0..above.len()).map(|row| tile[row][row]);
                if let Some(row) = norms.into_iter().position(|norm| !fits(norm)) {
                    wrong.fetch_min(first + row, Relaxed);
                    return;
                }
            }
            for (row, sums) in (0..above.len()).zip(&tile) {
                let total = &mut total[row * rows.len() + left..];
                for (total, sum) in total.iter_mut().zip(&sums[..beside.len()]) {
                    add(total, units(*sum));
                }
            }
        }
    });
    match (done, wrong.into_inner()) {
        (Err(_), _) => Err(None),
        (Ok(()), usize::MAX) => Ok(()),
        (Ok(()), row) => Err(Some(row)),
    }
}

/// Why a row is refused: its first value that is not finite, or its size; none if the work was stopped.
fn refusal(rows: &[Weights<'_>], row: Option<usize>) -> CoreError {
    let Some(row) = row else {
        return CoreError::Stopped;
    };
    let mut scratch = [0.0; weights::BLOCK];
    for start in (0..rows[row].len()).step_by(weights::BLOCK) {
        let end = rows[row].len().min(start + weights::BLOCK);
        let values = rows[row].block(start..end, &mut scratch);
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let (index, value) = (start + at, values[at]);
            return Refusal::NotFinite { row, index, value }.into();
        }
    }
    Refusal::TooLarge { row }.into()
}
