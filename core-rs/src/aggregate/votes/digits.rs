//! The definition: adding 16 rows of votes to counts in binary digits.
#![allow(unsafe_code)]

use super::{
    super::lanes::{Lanes, add16},
    BLOCK_BYTES,
};
use crate::prefetch;

/// How far ahead in its row memory is asked for.
const AHEAD_BYTES: usize = 512;

/// Adds 16 rows to the digits in `room`, the rows' first byte at byte `at` of each digit. Asks for what
/// follows in each row and, near its end, in the `next` one, which lies elsewhere.
///
/// # Safety
/// That of [`Lanes`]: only from a function with the register's instructions.
#[inline(always)]
pub(super) unsafe fn add_votes<L: Lanes>(
    rows: &[&[u8]; 16],
    next: &[&[u8]; 16],
    room: &mut [u8],
    at: usize,
) {
    for offset in (0..rows[0].len()).step_by(L::BYTES) {
        let mut bits = [L::splat(false); 16];
        for (bits, (row, next)) in bits.iter_mut().zip(rows.iter().zip(next)) {
            *bits = L::load(&row[offset..]);
            if offset % 64 == 0 {
                prefetch::now(line(row, next, offset + AHEAD_BYTES));
            }
        }
        add_columns(&bits, room, at + offset);
    }
}

/// A cache line of one part of a row, or behind its end of the next part; none behind both.
#[inline(always)]
fn line<'a>(part: &'a [u8], next: &'a [u8], at: usize) -> &'a [u8] {
    let found = match at.checked_sub(part.len()) {
        None => part.get(at..at + 64),
        Some(at) => next.get(at..at + 64),
    };
    found.unwrap_or_default()
}

#[inline(always)]
fn add_columns<L: Lanes>(bits: &[L; 16], room: &mut [u8], at: usize) {
    let mut digits = [L::splat(false); 5];
    let (low, high) = room.split_at_mut(4 * BLOCK_BYTES);
    for (digit, plane) in digits.iter_mut().zip(low.chunks_exact(BLOCK_BYTES)) {
        *digit = L::load(&plane[at..]);
    }
    add16(&mut digits, bits);
    for (digit, plane) in digits.iter().zip(low.chunks_exact_mut(BLOCK_BYTES)) {
        digit.store(&mut plane[at..]);
    }
    let mut carry = digits[4];
    for plane in high.chunks_exact_mut(BLOCK_BYTES) {
        let digit = L::load(&plane[at..]);
        digit.xor(carry).store(&mut plane[at..]);
        carry = carry.and(digit);
    }
}
