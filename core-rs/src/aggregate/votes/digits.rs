//! The definition: adding 16 rows of votes to counts in binary digits.
#![allow(unsafe_code)]

use super::{
    super::lanes::{Lanes, add16},
    LINE, Line, Strip,
};
use crate::prefetch;

/// Prefetch distance in a row, in lines.
const AHEAD: usize = 8;

/// Adds a line of 16 rows to each line's digits, `count` of them. Asks for what follows in each row and,
/// near its end, for the `next` one, which is elsewhere.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn add_votes<L: Lanes>(
    rows: &[&[Line]; 16],
    next: &[&[Line]; 16],
    room: &mut [Strip],
    count: usize,
) {
    let lines = room.len() / count;
    assert!(rows.iter().all(|row| row.len() == lines));
    let end = lines.saturating_sub(AHEAD);
    for (at, digits) in room.chunks_exact_mut(count).enumerate() {
        if at < end {
            for row in rows {
                prefetch::now(&row[at + AHEAD]);
            }
        } else {
            for row in next {
                prefetch::now(row.get(at - end).unwrap_or(&[0; LINE]));
            }
        }
        for offset in (0..LINE).step_by(L::BYTES) {
            let mut bits = [L::splat(false); 16];
            for (bits, row) in bits.iter_mut().zip(rows) {
                // SAFETY: every row has as many lines.
                *bits = L::load(unsafe { &row.get_unchecked(at)[offset..] });
            }
            add_columns(&bits, digits, offset);
        }
    }
}

#[inline(always)]
fn add_columns<L: Lanes>(bits: &[L; 16], digits: &mut [Strip], offset: usize) {
    let Some((low, high)) = digits.split_first_chunk_mut::<4>() else {
        return;
    };
    let mut sums = [L::splat(false); 5];
    for (sum, digit) in sums.iter_mut().zip(&*low) {
        *sum = L::load(&digit[offset..]);
    }
    add16(&mut sums, bits);
    for (sum, digit) in sums.iter().zip(low) {
        sum.store(&mut digit[offset..]);
    }
    let mut carry = sums[4];
    for digit in high {
        let old = L::load(&digit[offset..]);
        old.xor(carry).store(&mut digit[offset..]);
        carry = carry.and(old);
    }
}
