//! 16 columns in one register.
#![allow(unsafe_code)]

use std::arch::x86_64::{__m512, _mm512_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_storeu_ps};

use super::{
    Line,
    network::{self, Register},
};

#[target_feature(enable = "avx512f")]
pub(super) fn trimmed(rows: usize, trim: usize, lines: &mut [Line], means: &mut Line) {
    // SAFETY: this function has the instructions.
    unsafe { network::trimmed::<__m512>(rows, trim, lines, means) };
}

#[target_feature(enable = "avx512f")]
pub(super) fn sort(lines: &mut [Line]) {
    // SAFETY: this function has the instructions.
    unsafe { network::sort_all::<__m512>(lines) };
}

// SAFETY, for all blocks below: only the entry point above uses this, which enables the instructions;
// loads and stores stay within a part of a line, which has their size.
unsafe impl Register for __m512 {
    const COLUMNS: usize = 16;

    #[inline(always)]
    fn load(line: &Line, part: usize) -> Self {
        let columns: &[f32; 16] = &line.0.as_chunks().0[part];
        // SAFETY: as above.
        unsafe { _mm512_loadu_ps(columns.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, line: &mut Line, part: usize) {
        let columns: &mut [f32; 16] = &mut line.0.as_chunks_mut().0[part];
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(columns.as_mut_ptr(), self) }
    }

    #[inline(always)]
    fn lower(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_min_ps(self, other) }
    }

    #[inline(always)]
    fn higher(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_max_ps(other, self) }
    }
}
