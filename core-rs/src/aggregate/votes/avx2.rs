//! 256 columns at a time.

use std::arch::x86_64::__m256i;

use super::digits;

#[target_feature(enable = "avx2")]
pub(super) fn add_votes(rows: &[&[u8]; 16], next: &[&[u8]; 16], room: &mut [u8], at: usize) {
    digits::add_votes::<__m256i>(rows, next, room, at);
}
