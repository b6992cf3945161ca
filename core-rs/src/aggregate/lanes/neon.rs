//! 128 columns in a NEON register.
#![allow(unsafe_code)]

use std::arch::aarch64::{
    uint8x16_t, vaddq_u8, vaddq_u16, vandq_u8, vdupq_n_s16, vdupq_n_u8, veorq_u8, vld1q_u8,
    vorrq_u8, vqtbl1q_u8, vreinterpretq_u8_u16, vreinterpretq_u16_u8, vshlq_u16, vst1q_u8,
    vsubq_u16,
};

use super::{Bytes, Lanes};

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
}

// SAFETY, for all blocks below: as above.
unsafe impl Bytes for uint8x16_t {
    #[inline(always)]
    fn repeat(bytes: &[u8; 16]) -> Self {
        // SAFETY: as above; an array of 16 bytes is read.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }

    #[inline(always)]
    fn lookup(self, indices: Self) -> Self {
        // SAFETY: as above.
        unsafe { vqtbl1q_u8(self, indices) }
    }

    #[inline(always)]
    fn add_bytes(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { vaddq_u8(self, other) }
    }

    #[inline(always)]
    fn add_pairs(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            vreinterpretq_u8_u16(vaddq_u16(
                vreinterpretq_u16_u8(self),
                vreinterpretq_u16_u8(other),
            ))
        }
    }

    #[inline(always)]
    fn sub_pairs(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            vreinterpretq_u8_u16(vsubq_u16(
                vreinterpretq_u16_u8(self),
                vreinterpretq_u16_u8(other),
            ))
        }
    }

    #[inline(always)]
    fn shift_right(self, bits: u8) -> Self {
        // SAFETY: as above.
        unsafe {
            vreinterpretq_u8_u16(vshlq_u16(
                vreinterpretq_u16_u8(self),
                vdupq_n_s16(-(i16::from(bits))),
            ))
        }
    }

    #[inline(always)]
    fn shift_left(self, bits: u8) -> Self {
        // SAFETY: as above.
        unsafe {
            vreinterpretq_u8_u16(vshlq_u16(
                vreinterpretq_u16_u8(self),
                vdupq_n_s16(i16::from(bits)),
            ))
        }
    }
}
