//! Adding whole numbers to those columns whose bit is 1.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use super::strips::{STRIP, Strip};
use crate::isa::{Isa, dispatch};

/// One sum for each column of a strip.
pub(super) type Sums = [i64; 8 * STRIP];

/// Adds `numbers[i]` to the sum of every column whose bit in `masks[i]` is 1.
pub(super) fn add_masked(isa: Isa, masks: &[Strip], numbers: &[i64], sums: &mut Sums) {
    dispatch!(isa, add_masked(masks, numbers, sums));
}
