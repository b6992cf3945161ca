//! How many contributors say plus in each column, and what most of them say.
//!
//! Votes are counted in binary digits that lie apart, one register of digits for many columns: 16 rows
//! are added by carry-save adders, and the carry ripples up. The majority is the top digit of a count
//! that starts so high that it overflows with the deciding vote. O(n d) bits read once.

mod digits;

use rayon::prelude::*;

use super::{
    Packed, lanes,
    strips::{aligned, tail},
};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, compiled, dispatch},
};

compiled! { scalar, avx2, avx512, neon over lanes:
    fn add_votes(rows: &[&[u8]; 16], next: &[&[u8]; 16], room: &mut [u8], at: usize)
        = digits::add_votes::<Register>;
}

/// Bytes of a row that are counted at once, at most: enough for the processor to see a row of memory
/// coming, and all digits of that many columns stay in the second cache.
const BLOCK_BYTES: usize = 8192;
/// ... and at least, where each of several threads is to have some.
const LEAST_BYTES: usize = 1024;
const NO_VOTES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Writes the number of contributors whose bit is 1, for each column.
///
/// # Errors
/// [`CoreError::Length`] for another number of counts than columns.
pub fn count_votes(isa: Isa, packed: Packed<'_>, counts: &mut [u32]) -> Result<(), CoreError> {
    check_length("counts", packed.cols(), counts.len())?;
    let digits = digits_of(packed.rows());
    let size = block_bytes(packed.cols());
    let blocks = counts.par_chunks_mut(8 * size).enumerate();
    blocks.for_each_init(Vec::new, |room, (block, counts)| {
        let room = aligned(room, digits * BLOCK_BYTES);
        count_block(isa, packed, block * size, size, (0, room));
        write_counts(room, digits, counts);
    });
    Ok(())
}

/// Writes a bit for each column: 1 where more than half of the contributors say plus; a tie gives 0,
/// and so does what fills up the last byte.
///
/// # Errors
/// [`CoreError::Length`] for another number of bytes than a row has.
pub fn majority(isa: Isa, packed: Packed<'_>, bits: &mut [u8]) -> Result<(), CoreError> {
    check_length("bits", packed.cols().div_ceil(8), bits.len())?;
    let digits = digits_of(packed.rows());
    let start = (1 << digits) - (packed.rows() / 2 + 1);
    let size = block_bytes(packed.cols());
    let blocks = bits.par_chunks_mut(size).enumerate();
    blocks.for_each_init(Vec::new, |room, (block, bits)| {
        let room = aligned(room, (digits + 1) * BLOCK_BYTES);
        count_block(isa, packed, block * size, size, (start, room));
        bits.copy_from_slice(&room[digits * BLOCK_BYTES..][..bits.len()]);
    });
    if let Some(last) = bits.last_mut() {
        *last &= packed.last_byte_mask();
    }
    Ok(())
}

/// Binary digits that hold a count up to `rows`; at least the four that 16 rows are added to.
fn digits_of(rows: usize) -> usize {
    ((usize::BITS - rows.leading_zeros()) as usize).max(4)
}

/// Bytes of a row in a block, so that every thread gets some four blocks.
fn block_bytes(cols: usize) -> usize {
    let share = cols.div_ceil(8) / (4 * rayon::current_num_threads());
    share
        .next_multiple_of(LEAST_BYTES)
        .clamp(LEAST_BYTES, BLOCK_BYTES)
}

/// Counts the block of `size` bytes of columns from byte `at` on, all counts from `start`; digit `k` is
/// then at `k * BLOCK_BYTES` of `room`.
fn count_block(
    isa: Isa,
    packed: Packed<'_>,
    at: usize,
    size: usize,
    (start, room): (usize, &mut [u8]),
) {
    for (k, digit) in room.chunks_exact_mut(BLOCK_BYTES).enumerate() {
        digit.fill(if start >> k & 1 == 1 { 0xff } else { 0 });
    }
    let rows: Vec<&[u8]> = packed.iter().map(|row| &row[at..]).collect();
    let size = rows[0].len().min(size);
    let (whole, rest) = (size / 64 * 64, tail(&rows, size / 64 * 64..size));
    for (group, next) in rows
        .chunks(16)
        .zip(rows.chunks(16).skip(1).chain([&rows[..0]]))
    {
        let bits = std::array::from_fn(|row| part(group, row, whole));
        let next = std::array::from_fn(|row| part(next, row, whole));
        dispatch!(isa, add_votes(&bits, &next, room, 0));
    }
    for group in rest.chunks(16) {
        let bits = std::array::from_fn(|row| group.get(row).map_or(&NO_VOTES[..64], |r| &r[..]));
        dispatch!(isa, add_votes(&bits, &bits, room, whole));
    }
}

/// The first bytes of a row of a group, zeros where it has fewer rows.
fn part<'a>(group: &[&'a [u8]], row: usize, size: usize) -> &'a [u8] {
    group.get(row).map_or(&NO_VOTES[..size], |row| &row[..size])
}

/// Puts the digits of each column together, eight columns at a time.
fn write_counts(room: &[u8], digits: usize, counts: &mut [u32]) {
    counts.fill(0);
    for (first, planes) in (0..digits).step_by(8).zip(room.chunks(8 * BLOCK_BYTES)) {
        for (byte, counts) in counts.chunks_mut(8).enumerate() {
            let mut eight = 0u64;
            for (k, plane) in planes.chunks_exact(BLOCK_BYTES).enumerate() {
                eight |= spread(plane[byte]) << k;
            }
            for (count, part) in counts.iter_mut().zip(eight.to_le_bytes()) {
                *count |= u32::from(part) << first;
            }
        }
    }
}

/// Each bit of a byte as a byte of its own, 0 or 1.
fn spread(bits: u8) -> u64 {
    const EACH: u64 = 0x8040_2010_0804_0201;
    let chosen = (u64::from(bits) * 0x0101_0101_0101_0101) & EACH;
    ((chosen + (0x8080_8080_8080_8080 - EACH)) >> 7) & 0x0101_0101_0101_0101
}
