//! Adding 16 rows of votes to counts in binary digits.

use super::{
    super::lanes::{Lanes, add16},
    BLOCK_BYTES,
};
use crate::prefetch;

/// Adds 16 rows to the digits in `room`, the rows' first byte at byte `at` of each digit, and asks for
/// the `next` rows, which lie elsewhere.
#[inline(always)]
pub(super) fn add_votes<L: Lanes>(
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
                prefetch::to_read(&next[offset..offset + 64]);
            }
        }
        add_columns(&bits, room, at + offset);
    }
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
