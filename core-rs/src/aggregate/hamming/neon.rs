//! 128 bits at a time; NEON counts the bits of bytes.
#![allow(unsafe_code)]

use std::arch::aarch64::{
    uint8x16_t, vaddq_u64, vaddvq_u64, vcntq_u8, vpadalq_u32, vpaddlq_u8, vpaddlq_u16,
    vreinterpretq_u8_u64, vreinterpretq_u64_u8,
};

use super::{
    NEAR,
    harley_seal::{self, Tally},
};

#[target_feature(enable = "neon")]
pub(super) fn add_block(above: &[&[u8]], beside: &[&[u8]], sums: &mut [[u64; NEAR]]) {
    // SAFETY: this function has the instructions.
    unsafe { harley_seal::add_block::<uint8x16_t>(above, beside, sums) };
}

#[target_feature(enable = "neon")]
pub(super) fn registers(steps: usize) -> usize {
    // SAFETY: this function has the instructions.
    unsafe { harley_seal::registers::<uint8x16_t>(steps) }
}

// SAFETY, for all blocks below: every 64-bit ARM processor that Rust's targets name has NEON.
unsafe impl Tally for uint8x16_t {
    #[inline(always)]
    fn tally(self, totals: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let pairs = vpaddlq_u16(vpaddlq_u8(vcntq_u8(self)));
            vreinterpretq_u8_u64(vpadalq_u32(vreinterpretq_u64_u8(totals), pairs))
        }
    }

    #[inline(always)]
    fn twice(self) -> Self {
        // SAFETY: as above.
        unsafe {
            let numbers = vreinterpretq_u64_u8(self);
            vreinterpretq_u8_u64(vaddq_u64(numbers, numbers))
        }
    }

    #[inline(always)]
    fn total(self) -> u64 {
        // SAFETY: as above.
        unsafe { vaddvq_u64(vreinterpretq_u64_u8(self)) }
    }

    #[inline(always)]
    fn opaque(mut self) -> Self {
        // SAFETY: as above, and no instruction, only a comment.
        unsafe {
            std::arch::asm!("/* {0:v} */", inout(vreg) self, options(nomem, nostack, preserves_flags));
        }
        self
    }
}
