//! Sixteen float32 to a register; bits go to and from mask registers as they are.
//!
//! Where all weights are bfloat16 nothing is moved across a register: as 32 words of 16 bits they are
//! split into the even and the odd ones, each being the upper half of a float32.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // listing every intrinsic adds nothing

use std::arch::x86_64::*;

use super::rows::{
    AHEAD_BYTES, ApplyRow, PackRow, mask_word, pack_lines, padded, row_kernels, sum_in_order, word,
    write_word,
};
use crate::{
    prefetch,
    weights::{BLOCK, CHUNK, Kind, Weight},
};

/// 32 numbers: the first and the last sixteen, or where all weights are bfloat16 the even and the odd.
type Lanes = [__m512; 2];

/// The odd one of two words.
const ODD: u32 = 0xFFFF_0000;

row_kernels!(#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]);
pack_lines!(#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]);

fn all_bf16<B: Weight, T: Weight>() -> bool {
    B::KIND == Kind::Bf16 && T::KIND == Kind::Bf16
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(value: f32) -> Lanes {
    [_mm512_set1_ps(value); 2]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn to_lanes<B: Weight, T: Weight>(values: &[f32; CHUNK]) -> Lanes {
    let halves = widen(values);
    if !all_bf16::<B, T>() {
        return halves;
    }
    [EVEN_OF_TWO, ODD_OF_TWO]
        .map(|order| _mm512_permutex2var_ps(halves[0], indices(order), halves[1]))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn from_lanes<B: Weight, T: Weight>(lanes: Lanes, values: &mut [f32; CHUNK]) {
    let mut halves = lanes;
    if all_bf16::<B, T>() {
        halves = [FIRST_IN_TURNS, LAST_IN_TURNS]
            .map(|order| _mm512_permutex2var_ps(lanes[0], indices(order), lanes[1]));
    }
    let places = values.as_chunks_mut::<16>().0.iter_mut();
    for (place, half) in places.zip(halves) {
        // SAFETY: `place` is sixteen float32.
        unsafe { _mm512_storeu_ps(place.as_mut_ptr(), half) };
    }
}

/// The even ones of 32 numbers, the odd ones; and back in turns, the first sixteen, the last sixteen.
const EVEN_OF_TWO: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
const ODD_OF_TWO: [i32; 16] = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];
const FIRST_IN_TURNS: [i32; 16] = [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23];
const LAST_IN_TURNS: [i32; 16] = [8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31];

#[inline]
#[target_feature(enable = "avx512f")]
fn indices(order: [i32; 16]) -> __m512i {
    // SAFETY: both types are 64 bytes without further meaning.
    unsafe { std::mem::transmute(order) }
}

/// As float32, the first and the last sixteen.
#[inline]
#[target_feature(enable = "avx512f")]
fn widen<W: Weight>(weights: &[W; CHUNK]) -> [__m512; 2] {
    let start = weights.as_ptr();
    [start, start.wrapping_add(CHUNK / 2)].map(|half| {
        // SAFETY: `half` points at sixteen weights of the requested type.
        unsafe {
            match W::KIND {
                Kind::F32 => _mm512_loadu_ps(half.cast()),
                Kind::F16 => _mm512_cvtph_ps(_mm256_loadu_si256(half.cast())),
                Kind::Bf16 => {
                    let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(half.cast()));
                    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
                }
            }
        }
    })
}

/// Stores 32 sums as weights of 32 or 16 bits; bfloat16 has `apply_bf16`.
#[inline]
#[target_feature(enable = "avx512f")]
fn narrow<W: Weight>(sums: [__m512; 2], weights: &mut [W; CHUNK], mask: u32) {
    let start = weights.as_mut_ptr();
    for (half, (sum, mask)) in sums.into_iter().zip(halves(mask)).enumerate() {
        let place = start.wrapping_add(half * CHUNK / 2);
        // SAFETY: `place` points at sixteen weights of the requested type.
        unsafe {
            if W::KIND == Kind::F32 {
                _mm512_mask_storeu_ps(place.cast(), mask, sum);
            } else {
                let old = _mm256_loadu_si256(place.cast());
                let new = _mm512_mask_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(old, mask, sum);
                _mm256_storeu_si256(place.cast(), new);
            }
        }
    }
}

/// A word's halves as masks.
#[allow(clippy::cast_possible_truncation)] // that is what halves are
fn halves(word: u32) -> [__mmask16; 2] {
    [word as u16, (word >> 16) as u16]
}

/// 32 weights of 16 bits as they are.
#[inline]
#[target_feature(enable = "avx512f")]
fn words<W: Weight>(weights: &[W; CHUNK]) -> __m512i {
    const { assert!(size_of::<W>() <= 4) };
    // SAFETY: the weights are at least 64 bytes.
    unsafe { _mm512_loadu_si512(weights.as_ptr().cast()) }
}

/// The even and the odd ones of 32 bfloat16 as float32.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(words: __m512i) -> [__m512; 2] {
    let odd = _mm512_and_si512(words, _mm512_set1_epi32(ODD.cast_signed()));
    [_mm512_slli_epi32::<16>(words), odd].map(|half| _mm512_castsi512_ps(half))
}

/// The upper halves of even and odd float32 as 32 words in turns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn upper(even: __m512i, odd: __m512i) -> __m512i {
    _mm512_mask_blend_epi16(0xAAAA_AAAA, _mm512_srli_epi32::<16>(even), odd)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn pack_chunk<B: Weight, T: Weight, const MASK: bool>(
    base: &[B; CHUNK],
    tuned: &[T; CHUNK],
    lanes: &mut Lanes,
) -> (u32, u32) {
    prefetch::behind(base, AHEAD_BYTES);
    prefetch::behind(tuned, AHEAD_BYTES);
    let split_up = all_bf16::<B, T>();
    let (base, tuned) = if split_up {
        (split(words(base)), split(words(tuned)))
    } else {
        (widen(base), widen(tuned))
    };
    let differences = [0, 1].map(|half| _mm512_sub_ps(tuned[half], base[half]));
    for (lane, difference) in lanes.iter_mut().zip(differences) {
        *lane = _mm512_add_ps(*lane, _mm512_abs_ps(difference));
    }
    let zero = _mm512_setzero_si512();
    if split_up {
        // bfloat16 numbers are multiples of 2^-133, the last bit of the upper half of a float32: it
        // is zero only where the whole difference is.
        let [even, odd] = differences.map(|half| _mm512_castps_si512(half));
        let upper = upper(even, odd);
        let nonzero = if MASK {
            _mm512_test_epi16_mask(upper, _mm512_set1_epi16(0x7FFF))
        } else {
            0
        };
        return (_mm512_cmpgt_epi16_mask(upper, zero), nonzero);
    }
    let zero = _mm512_castsi512_ps(zero);
    let plus = differences.map(|half| _mm512_cmp_ps_mask::<_CMP_GT_OQ>(half, zero));
    let nonzero = differences.map(|half| _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(half, zero));
    (joined(plus), if MASK { joined(nonzero) } else { 0 })
}

/// Stores a cache line of bits in one register.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_line(bits: &[[u8; 4]; 16], line: &mut [[u8; 4]; 16]) {
    // SAFETY: both are 64 bytes.
    unsafe {
        let bits = _mm512_loadu_si512(bits.as_ptr().cast());
        _mm512_storeu_si512(line.as_mut_ptr().cast(), bits);
    }
}

fn joined(masks: [__mmask16; 2]) -> u32 {
    u32::from(masks[0]) | u32::from(masks[1]) << 16
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn apply_chunk<W: Weight>(weights: &mut [W; CHUNK], bits: u32, mask: u32, scale: Lanes) {
    if W::KIND == Kind::Bf16 {
        return apply_bf16(weights, bits, mask, scale);
    }
    let old = widen(weights);
    let bits = halves(bits);
    let sums = [0, 1].map(|half| {
        let minus = _mm512_sub_ps(old[half], scale[half]);
        _mm512_mask_add_ps(minus, bits[half], old[half], scale[half])
    });
    narrow(sums, weights, mask);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn apply_bf16<W: Weight>(weights: &mut [W; CHUNK], bits: u32, mask: u32, scale: Lanes) {
    let old = words(weights);
    let minus = _mm512_maskz_mov_epi16(!bits, _mm512_set1_epi16(i16::MIN));
    let scales = scale.map(|half| _mm512_castps_si512(half));
    // scale ^ (minus & ODD)
    let odd = _mm512_set1_epi32(ODD.cast_signed());
    let odd = _mm512_ternarylogic_epi32::<0x78>(scales[1], minus, odd);
    let even = _mm512_xor_si512(_mm512_slli_epi32::<16>(minus), scales[0]);
    let [low, high] = split(old);
    let even = _mm512_castps_si512(_mm512_add_ps(low, _mm512_castsi512_ps(even)));
    let odd = _mm512_castps_si512(_mm512_add_ps(high, _mm512_castsi512_ps(odd)));
    let new = _mm512_mask_mov_epi16(old, mask, rounded(even, odd));
    // SAFETY: bfloat16 weights: 64 bytes.
    unsafe { _mm512_storeu_si512(weights.as_mut_ptr().cast(), new) };
}

/// Even and odd float32 rounded to bfloat16, as words in turns; the instructions that the processor
/// has for it take subnormal numbers for zeros.
///
/// Up where the lower half is above a half, or is a half and the upper half odd: where it is at least
/// a half after 1 was taken from it, saturating at 0, when the upper half is even. A NaN was widened
/// from bfloat16, so its lower half is 0 and it stays as it is.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn rounded(even: __m512i, odd: __m512i) -> __m512i {
    let upper = upper(even, odd);
    let lower = _mm512_mask_blend_epi16(0xAAAA_AAAA, even, _mm512_slli_epi32::<16>(odd));
    let is_even = _mm512_andnot_si512(upper, _mm512_set1_epi16(1));
    let above_half = _mm512_srli_epi16::<15>(_mm512_subs_epu16(lower, is_even));
    _mm512_add_epi16(upper, above_half)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn unpack_chunk(signs: &mut [f32; CHUNK], bits: u32, mask: u32) {
    let halves = halves(bits).into_iter().zip(halves(mask));
    for (place, (bits, mask)) in signs.as_chunks_mut::<16>().0.iter_mut().zip(halves) {
        let sign = _mm512_mask_blend_ps(bits, _mm512_set1_ps(-1.0), _mm512_set1_ps(1.0));
        // SAFETY: `place` is sixteen float32.
        unsafe { _mm512_storeu_ps(place.as_mut_ptr(), _mm512_maskz_mov_ps(mask, sign)) };
    }
}
