//! A matrix times tokens, the matrix being sign bits and scales; [`dense`] is the one of bf16 weights.
//!
//! `y[t, o] = scale[o] * sum over i of sign[o, i] * x[t, i]`, the bits being those of
//! [`crate::signs`]. A row is cut into blocks of [`BLOCK`] = 1024 inputs, the last one shorter, and
//! four inputs at a time are looked up by their four bits in a table of their sixteen signed sums,
//! which all rows share: one look-up does the work of four additions.
//!
//! - [`Method::Exact`]: the signed sum of four inputs is `(±x0 ± x1) + (±x2 ± x3)` in float32 (where
//!   the width is no multiple of four, zeros follow). Within a block, four number `g` is added to lane
//!   `g mod 8` in the order of `g`, each lane starting from 0; the lanes are added as
//!   `((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))` in float32, and the blocks in order in float64.
//! - [`Method::Int8`]: within a block, `x` becomes integers `q` of steps: the step is the larger
//!   of max |x| / 127 and max (|x0| + |x1| + |x2| + |x3|) / 253 over the block's fours, in float64;
//!   `q = x * (1 / step)` rounded to nearest, ties to even. So a number fits 8 bits with its sign, and
//!   a four's subsets of numbers 8 bits without. The signed sum of a block's numbers is an exact
//!   integer; times the step it is added, block by block in order, in float64.
//!
//! Either sum times the scale, plus the existing `y` if requested, is computed in
//! float64 and rounded once to float32.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod dense;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
mod tables;

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use self::tables::{Step, Tables};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    signs::row_bytes,
    threads,
};

/// Inputs whose sum is taken before it is widened to float64.
pub const BLOCK: usize = 1024;

/// Inputs of a word of bits.
const WORD: usize = 32;
/// Rows that a kernel handles together.
const STRIP: usize = 16;
/// Bytes of a row that a kernel lays out together.
const PIECE: usize = 32;
/// Strips that a thread takes at least.
const STRIPS_PER_TASK: usize = 4;
/// Tokens for which a chunk's bits are laid out once.
const TILE: usize = 16;
/// 32 bits of each row of a strip, in the order that an instruction set needs.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Word([u8; 4 * STRIP]);

impl Word {
    /// The bits of one row, as `scalar` lays them out.
    fn of_row(&self, row: usize) -> u32 {
        u32::from_le_bytes(self.0.as_chunks().0[row])
    }
}

/// How inputs are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// In float32.
    Exact,
    /// As integers of 8 bits.
    Int8,
}

/// How a product is computed; none of it but `method` and `add` changes a byte.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The instruction set.
    pub isa: Isa,
    /// How inputs are added up.
    pub method: Method,
    /// Whether the product is added to what is there, instead of written over it.
    pub add: bool,
}

/// A matrix of signs, `cols` of them in a row.
#[derive(Clone, Copy, Debug)]
pub struct Signs<'a> {
    /// [`row_bytes`] bytes for each row; padding bits in the last one are ignored.
    pub bits: &'a [u8],
    /// One value for each row, or a single one.
    pub scales: &'a [f32],
    /// Signs in a row, at least one.
    pub cols: usize,
}

impl Signs<'_> {
    fn rows(&self) -> Result<usize, CoreError> {
        if self.cols == 0 {
            return Err(CoreError::Empty { what: "bits" });
        }
        let rows = self.bits.len() / row_bytes(self.cols);
        check_length("bits", rows * row_bytes(self.cols), self.bits.len())?;
        if self.scales.len() != 1 {
            check_length("scales", rows, self.scales.len())?;
        }
        if let Some(row) = self.scales.iter().position(|scale| !scale.is_finite()) {
            return Err(CoreError::NotFinite {
                what: "scales",
                row,
                column: 0,
                value: self.scales[row],
            });
        }
        Ok(rows)
    }

    /// The bytes of one block of a strip's rows; of a row that is not there, zeros.
    fn block(&self, row: usize, block: usize) -> [&[u8]; STRIP] {
        let width = row_bytes(self.cols);
        let start = block * BLOCK / 8;
        let length = (width - start).min(BLOCK / 8);
        let mut rows = [&[0; BLOCK / 8][..length]; STRIP];
        let strip = self.bits.get(row * width..).unwrap_or_default();
        for (room, bytes) in rows.iter_mut().zip(strip.chunks_exact(width)) {
            *room = &bytes[start..start + length];
        }
        rows
    }

    /// The bytes of a strip in one block, in memory order,
    /// as the blocks go up.
    fn share(&self, row: usize, block: usize) -> &[u8] {
        let width = row_bytes(self.cols);
        let done = block * BLOCK / 8;
        let length = STRIP * (width - done).min(BLOCK / 8);
        let start = (row * width + STRIP * done).min(self.bits.len());
        &self.bits[start..(start + length).min(self.bits.len())]
    }
}

