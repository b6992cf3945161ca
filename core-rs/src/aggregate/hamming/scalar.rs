//! The definition: two words differ in as many bits as their exclusive or has ones.
//!
//! Plain integers count them 16 words at a time (see `harley_seal`): a processor of the oldest kind
//! that we run on has no instruction that counts the bits of a word.
#![allow(unsafe_code)]

use super::{
    NEAR,
    harley_seal::{self, Tally},
};

pub(super) fn add_block(above: &[&[u8]], beside: &[&[u8]], sums: &mut [[u64; NEAR]]) {
    // SAFETY: every processor has what this takes.
    unsafe { harley_seal::add_block::<u64>(above, beside, sums) };
}

pub(super) fn registers(steps: usize) -> usize {
    // SAFETY: every processor has what this takes.
    unsafe { harley_seal::registers::<u64>(steps) }
}

// SAFETY: plain integers, which every processor has.
unsafe impl Tally for u64 {
    #[inline(always)]
    fn tally(self, totals: Self) -> Self {
        totals + Self::from(self.count_ones())
    }

    #[inline(always)]
    fn twice(self) -> Self {
        self * 2
    }

    #[inline(always)]
    fn total(self) -> u64 {
        self
    }

    #[inline(always)]
    #[allow(unused_mut)]
    fn opaque(mut self) -> Self {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        // SAFETY: no instruction, only a comment.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) self, options(nomem, nostack, preserves_flags));
        }
        self
    }
}
