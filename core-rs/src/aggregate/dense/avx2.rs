//! 16 columns in two registers.
#![allow(unsafe_code)]

use std::arch::x86_64::{_mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_storeu_ps};

use super::{
    Line,
    network::{self, Compare},
};

#[target_feature(enable = "avx2")]
pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    network::trimmed::<Avx2>(pairs, trim, lines, means);
}

struct Avx2;

// SAFETY, for the block below: only the entry point above uses this, which enables the instructions;
// loads and stores stay within parts of a line of their size.
impl Compare for Avx2 {
    #[inline(always)]
    fn compare(first: &mut Line, second: &mut Line) {
        let halves = second.0.as_chunks_mut::<8>().0;
        for (first, second) in first.0.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (
                    _mm256_loadu_ps(first.as_ptr()),
                    _mm256_loadu_ps(second.as_ptr()),
                );
                _mm256_storeu_ps(first.as_mut_ptr(), _mm256_min_ps(a, b));
                _mm256_storeu_ps(second.as_mut_ptr(), _mm256_max_ps(b, a));
            }
        }
    }
}
