//! Computes the majority of the signs of each column.
//!
//! Votes are counted in separate binary digits, one register of digits for many columns: 16 rows
//! are added by carry-save adders, and the carry ripples up. The majority is the top digit of a count
//! that starts so high that it overflows with the deciding vote. O(n d) bits read once.

mod digits;

use std::ops::Range;

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use super::{
    Packed, lanes,
    strips::{STRIP, Strip, tail},
};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, compiled, dispatch},
    threads,
};

compiled! { scalar, avx2, avx512, neon over lanes:
    fn add_votes(rows: &[&[Line]; 16], next: &[&[Line]; 16], room: &mut [Strip], count: usize)
        = digits::add_votes::<Register>;
}

/// Bytes of a row that are counted at once, at most: enough for the processor to see a row of memory
/// coming, and all digits of that many columns stay in the second cache.
const BLOCK_BYTES: usize = 8192;
/// ... and at least, where each of several threads is to have some.
const LEAST_BYTES: usize = 1024;

/// Size of a strip of a row: the digits of its columns are stored together.
const LINE: usize = STRIP;
type Line = [u8; LINE];
const NO_VOTES: [Line; BLOCK_BYTES / LINE] = [[0; LINE]; BLOCK_BYTES / LINE];

/// Writes a bit for each column: 1 where more than half of the contributors are plus; a tie gives 0,
/// and so do the padding bits of the last byte.
///
/// # Errors
/// [`CoreError::Length`] for another number of bytes than a row has.
pub fn majority(isa: Isa, packed: Packed<'_>, bits: &mut [u8]) -> Result<(), CoreError> {
    check_length("bits", packed.cols().div_ceil(8), bits.len())?;
    let digits = digits_of(packed.rows());
    let start = (1 << digits) - (packed.rows() / 2 + 1);
    let size = block_bytes(packed.cols());
    let blocks = bits.par_chunks_mut(size).enumerate();
    threads::for_each_with(blocks, 1, Vec::new, |room, (block, bits)| {
        let bytes = block * size..block * size + bits.len();
        count_block(isa, packed, bytes, (start, digits + 1), room);
        let tops = room.iter().skip(digits).step_by(digits + 1);
        for (bits, top) in bits.chunks_mut(LINE).zip(tops) {
            bits.copy_from_slice(&top[..bits.len()]);
        }
    })?;
    if let Some(last) = bits.last_mut() {
        *last &= packed.last_byte_mask();
    }
    Ok(())
}

/// The binary digits of a count up to `rows`; at least the four that 16 rows are added to.
fn digits_of(rows: usize) -> usize {
    ((usize::BITS - rows.leading_zeros()) as usize).max(4)
}

/// Bytes of a row in a block, so that every thread gets some four blocks.
fn block_bytes(cols: usize) -> usize {
    let share = cols.div_ceil(8) / (4 * threads::count());
    share
        .next_multiple_of(LEAST_BYTES)
        .clamp(LEAST_BYTES, BLOCK_BYTES)
}

/// Counts some bytes of columns, all counts from `start`: for each line of a row, its `count` digits.
fn count_block(
    isa: Isa,
    packed: Packed<'_>,
    bytes: Range<usize>,
    (start, count): (usize, usize),
    room: &mut Vec<Strip>,
) {
    room.resize(bytes.len().div_ceil(LINE) * count, Strip::ZERO);
    for (at, digit) in room.iter_mut().enumerate() {
        digit.fill(if start >> (at % count) & 1 == 1 {
            0xff
        } else {
            0
        });
    }
    let rows: Vec<&[u8]> = packed.iter().map(|row| &row[bytes.clone()]).collect();
    let (whole, rest) = room.split_at_mut(bytes.len() / LINE * count);
    let lines: Vec<&[Line]> = rows.iter().map(|row| row.as_chunks().0).collect();
    add_rows(isa, &lines, whole, count);
    let tails = tail(&rows, bytes.len() / LINE * LINE..bytes.len());
    let lines: Vec<&[Line]> = tails
        .iter()
        .map(|tail| std::slice::from_ref(&**tail))
        .collect();
    add_rows(isa, &lines, rest, count);
}

/// Adds rows to the digits of their lines, 16 at a time, with zeros after the last.
fn add_rows(isa: Isa, rows: &[&[Line]], room: &mut [Strip], count: usize) {
    let none = &NO_VOTES[..room.len() / count];
    let mut groups = rows
        .chunks(16)
        .map(|group| std::array::from_fn(|row| group.get(row).copied().unwrap_or(none)));
    let mut now = groups.next();
    while let Some(rows) = now {
        now = groups.next();
        dispatch!(
            isa,
            add_votes(&rows, &now.unwrap_or([none; 16]), room, count)
        );
    }
}
