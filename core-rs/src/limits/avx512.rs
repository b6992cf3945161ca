//! 64 bytes to a register.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // listing every intrinsic adds nothing

use std::arch::x86_64::*;

use super::scalar;

/// Bytes of four registers, which are worked on side by side.
const STEP: usize = 256;

#[target_feature(enable = "avx512f")]
pub(super) fn read(first: &[u8], second: &[u8]) -> u64 {
    let (firsts, first_rest) = first.as_chunks::<STEP>();
    let (seconds, second_rest) = second.as_chunks::<STEP>();
    let mut sums = [_mm512_setzero_si512(); 4];
    for (first, second) in firsts.iter().zip(seconds) {
        let (first, second) = (load(first), load(second));
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum = _mm512_xor_si512(*sum, _mm512_xor_si512(first[at], second[at]));
        }
    }
    let mut bytes = [0; STEP];
    store(sums, &mut bytes);
    scalar::read(&bytes, &[0; STEP]) ^ scalar::read(first_rest, second_rest)
}

#[target_feature(enable = "avx512f")]
pub(super) fn in_place(data: &mut [u8]) {
    let (steps, rest) = data.as_chunks_mut::<STEP>();
    let ones = _mm512_set1_epi32(-1);
    for step in steps {
        let flipped = load(step).map(|register| _mm512_xor_si512(register, ones));
        store(flipped, step);
    }
    scalar::in_place(rest);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; STEP]) -> [__m512i; 4] {
    [0, 1, 2, 3].map(|at| {
        // SAFETY: the four parts of `bytes` are a register each.
        unsafe { _mm512_loadu_si512(bytes[at * STEP / 4..].as_ptr().cast()) }
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(registers: [__m512i; 4], bytes: &mut [u8; STEP]) {
    for (at, register) in registers.into_iter().enumerate() {
        // SAFETY: as in `load`.
        unsafe { _mm512_storeu_si512(bytes[at * STEP / 4..].as_mut_ptr().cast(), register) };
    }
}
