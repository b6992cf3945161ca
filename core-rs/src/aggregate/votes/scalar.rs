//! The definition: a column's count is the sum of its bits. 64 columns at a time.

use super::digits;

pub(super) fn add_votes(rows: &[&[u8]; 16], next: &[&[u8]; 16], room: &mut [u8], at: usize) {
    digits::add_votes::<u64>(rows, next, room, at);
}
