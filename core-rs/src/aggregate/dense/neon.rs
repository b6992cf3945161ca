//! 16 columns in four registers.
#![allow(unsafe_code)]

use std::arch::aarch64::{float32x4_t, vld1q_f32, vmaxq_f32, vminq_f32, vst1q_f32};

use super::{
    Line,
    network::{self, Register},
};

#[target_feature(enable = "neon")]
pub(super) fn trimmed(rows: usize, trim: usize, lines: &mut [Line], means: &mut Line) {
    // SAFETY: this function has the instructions.
    unsafe { network::trimmed::<float32x4_t>(rows, trim, lines, means) };
}

#[target_feature(enable = "neon")]
pub(super) fn sort(lines: &mut [Line]) {
    // SAFETY: this function has the instructions.
    unsafe { network::sort_all::<float32x4_t>(lines) };
}

// SAFETY, for all blocks below: only the entry point above uses this, which enables the instructions;
// loads and stores stay within a part of a line, which has their size.
unsafe impl Register for float32x4_t {
    const COLUMNS: usize = 4;

    #[inline(always)]
    fn load(line: &Line, part: usize) -> Self {
        let columns: &[f32; 4] = &line.0.as_chunks().0[part];
        // SAFETY: as above.
        unsafe { vld1q_f32(columns.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, line: &mut Line, part: usize) {
        let columns: &mut [f32; 4] = &mut line.0.as_chunks_mut().0[part];
        // SAFETY: as above.
        unsafe { vst1q_f32(columns.as_mut_ptr(), self) }
    }

    #[inline(always)]
    fn lower(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { vminq_f32(self, other) }
    }

    #[inline(always)]
    fn higher(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { vmaxq_f32(other, self) }
    }
}
