//! 16 bytes to a register.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // listing every intrinsic adds nothing

use std::arch::aarch64::*;

use super::scalar;

/// Bytes of four registers, which are worked on side by side.
const STEP: usize = 64;

#[target_feature(enable = "neon")]
pub(super) fn read(first: &[u8], second: &[u8]) -> u64 {
    let (firsts, first_rest) = first.as_chunks::<STEP>();
    let (seconds, second_rest) = second.as_chunks::<STEP>();
    let mut sums = [vdupq_n_u8(0); 4];
    for (first, second) in firsts.iter().zip(seconds) {
        let (first, second) = (load(first), load(second));
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum = veorq_u8(*sum, veorq_u8(first[at], second[at]));
        }
    }
    let mut bytes = [0; STEP];
    store(sums, &mut bytes);
    scalar::read(&bytes, &[0; STEP]) ^ scalar::read(first_rest, second_rest)
}

#[target_feature(enable = "neon")]
pub(super) fn in_place(data: &mut [u8]) {
    let (steps, rest) = data.as_chunks_mut::<STEP>();
    let ones = vdupq_n_u8(0xFF);
    for step in steps {
        let flipped = load(step).map(|register| veorq_u8(register, ones));
        store(flipped, step);
    }
    scalar::in_place(rest);
}

#[inline]
#[target_feature(enable = "neon")]
fn load(bytes: &[u8; STEP]) -> [uint8x16_t; 4] {
    [0, 1, 2, 3].map(|at| {
        // SAFETY: the four parts of `bytes` are a register each.
        unsafe { vld1q_u8(bytes[at * STEP / 4..].as_ptr()) }
    })
}

#[inline]
#[target_feature(enable = "neon")]
fn store(registers: [uint8x16_t; 4], bytes: &mut [u8; STEP]) {
    for (at, register) in registers.into_iter().enumerate() {
        // SAFETY: as in `load`.
        unsafe { vst1q_u8(bytes[at * STEP / 4..].as_mut_ptr(), register) };
    }
}
