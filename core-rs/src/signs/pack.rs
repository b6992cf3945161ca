//! Packing: handing out rows to threads, and what the sums become.

use rayon::{
    iter::{IndexedParallelIterator, IntoParallelIterator},
    slice::{ParallelSlice, ParallelSliceMut},
};

#[cfg(target_arch = "aarch64")]
use super::neon;
use super::{Axis, COLUMN_BLOCK, PlanesMut, row_bytes, rows::PackRow, scalar};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    threads,
    weights::{BLOCK, Weight, Weights, first_not_finite, rows_per_task},
};

/// Packs the signs of `tuned - base` and the means of its absolute values, in one pass.
///
/// `scales` has [`Axis::scales`] values. With a mask, zeros are marked and a scale is the mean
/// over the nonzero. The content of the planes and scales after an error is unspecified.
///
/// # Errors
/// [`CoreError::Empty`] without values, [`CoreError::Group`] for a group that is no multiple of 8,
/// [`CoreError::Length`] for buffers that do not fit, [`CoreError::NotFinite`] at the first NaN or
/// infinity in row order, be it in `base`, in `tuned` or in their difference,
/// [`CoreError::SumOverflow`] when their sum exceeds float32.
pub fn pack_signs(
    base: Weights<'_>,
    tuned: Weights<'_>,
    cols: usize,
    axis: Axis,
    mut planes: PlanesMut<'_>,
    scales: &mut [f32],
    isa: Isa,
) -> Result<(), CoreError> {
    if base.is_empty() || cols == 0 {
        return Err(CoreError::Empty { what: "base" });
    }
    axis.check()?;
    let rows = base.len().div_ceil(cols);
    let bytes = rows * row_bytes(cols);
    check_length("base", rows.saturating_mul(cols), base.len())?;
    check_length("tuned", base.len(), tuned.len())?;
    check_length("bits", bytes, planes.bits.len())?;
    check_length(
        "mask",
        bytes,
        planes.mask.as_ref().map_or(bytes, |mask| mask.len()),
    )?;
    check_length("scales", axis.scales(rows, cols), scales.len())?;
    let job = Job { cols, axis, isa };
    let sums = match (base, tuned) {
        (Weights::F32(base), Weights::F32(tuned)) => job.pack(base, tuned, &mut planes),
        (Weights::F32(base), Weights::F16(tuned)) => job.pack(base, tuned, &mut planes),
        (Weights::F32(base), Weights::Bf16(tuned)) => job.pack(base, tuned, &mut planes),
        (Weights::F16(base), Weights::F32(tuned)) => job.pack(base, tuned, &mut planes),
        (Weights::F16(base), Weights::F16(tuned)) => job.pack(base, tuned, &mut planes),
        (Weights::F16(base), Weights::Bf16(tuned)) => job.pack(base, tuned, &mut planes),
        (Weights::Bf16(base), Weights::F32(tuned)) => job.pack(base, tuned, &mut planes),
        (Weights::Bf16(base), Weights::F16(tuned)) => job.pack(base, tuned, &mut planes),
        (Weights::Bf16(base), Weights::Bf16(tuned)) => job.pack(base, tuned, &mut planes),
    }?;
    if let Some(index) = sums.iter().position(|sum| !sum.is_finite()) {
        return Err(refusal(base, tuned, cols, job.overflow(index)));
    }
    let counts = match planes.mask {
        None => job.values(rows),
        Some(mask) => job.nonzeros(mask)?,
    };
    for (scale, (sum, count)) in scales.iter_mut().zip(sums.into_iter().zip(counts)) {
        *scale = mean(sum, count);
    }
    Ok(())
}

/// The mean, rounded once; nothing has the mean 0.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // rounded once, as defined
pub(super) fn mean(sum: f64, count: usize) -> f32 {
    if count == 0 {
        0.0
    } else {
        (sum / count as f64) as f32
    }
}

