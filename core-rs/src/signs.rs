//! The sign of a difference as one bit, and scales for the values that share one.
//!
//! With `d = tuned - base` in float32 (subtracted after both were widened, which is exact):
//!
//! - **Bits.** 1 where d > 0, else 0: zeros of either sign count as minus. Along a row, least
//!   significant bit first; each row starts a new byte, and the padding bits of its last byte are 0.
//! - **Mask.** A second plane of the same form, where wanted: 1 where d is not zero.
//! - **Scale.** The mean of |d|, over the nonzero ones where there is a mask (0 where there is none).
//!   A row, or a group of it, is cut into blocks of [`BLOCK`](crate::weights::BLOCK) = 4096 values, the last one shorter.
//!   Within a block, value `i` is added in float32 to lane `i mod 32`, in the order of `i`, each lane
//!   starting from 0. A block's sum is its lanes added in order in float64, a row's (or a group's) sum
//!   its blocks in order in float64, the matrix's sum its rows in order in float64. The sum is divided
//!   by the number of values in float64 and rounded once to float32.
//! - **Scale of a column.** The rows are cut into blocks of [`COLUMN_BLOCK`] = 128, the last one
//!   shorter. Within a block |d| is added in float32 in the order of the rows, starting from 0; the
//!   blocks are added in order in float64; then as above.
//! - **Applying** adds +scale or -scale to a weight in float32 and rounds to the weight's type, to
//!   nearest, ties to even. An overflow gives an infinity, as the arithmetic of that type has it. Where
//!   the mask is 0 the weight's bytes stay as they are.
//!
//! `scalar.rs` is the definition of each step on 32 values; `avx2.rs`, `avx512.rs` and `neon.rs` do the
//! same with the same bytes; `rows.rs` walks along a row for all of them.

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    threads,
    weights::rows_per_task,
};

mod apply;
mod pack;
mod rows;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

pub use apply::apply_signs;
pub use pack::pack_signs;

/// Rows of a column's block.
pub const COLUMN_BLOCK: usize = 128;

/// Which values share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// All values.
    Matrix,
    /// A row.
    Row,
    /// A column.
    Column,
    /// A fixed number of values along a row, a multiple of 8; a row's last group may be shorter.
    Group(usize),
}

impl Axis {
    /// How many scales a matrix has; groups row by row.
    #[must_use]
    pub fn scales(self, rows: usize, cols: usize) -> usize {
        match self {
            Self::Matrix => 1,
            Self::Row => rows,
            Self::Column => cols,
            Self::Group(_) => rows * self.scales_of_row(cols),
        }
    }

    /// Values along a row that share a scale.
    fn group(self, cols: usize) -> usize {
        match self {
            Self::Group(group) => group,
            _ => cols,
        }
    }

    fn scales_of_row(self, cols: usize) -> usize {
        cols.div_ceil(self.group(cols).max(1))
    }

    fn check(self) -> Result<(), CoreError> {
        match self {
            Self::Group(group) if group == 0 || group % 8 != 0 => Err(CoreError::Group { group }),
            _ => Ok(()),
        }
    }
}

/// Packed signs, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a> {
    /// [`row_bytes`] bytes for each row.
    pub bits: &'a [u8],
    /// As many; none where no difference counts as zero.
    pub mask: Option<&'a [u8]>,
}

/// Buffers for packed signs.
#[derive(Debug)]
pub struct PlanesMut<'a> {
    /// [`row_bytes`] bytes for each row.
    pub bits: &'a mut [u8],
    /// As many; none where zeros count as minus.
    pub mask: Option<&'a mut [u8]>,
}

impl Planes<'_> {
    fn check(&self, rows: usize, cols: usize) -> Result<(), CoreError> {
        let bytes = rows.saturating_mul(row_bytes(cols));
        check_length("bits", bytes, self.bits.len())?;
        check_length("mask", bytes, self.mask.map_or(bytes, <[u8]>::len))
    }

    /// The planes of one row; an empty mask means none.
    fn row(&self, row: usize, cols: usize) -> (&[u8], &[u8]) {
        let bytes = row * row_bytes(cols)..(row + 1) * row_bytes(cols);
        let mask = self.mask.map_or(&[][..], |mask| &mask[bytes.clone()]);
        (&self.bits[bytes], mask)
    }
}

/// Bytes that a row of `cols` signs takes.
#[must_use]
pub fn row_bytes(cols: usize) -> usize {
    cols.div_ceil(8)
}

/// Writes +1 for each bit that is 1, -1 for each that is 0, and 0 where the mask is 0.
///
/// # Errors
/// [`CoreError::Length`] unless the planes have [`row_bytes`] bytes for each row of `signs`.
pub fn unpack_signs(
    planes: Planes<'_>,
    cols: usize,
    signs: &mut [f32],
    isa: Isa,
) -> Result<(), CoreError> {
    let rows = rows_of("signs", signs.len(), cols)?;
    planes.check(rows, cols)?;
    if rows == 0 {
        return Ok(());
    }
    let lines = signs.par_chunks_mut(cols).enumerate();
    threads::for_each(lines, rows_per_task(cols), |(row, signs)| {
        let (bits, mask) = planes.row(row, cols);
        dispatch!(isa, unpack_row(signs, bits, mask));
    })
}

/// How many whole rows of `cols` a matrix has.
pub(crate) fn rows_of(what: &'static str, len: usize, cols: usize) -> Result<usize, CoreError> {
    let rows = len.checked_div(cols).unwrap_or(0);
    check_length(what, rows * cols, len)?;
    Ok(rows)
}

#[cfg(test)]
mod tests;
