//! 512 columns in an AVX-512 register; a full adder is two ternary operations.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm_cvtsi64_si128, _mm_loadu_si128, _mm512_add_epi8, _mm512_add_epi16,
    _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_loadu_si512, _mm512_or_si512,
    _mm512_set1_epi8, _mm512_shuffle_epi8, _mm512_sll_epi16, _mm512_srl_epi16, _mm512_storeu_si512,
    _mm512_sub_epi16, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use super::{Bytes, Lanes};

/// What kernels are generic over.
pub(in super::super) type Register = __m512i;

/// Truth table of `a ^ b ^ c`.
pub(in super::super) const XOR3: i32 = 0b1001_0110;
/// Truth table of "at least two of a, b, c".
const TWO_OF_3: i32 = 0b1110_1000;

// SAFETY, for all blocks below: the trait's contract, that only functions with AVX-512 make values of
// this type; loads and stores stay within a slice of 64 bytes.
unsafe impl Lanes for __m512i {
    const BYTES: usize = 64;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_loadu_si512(bytes[..64].as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(bytes[..64].as_mut_ptr().cast(), self) }
    }

    #[inline(always)]
    fn splat(bit: bool) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_set1_epi8(if bit { -1 } else { 0 }) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(self, other) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_or_si512(self, other) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    fn add(self, second: Self, third: Self) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            (
                _mm512_ternarylogic_epi64::<XOR3>(self, second, third),
                _mm512_ternarylogic_epi64::<TWO_OF_3>(self, second, third),
            )
        }
    }
}

// SAFETY, for all blocks below: as above.
unsafe impl Bytes for __m512i {
    #[inline(always)]
    fn repeat(bytes: &[u8; 16]) -> Self {
        // SAFETY: as above; an array of 16 bytes is read.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn lookup(self, indices: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_shuffle_epi8(self, indices) }
    }

    #[inline(always)]
    fn add_bytes(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_add_epi8(self, other) }
    }

    #[inline(always)]
    fn add_pairs(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_add_epi16(self, other) }
    }

    #[inline(always)]
    fn sub_pairs(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_sub_epi16(self, other) }
    }

    #[inline(always)]
    fn shift_right(self, bits: u8) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_srl_epi16(self, _mm_cvtsi64_si128(i64::from(bits))) }
    }

    #[inline(always)]
    fn shift_left(self, bits: u8) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_sll_epi16(self, _mm_cvtsi64_si128(i64::from(bits))) }
    }
}
