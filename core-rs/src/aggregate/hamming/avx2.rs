//! 256 bits at a time; bits are counted by looking up half bytes. For few rows: see `lookup`.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm256_add_epi8, _mm256_add_epi64, _mm256_and_si256, _mm256_extract_epi64,
    _mm256_sad_epu8, _mm256_set1_epi8, _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi16,
};

use super::{
    NEAR,
    harley_seal::{self, Tally},
    lookup,
};

#[target_feature(enable = "avx2")]
pub(super) fn add_block(above: &[&[u8]], beside: &[&[u8]], sums: &mut [[u64; NEAR]]) {
    // SAFETY: this function has the instructions.
    unsafe { harley_seal::add_block::<__m256i>(above, beside, sums) };
}

#[target_feature(enable = "avx2")]
pub(super) fn registers(steps: usize) -> usize {
    lookup::registers(steps)
}

/// The number of ones in each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn ones_of_bytes(word: __m256i) -> __m256i {
    let table = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, //
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let half = _mm256_set1_epi8(0x0f);
    let low = _mm256_and_si256(word, half);
    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(word), half);
    _mm256_add_epi8(
        _mm256_shuffle_epi8(table, low),
        _mm256_shuffle_epi8(table, high),
    )
}

/// The same value, opaque to the compiler.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn hidden(mut word: __m256i) -> __m256i {
    // SAFETY: no instruction, only a comment.
    unsafe {
        std::arch::asm!("/* {0} */", inout(ymm_reg) word, options(nomem, nostack, preserves_flags));
    }
    word
}

// SAFETY, for all blocks below: the contract of `Lanes`, that only functions with AVX2 make values of
// this type.
unsafe impl Tally for __m256i {
    #[inline(always)]
    fn tally(self, totals: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let ones = _mm256_sad_epu8(ones_of_bytes(self), _mm256_setzero_si256());
            _mm256_add_epi64(totals, ones)
        }
    }

    #[inline(always)]
    fn twice(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_add_epi64(self, self) }
    }

    #[inline(always)]
    fn total(self) -> u64 {
        // SAFETY: as above.
        let (low, high) = unsafe {
            (
                _mm256_extract_epi64::<0>(self) + _mm256_extract_epi64::<1>(self),
                _mm256_extract_epi64::<2>(self) + _mm256_extract_epi64::<3>(self),
            )
        };
        (low + high).cast_unsigned()
    }

    #[inline(always)]
    fn opaque(self) -> Self {
        // SAFETY: as above.
        unsafe { hidden(self) }
    }
}
