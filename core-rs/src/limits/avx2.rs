//! 32 bytes to a register.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // listing every intrinsic adds nothing

use std::arch::x86_64::*;

use super::scalar;

/// Bytes of four registers, which are worked on side by side.
const STEP: usize = 128;

#[target_feature(enable = "avx2")]
pub(super) fn read(first: &[u8], second: &[u8]) -> u64 {
    let (firsts, first_rest) = first.as_chunks::<STEP>();
    let (seconds, second_rest) = second.as_chunks::<STEP>();
    let mut sums = [_mm256_setzero_si256(); 4];
    for (first, second) in firsts.iter().zip(seconds) {
        let (first, second) = (load(first), load(second));
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum = _mm256_xor_si256(*sum, _mm256_xor_si256(first[at], second[at]));
        }
    }
    let mut bytes = [0; STEP];
    store(sums, &mut bytes);
    scalar::read(&bytes, &[0; STEP]) ^ scalar::read(first_rest, second_rest)
}

#[target_feature(enable = "avx2")]
pub(super) fn in_place(data: &mut [u8]) {
    let (steps, rest) = data.as_chunks_mut::<STEP>();
    let ones = _mm256_set1_epi32(-1);
    for step in steps {
        let flipped = load(step).map(|register| _mm256_xor_si256(register, ones));
        store(flipped, step);
    }
    scalar::in_place(rest);
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; STEP]) -> [__m256i; 4] {
    [0, 1, 2, 3].map(|at| {
        // SAFETY: the four parts of `bytes` are a register each.
        unsafe { _mm256_loadu_si256(bytes[at * STEP / 4..].as_ptr().cast()) }
    })
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(registers: [__m256i; 4], bytes: &mut [u8; STEP]) {
    for (at, register) in registers.into_iter().enumerate() {
        // SAFETY: as in `load`.
        unsafe { _mm256_storeu_si256(bytes[at * STEP / 4..].as_mut_ptr().cast(), register) };
    }
}
