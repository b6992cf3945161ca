//! 16 columns in two registers.
#![allow(unsafe_code)]

use std::arch::x86_64::{__m256, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_storeu_ps};

use super::{
    Line,
    network::{self, Register},
};

#[target_feature(enable = "avx2")]
pub(super) fn trimmed(rows: usize, trim: usize, lines: &mut [Line], means: &mut Line) {
    // SAFETY: this function has the instructions.
    unsafe { network::trimmed::<__m256>(rows, trim, lines, means) };
}

#[target_feature(enable = "avx2")]
pub(super) fn sort(lines: &mut [Line]) {
    // SAFETY: this function has the instructions.
    unsafe { network::sort_all::<__m256>(lines) };
}

// SAFETY, for all blocks below: only the entry point above uses this, which enables the instructions;
// loads and stores stay within a part of a line, which has their size.
unsafe impl Register for __m256 {
    const COLUMNS: usize = 8;

    #[inline(always)]
    fn load(line: &Line, part: usize) -> Self {
        let columns: &[f32; 8] = &line.0.as_chunks().0[part];
        // SAFETY: as above.
        unsafe { _mm256_loadu_ps(columns.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, line: &mut Line, part: usize) {
        let columns: &mut [f32; 8] = &mut line.0.as_chunks_mut().0[part];
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(columns.as_mut_ptr(), self) }
    }

    #[inline(always)]
    fn lower(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_min_ps(self, other) }
    }

    #[inline(always)]
    fn higher(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_max_ps(other, self) }
    }
}
