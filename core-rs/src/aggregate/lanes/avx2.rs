//! 256 columns in an AVX2 register.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, _mm_cvtsi64_si128, _mm_loadu_si128, _mm256_add_epi8, _mm256_add_epi16,
    _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256, _mm256_or_si256,
    _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_sll_epi16, _mm256_srl_epi16, _mm256_storeu_si256,
    _mm256_sub_epi16, _mm256_xor_si256,
};

use super::{Bytes, Lanes};

/// What kernels are generic over.
pub(in super::super) type Register = __m256i;

// SAFETY, for all blocks below: the trait's contract, that only functions with AVX2 make values of
// this type; loads and stores stay within a slice of 32 bytes.
unsafe impl Lanes for __m256i {
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
}

// SAFETY, for all blocks below: as above.
unsafe impl Bytes for __m256i {
    #[inline(always)]
    fn repeat(bytes: &[u8; 16]) -> Self {
        // SAFETY: as above; an array of 16 bytes is read.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn lookup(self, indices: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_shuffle_epi8(self, indices) }
    }

    #[inline(always)]
    fn add_bytes(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_add_epi8(self, other) }
    }

    #[inline(always)]
    fn add_pairs(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_add_epi16(self, other) }
    }

    #[inline(always)]
    fn sub_pairs(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_sub_epi16(self, other) }
    }

    #[inline(always)]
    fn shift_right(self, bits: u8) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_srl_epi16(self, _mm_cvtsi64_si128(i64::from(bits))) }
    }

    #[inline(always)]
    fn shift_left(self, bits: u8) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_sll_epi16(self, _mm_cvtsi64_si128(i64::from(bits))) }
    }
}
