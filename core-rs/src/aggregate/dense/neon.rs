//! 16 columns in four registers.
#![allow(unsafe_code)]

use std::arch::aarch64::{vld1q_f32, vmaxq_f32, vminq_f32, vst1q_f32};

use super::{
    Line,
    network::{self, Compare},
};

#[target_feature(enable = "neon")]
pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    network::trimmed::<Neon>(pairs, trim, lines, means);
}

struct Neon;

// SAFETY, for the block below: only the entry point above uses this, which enables the instructions;
// loads and stores stay within parts of a line of their size.
impl Compare for Neon {
    #[inline(always)]
    fn compare(first: &mut Line, second: &mut Line) {
        let quarters = second.0.as_chunks_mut::<4>().0;
        for (first, second) in first.0.as_chunks_mut::<4>().0.iter_mut().zip(quarters) {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (vld1q_f32(first.as_ptr()), vld1q_f32(second.as_ptr()));
                vst1q_f32(first.as_mut_ptr(), vminq_f32(a, b));
                vst1q_f32(second.as_mut_ptr(), vmaxq_f32(b, a));
            }
        }
    }
}
