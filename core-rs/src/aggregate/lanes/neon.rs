//! 128 columns in a NEON register.
#![allow(unsafe_code)]

use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vbicq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vmaxvq_u8, vorrq_u8, vst1q_u8,
};

use super::Lanes;

/// What kernels are generic over.
pub(in super::super) type Register = uint8x16_t;

// SAFETY, for all blocks below: every 64-bit ARM processor that Rust's targets name has NEON; loads
// and stores stay within a slice of 16 bytes.
unsafe impl Lanes for uint8x16_t {
    const BYTES: usize = 16;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        // SAFETY: as above.
        unsafe { vld1q_u8(bytes[..16].as_ptr()) }
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        // SAFETY: as above.
        unsafe { vst1q_u8(bytes[..16].as_mut_ptr(), self) }
    }

    #[inline(always)]
    fn splat(bit: bool) -> Self {
        // SAFETY: as above.
        unsafe { vdupq_n_u8(if bit { 255 } else { 0 }) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { vandq_u8(self, other) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { vorrq_u8(self, other) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { veorq_u8(self, other) }
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { vbicq_u8(self, other) }
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        // SAFETY: as above.
        unsafe { vmaxvq_u8(self) == 0 }
    }
}