/// Writes the product of every token with every row of signs, or adds it to `y`.
///
/// `x` is `[tokens, cols]` and `y` `[tokens, rows]`. `y` is untouched after an error.
///
/// # Errors
/// [`CoreError::Empty`] for rows without a sign, [`CoreError::Length`] for buffers that do not fit,
/// [`CoreError::NotFinite`] at the first NaN or infinity in `x` (its token as the row) or `scales`,
/// [`CoreError::TooLarge`] for a token whose absolute inputs add up to more than float32 can represent.
pub fn multiply(how: How, x: &[f32], signs: Signs<'_>, y: &mut [f32]) -> Result<(), CoreError> {
    let rows = signs.rows()?;
    let tokens = x.len() / signs.cols;
    check_length("x", tokens * signs.cols, x.len())?;
    check_length("y", tokens.saturating_mul(rows), y.len())?;
    check_inputs(x, signs.cols)?;
    if y.is_empty() {
        return Ok(());
    }
    let tiles = x.chunks(TILE * signs.cols).zip(y.chunks_mut(TILE * rows));
    for (x, y) in tiles {
        let tables: Vec<Tables> = match how.method {
            Method::Exact => x.chunks(signs.cols).map(Tables::exact).collect(),
            Method::Int8 => x.chunks(signs.cols).map(Tables::int8).collect(),
        };
        let sums = multiply_tile(how, &tables, &signs, rows)?;
        for (token, y) in y.chunks_mut(rows).enumerate() {
            let sums = sums.iter().skip(token).step_by(tables.len());
            finish(sums.flatten(), signs.scales, y, how.add);
        }
    }
    Ok(())
}

/// Multiplies one block of a strip by one token `steps` times, all of it in the first cache, and returns how
/// many signs that are: what the product could do if memory and laying bits out cost nothing.
#[must_use]
pub fn registers(isa: Isa, method: Method, steps: usize) -> usize {
    let x = [1.0; BLOCK];
    let tables = match method {
        Method::Exact => Tables::exact(&x),
        Method::Int8 => Tables::int8(&x),
    };
    let words = [Word([0x5a; 4 * STRIP]); BLOCK / WORD];
    let mut sums = [0.0; STRIP];
    for _ in 0..steps {
        let words = std::hint::black_box(&words);
        add_block(isa, &tables, 0, &[], words, &mut sums);
    }
    std::hint::black_box(sums);
    steps * BLOCK * STRIP
}

fn check_inputs(x: &[f32], cols: usize) -> Result<(), CoreError> {
    for (row, x) in x.chunks(cols).enumerate() {
        let mut lanes = [0.0f64; 8];
        for x in x.chunks(8) {
            for (lane, x) in lanes.iter_mut().zip(x) {
                *lane += f64::from(x.abs());
            }
        }
        if lanes.iter().sum::<f64>() <= f64::from(f32::MAX) {
            continue;
        }
        return Err(match x.iter().position(|x| !x.is_finite()) {
            Some(column) => CoreError::NotFinite {
                what: "x",
                row,
                column,
                value: x[column],
            },
            None => CoreError::TooLarge { what: "x", row },
        });
    }
    Ok(())
}

