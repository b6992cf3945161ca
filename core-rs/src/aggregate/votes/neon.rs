//! 128 columns at a time.

use std::arch::aarch64::uint8x16_t;

use super::digits;

#[target_feature(enable = "neon")]
pub(super) fn add_votes(rows: &[&[u8]; 16], next: &[&[u8]; 16], room: &mut [u8], at: usize) {
    digits::add_votes::<uint8x16_t>(rows, next, room, at);
}
