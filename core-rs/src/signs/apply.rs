//! Applying: handing out rows to threads, two at a time.

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

#[cfg(target_arch = "aarch64")]
use super::neon;
use super::{Axis, Planes, rows::ApplyRow, rows_of, scalar};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    threads,
    weights::{Weight, WeightsMut, rows_per_task},
};

/// Adds each sign times its scale to the weights, in place.
///
/// `scales` has [`Axis::scales`] values.
///
/// # Errors
/// [`CoreError::Group`] for a group that is no multiple of 8, [`CoreError::Length`] for buffers that
/// do not fit, [`CoreError::NotFinite`] for a scale that is NaN or infinite. The weights are then
/// untouched.
pub fn apply_signs(
    weights: WeightsMut<'_>,
    cols: usize,
    axis: Axis,
    planes: Planes<'_>,
    scales: &[f32],
    isa: Isa,
) -> Result<(), CoreError> {
    match weights {
        WeightsMut::F32(weights) => apply_rows(weights, cols, axis, planes, scales, isa),
        WeightsMut::F16(weights) => apply_rows(weights, cols, axis, planes, scales, isa),
        WeightsMut::Bf16(weights) => apply_rows(weights, cols, axis, planes, scales, isa),
    }
}

fn apply_rows<W: Weight>(
    weights: &mut [W],
    cols: usize,
    axis: Axis,
    planes: Planes<'_>,
    scales: &[f32],
    isa: Isa,
) -> Result<(), CoreError> {
    axis.check()?;
    let rows = rows_of("weights", weights.len(), cols)?;
    planes.check(rows, cols)?;
    check_length("scales", axis.scales(rows, cols), scales.len())?;
    check_scales(axis, cols, scales)?;
    if rows == 0 {
        return Ok(());
    }
    let job = Job {
        cols,
        axis,
        planes,
        scales,
        isa,
    };
    job.apply(weights)
}

/// What all rows have in common.
struct Job<'a> {
    cols: usize,
    axis: Axis,
    planes: Planes<'a>,
    scales: &'a [f32],
    isa: Isa,
}

impl Job<'_> {
    fn apply<W: Weight>(&self, weights: &mut [W]) -> Result<(), CoreError> {
        let side_by_side =
            matches!(self.axis, Axis::Row | Axis::Matrix) && self.planes.mask.is_none();
        let pairs = weights.par_chunks_mut(2 * self.cols).enumerate();
        let at_least = rows_per_task(self.cols).div_ceil(2);
        threads::for_each(pairs, at_least, |(pair, weights)| {
            let (first, second) = weights.split_at_mut(self.cols);
            let first = self.row(2 * pair, first);
            if second.is_empty() {
                return self.apply_row(first);
            }
            let both = [first, self.row(2 * pair + 1, second)];
            if side_by_side {
                dispatch!(self.isa, apply_pair(both));
            } else {
                for row in both {
                    self.apply_row(row);
                }
            }
        })
    }

    fn row<'b, W>(&'b self, row: usize, weights: &'b mut [W]) -> ApplyRow<'b, W> {
        let (bits, mask) = self.planes.row(row, self.cols);
        let scales = scales_of_row(self.axis, row, self.cols, self.scales);
        ApplyRow {
            weights,
            bits,
            mask,
            scales,
        }
    }

    fn apply_row<W: Weight>(&self, row: ApplyRow<'_, W>) {
        if self.axis == Axis::Column {
            dispatch!(self.isa, apply_columns(row));
        } else {
            dispatch!(self.isa, apply_row(row, self.axis.group(self.cols)));
        }
    }
}

fn scales_of_row(axis: Axis, row: usize, cols: usize, scales: &[f32]) -> &[f32] {
    match axis {
        Axis::Matrix | Axis::Column => scales,
        Axis::Row | Axis::Group(_) => {
            let of_row = axis.scales_of_row(cols);
            &scales[row * of_row..(row + 1) * of_row]
        }
    }
}

/// Names the first scale that is not finite: its row, and its group or column where it has one.
fn check_scales(axis: Axis, cols: usize, scales: &[f32]) -> Result<(), CoreError> {
    let Some(index) = scales.iter().position(|scale| !scale.is_finite()) else {
        return Ok(());
    };
    let of_row = if axis == Axis::Column {
        cols
    } else {
        axis.scales_of_row(cols)
    };
    let of_row = of_row.max(1); // a matrix without columns has a scale all the same
    let (row, column) = (index / of_row, index % of_row);
    Err(CoreError::NotFinite {
        what: "scale",
        row,
        column,
        value: scales[index],
    })
}
