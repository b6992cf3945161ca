//! 16 columns in one register.
#![allow(unsafe_code)]

use std::arch::x86_64::{_mm512_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_storeu_ps};

use super::{
    Line,
    network::{self, Compare},
};

#[target_feature(enable = "avx512f")]
pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    network::trimmed::<Avx512>(pairs, trim, lines, means);
}

struct Avx512;

// SAFETY, for the block below: only the entry point above uses this, which enables the instructions;
// loads and stores stay within parts of a line of their size.
impl Compare for Avx512 {
    #[inline(always)]
    fn compare(first: &mut Line, second: &mut Line) {
        // SAFETY: as above.
        unsafe {
            let (a, b) = (
                _mm512_loadu_ps(first.0.as_ptr()),
                _mm512_loadu_ps(second.0.as_ptr()),
            );
            _mm512_storeu_ps(first.0.as_mut_ptr(), _mm512_min_ps(a, b));
            _mm512_storeu_ps(second.0.as_mut_ptr(), _mm512_max_ps(b, a));
        }
    }
}