/// What all rows have in common.
#[derive(Clone, Copy)]
struct Job {
    cols: usize,
    axis: Axis,
    isa: Isa,
}

/// Some rows' bits and mask, which is empty where none is wanted.
type Strip<'a> = (&'a mut [u8], &'a mut [u8]);

impl Job {
    /// Packs all rows and returns the sum that belongs to each scale.
    fn pack<B: Weight, T: Weight>(
        self,
        base: &[B],
        tuned: &[T],
        planes: &mut PlanesMut<'_>,
    ) -> Result<Vec<f64>, CoreError> {
        match self.axis {
            Axis::Column => self.columns(base, tuned, planes),
            Axis::Matrix => {
                let sums = self.rows(base, tuned, planes)?;
                Ok(vec![sums.iter().fold(0.0, |a, b| a + b)])
            }
            Axis::Row | Axis::Group(_) => self.rows(base, tuned, planes),
        }
    }

    /// The sums of all rows, or of their groups.
    fn rows<B: Weight, T: Weight>(
        self,
        base: &[B],
        tuned: &[T],
        planes: &mut PlanesMut<'_>,
    ) -> Result<Vec<f64>, CoreError> {
        let (cols, isa, group) = (self.cols, self.isa, self.axis.group(self.cols));
        let (rows, sums_of_row) = (base.len() / cols, self.axis.scales_of_row(cols));
        let strip_rows = rows_per_task(cols);
        let mut sums = vec![0.0; rows * sums_of_row];
        let strips = strips(planes, strip_rows * row_bytes(cols))
            .into_par_iter()
            .zip(sums.par_chunks_mut(strip_rows * sums_of_row))
            .enumerate();
        threads::for_each(strips, 1, |(strip, (planes, sums))| {
            let sums = sums.chunks_mut(sums_of_row);
            let rows = self.rows_of_strip(base, tuned, strip * strip_rows, planes);
            rows.zip(sums)
                .for_each(|(row, sums)| dispatch!(isa, pack_row(row, group, sums)));
        })?;
        Ok(sums)
    }

    /// The sums of all columns: float32 within a block of rows, float64 over the blocks.
    fn columns<B: Weight, T: Weight>(
        self,
        base: &[B],
        tuned: &[T],
        planes: &mut PlanesMut<'_>,
    ) -> Result<Vec<f64>, CoreError> {
        let (cols, isa) = (self.cols, self.isa);
        let strips = strips(planes, COLUMN_BLOCK * row_bytes(cols)).into_par_iter();
        let blocks: Vec<Vec<f32>> = threads::collect(strips.enumerate(), |(strip, planes)| {
            let mut sums = vec![0.0; cols];
            let rows = self.rows_of_strip(base, tuned, strip * COLUMN_BLOCK, planes);
            rows.for_each(|row| dispatch!(isa, pack_columns(row, &mut sums)));
            Ok(sums)
        })?;
        let mut sums = vec![0.0; cols];
        for block in blocks {
            sums.iter_mut()
                .zip(block)
                .for_each(|(sum, part)| *sum += f64::from(part));
        }
        Ok(sums)
    }

