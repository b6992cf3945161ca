//! Adding whole numbers to those columns whose bit is 1.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use super::strips::{STRIP, Strip};
use crate::isa::{Isa, compiled, dispatch};

compiled! { avx2, neon:
    fn add_masked(masks: &[Strip], numbers: &[i64], sums: &mut Sums) = scalar::add_masked;
}

/// One sum for each column of a strip.
pub(super) type Sums = [i64; 8 * STRIP];

/// Adds `numbers[i]` to the sum of every column whose bit in `masks[i]` is 1.
pub(super) fn add_masked(isa: Isa, masks: &[Strip], numbers: &[i64], sums: &mut Sums) {
    dispatch!(isa, add_masked(masks, numbers, sums));
}
