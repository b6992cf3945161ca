//! 256 columns in an AVX2 register.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_loadu_si256, _mm256_or_si256,
    _mm256_set1_epi8, _mm256_storeu_si256, _mm256_testz_si256, _mm256_xor_si256,
};

use super::Lanes;

// SAFETY, for all blocks below: values of this type only come to be in functions that enable AVX2
// (the entry points of the kernels); loads and stores stay within a slice of 32 bytes.
impl Lanes for __m256i {
    const BYTES: usize = 32;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_loadu_si256(bytes[..32].as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(bytes[..32].as_mut_ptr().cast(), self) }
    }

    #[inline(always)]
    fn splat(bit: bool) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_set1_epi8(if bit { -1 } else { 0 }) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_and_si256(self, other) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_or_si256(self, other) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_andnot_si256(other, self) }
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        // SAFETY: as above.
        unsafe { _mm256_testz_si256(self, self) == 1 }
    }
}