    /// The rows from `first` on whose planes a strip has.
    fn rows_of_strip<'a, B: Weight, T: Weight>(
        self,
        base: &'a [B],
        tuned: &'a [T],
        first: usize,
        (bits, mut mask): Strip<'a>,
    ) -> impl Iterator<Item = PackRow<'a, B, T>> {
        let start = first * self.cols;
        let pairs = base[start..]
            .chunks(self.cols)
            .zip(tuned[start..].chunks(self.cols));
        bits.chunks_mut(row_bytes(self.cols))
            .zip(pairs)
            .map(move |(bits, (base, tuned))| {
                let masks = std::mem::take(&mut mask);
                let (mask_row, rest) = masks.split_at_mut(bits.len().min(masks.len()));
                mask = rest;
                PackRow {
                    base,
                    tuned,
                    bits,
                    mask: mask_row,
                }
            })
    }

    /// How many values each scale is the mean of.
    fn values(self, rows: usize) -> Vec<usize> {
        let cols = self.cols;
        match self.axis {
            Axis::Matrix => vec![rows * cols],
            Axis::Row => vec![cols; rows],
            Axis::Column => vec![rows; cols],
            Axis::Group(group) => {
                let starts = (0..cols).step_by(group);
                let of_row: Vec<usize> = starts.map(|start| group.min(cols - start)).collect();
                of_row.repeat(rows)
            }
        }
    }

    /// As `values`, the nonzero ones.
    fn nonzeros(self, mask: &[u8]) -> Result<Vec<usize>, CoreError> {
        if self.axis == Axis::Column {
            return Ok(ones_of_columns(mask, self.cols));
        }
        let (row, of_row) = (row_bytes(self.cols), self.axis.scales_of_row(self.cols));
        let mut counts = vec![0; mask.len() / row * of_row];
        let rows = mask.par_chunks(row).zip(counts.par_chunks_mut(of_row));
        let group = self.axis.group(self.cols).div_ceil(8);
        threads::for_each(rows, rows_per_task(self.cols), |(row, counts)| {
            for (part, count) in row.chunks(group).zip(counts) {
                *count = ones(part);
            }
        })?;
        if self.axis == Axis::Matrix {
            return Ok(vec![counts.iter().sum()]);
        }
        Ok(counts)
    }

    /// The error for the sum at `index` among finite values.
    fn overflow(self, index: usize) -> CoreError {
        let (what, index) = match self.axis {
            Axis::Column => ("column", index),
            Axis::Matrix => ("matrix", 0),
            Axis::Row | Axis::Group(_) => ("row", index / self.axis.scales_of_row(self.cols)),
        };
        CoreError::SumOverflow { what, index }
    }
}

/// The planes split into pieces of a given size.
fn strips<'a>(planes: &'a mut PlanesMut<'_>, bytes: usize) -> Vec<Strip<'a>> {
    let mut masks = planes
        .mask
        .as_deref_mut()
        .map(|mask| mask.chunks_mut(bytes));
    let of_strip = |bits| {
        (
            bits,
            masks.as_mut().and_then(Iterator::next).unwrap_or_default(),
        )
    };
    planes.bits.chunks_mut(bytes).map(of_strip).collect()
}

fn ones(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words
        .iter()
        .map(|word| u64::from_le_bytes(*word).count_ones() as usize);
    words.sum::<usize>()
        + rest
            .iter()
            .map(|byte| byte.count_ones() as usize)
            .sum::<usize>()
}

fn ones_of_columns(mask: &[u8], cols: usize) -> Vec<usize> {
    let mut counts = vec![0; cols];
    for row in mask.chunks(row_bytes(cols)) {
        for (counts, byte) in counts.chunks_mut(8).zip(row) {
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += usize::from(byte >> bit & 1);
            }
        }
    }
    counts
}

/// Why a sum is not finite: the first value at fault in row order, or else the sum itself.
fn refusal(base: Weights<'_>, tuned: Weights<'_>, cols: usize, overflow: CoreError) -> CoreError {
    let (mut base_room, mut tuned_room) = ([0.0; BLOCK], [0.0; BLOCK]);
    for row in 0..base.len() / cols {
        for start in (0..cols).step_by(BLOCK) {
            let range = row * cols + start..row * cols + cols.min(start + BLOCK);
            let base = base.block(range.clone(), &mut base_room);
            let tuned = tuned.block(range, &mut tuned_room);
            let differences: Vec<f32> = tuned.iter().zip(base).map(|(t, b)| t - b).collect();
            let found = [
                ("base", base),
                ("tuned", tuned),
                ("tuned - base", &differences),
            ]
            .into_iter()
            .find_map(|(what, values)| first_not_finite(what, row, start, values));
            if let Some(error) = found {
                return error;
            }
        }
    }
    overflow
}