/// The signed sums: for each strip, for each token, those of the strip's rows.
fn multiply_tile(
    how: How,
    tables: &[Tables],
    signs: &Signs<'_>,
    rows: usize,
) -> Result<Vec<[f64; STRIP]>, CoreError> {
    let mut sums = vec![[0.0; STRIP]; rows.div_ceil(STRIP) * tables.len()];
    let room = || [Word([0; 4 * STRIP]); BLOCK / WORD];
    let strips = sums.par_chunks_mut(tables.len()).enumerate();
    threads::for_each_with(strips, STRIPS_PER_TASK, room, |words, (strip, sums)| {
        multiply_strip(how, tables, signs, strip * STRIP, words, sums);
    })?;
    Ok(sums)
}

/// Adds each block of the strip that starts at `row` to the sums of each token.
///
/// While one strip is multiplied, the next comes from memory: half of it is prefetched while bits are
/// laid out, half while they are multiplied by the first token.
fn multiply_strip(
    how: How,
    tables: &[Tables],
    signs: &Signs<'_>,
    row: usize,
    words: &mut [Word; BLOCK / WORD],
    sums: &mut [[f64; STRIP]],
) {
    for block in 0..signs.cols.div_ceil(BLOCK) {
        let ahead = signs.share(row + STRIP, block);
        let (now, mut later) = ahead.split_at(ahead.len() / 2);
        let used = spread(how, signs, (row, block), now, words);
        for (tables, sums) in tables.iter().zip(&mut *sums) {
            add_block(how.isa, tables, block, later, &words[..used], sums);
            later = &[];
        }
    }
}

/// Lays out one block of the strip that starts at a row, and returns how many words it has.
fn spread(
    how: How,
    signs: &Signs<'_>,
    (row, block): (usize, usize),
    ahead: &[u8],
    words: &mut [Word; BLOCK / WORD],
) -> usize {
    let mut rows = signs.block(row, block);
    let padded = rows[0].len().next_multiple_of(PIECE);
    let mut room;
    if padded != rows[0].len() {
        room = [[0; BLOCK / 8]; STRIP];
        for (row, room) in rows.iter_mut().zip(&mut room) {
            room[..row.len()].copy_from_slice(row);
            *row = &room[..padded];
        }
    }
    let words = &mut words[..padded / 4];
    match how.method {
        Method::Exact => dispatch!(how.isa, spread_exact(&rows, ahead, words)),
        Method::Int8 => dispatch!(how.isa, spread_int8(&rows, ahead, words)),
    }
    padded / 4
}

fn add_block(
    isa: Isa,
    tables: &Tables,
    block: usize,
    ahead: &[u8],
    words: &[Word],
    sums: &mut [f64; STRIP],
) {
    let start = block * BLOCK / WORD;
    match tables {
        Tables::Exact(tables) => dispatch!(isa, exact(words, &tables[start..], ahead, sums)),
        Tables::Int8(tables, steps) => {
            dispatch!(
                isa,
                int8(words, &tables[start..], steps[block], ahead, sums)
            );
        }
    }
}

/// Adds the lanes of a block.
fn add_lanes(lanes: &[f32; 8]) -> f32 {
    let pair = |lane: usize| lanes[lane] + lanes[lane + 4];
    (pair(0) + pair(2)) + (pair(1) + pair(3))
}

/// Adds a block's integers, times their step, to the rows' sums.
#[allow(clippy::inline_always)] // so that it has the instructions of the kernel that calls it
#[inline(always)]
fn settle(found: &[i32; STRIP], step: Step, sums: &mut [f64; STRIP]) {
    for (sum, found) in sums.iter_mut().zip(found) {
        *sum += f64::from(2 * found - step.total) * step.size;
    }
}

#[allow(clippy::cast_possible_truncation)] // the one rounding
fn finish<'a>(sums: impl Iterator<Item = &'a f64>, scales: &[f32], y: &mut [f32], add: bool) {
    let all = scales[0];
    let of_rows = scales.len() > 1;
    for (row, (y, sum)) in y.iter_mut().zip(sums).enumerate() {
        let scale = if of_rows { scales[row] } else { all };
        let before = if add { f64::from(*y) } else { 0.0 };
        *y = (before + f64::from(scale) * sum) as f32;
    }
}

#[cfg(test)]
mod tests;
