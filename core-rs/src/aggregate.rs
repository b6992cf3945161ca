//! Combines many contributions: distances, votes, means and trimmed means by column shards.
//!
//! A contribution is a row over the columns of a shard, either packed signs (bit 1 is plus, least
//! significant first) with one scale, or plain floats. A caller passes shards of any number of
//! columns, one after the other: the distances of [`hamming`] add up over shards, everything else is
//! computed for each column by itself. So neither the division into shards, nor the number of threads, nor
//! the instruction set, nor the order of the contributors changes a byte.
// What is written over registers of any width must become part of the kernel that enables them.
#![allow(clippy::inline_always)]

pub mod dense;
mod fixed;
pub mod hamming;
mod lanes;
pub mod refusal;
pub mod signed;
mod strips;
mod sums;
pub mod votes;
pub mod weighted;

pub use refusal::Refusal;

/// The packed signs of every contributor over one shard, borrowed row by row.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    rows: &'a [&'a [u8]],
    cols: usize,
}

impl<'a> Packed<'a> {
    /// Rows of `ceil(cols / 8)` bytes each; padding bits in the last byte are ignored.
    ///
    /// # Errors
    /// [`Refusal::Nothing`] without any row or column, [`Refusal::Length`] for a row of another length.
    pub fn new(rows: &'a [&'a [u8]], cols: usize) -> Result<Self, Refusal> {
        check_rows(rows.iter().map(|row| row.len()), cols.div_ceil(8), "bytes")?;
        Ok(Self { rows, cols })
    }

    /// The number of contributors.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The number of columns.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    fn iter(&self) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.rows.iter().copied()
    }

    /// Which bits of a row's last byte are columns.
    fn last_byte_mask(&self) -> u8 {
        0xff >> (7 - (self.cols - 1) % 8)
    }
}

/// Checks that there are rows and columns, and that all rows are of one length.
pub(crate) fn check_rows(
    lengths: impl ExactSizeIterator<Item = usize>,
    expected: usize,
    unit: &'static str,
) -> Result<(), Refusal> {
    if lengths.len() == 0 {
        let what = "contributor";
        return Err(Refusal::Nothing { what });
    }
    if expected == 0 {
        return Err(Refusal::Nothing { what: "column" });
    }
    match lengths.enumerate().find(|(_, got)| *got != expected) {
        Some((row, got)) => Err(Refusal::Length {
            row,
            unit,
            expected,
            got,
        }),
        None => Ok(()),
    }
}

/// Checks that a trimmed mean has values left.
fn check_trim(rows: usize, trim: usize) -> Result<(), Refusal> {
    let most = (rows - 1) / 2;
    if trim > most {
        return Err(Refusal::Trim { rows, most, trim });
    }
    Ok(())
}

#[cfg(test)]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::float_cmp
)]
mod tests;
