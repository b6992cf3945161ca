//! Eight float32 to a register; bits are moved to and from the registers' lanes by shifts and packs.
//!
//! Where all weights are bfloat16 nothing is moved across a register: as words of 16 bits they are
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

/// 32 numbers in order, or where all weights are bfloat16 the even and the odd of the first sixteen,
/// then of the last sixteen.
type Lanes = [__m256; 4];

/// The odd one of two words.
const ODD: i32 = 0xFFFF_0000_u32.cast_signed();

/// Where number `at` of 32 lies in `Lanes` of even and odd ones.
const fn split_place(at: usize) -> usize {
    at / 16 * 16 + at % 2 * 8 + at % 16 / 2
}

row_kernels!(#[target_feature(enable = "avx2,fma,f16c")]);
pack_lines!(#[target_feature(enable = "avx2,fma,f16c")]);

fn all_bf16<B: Weight, T: Weight>() -> bool {
    B::KIND == Kind::Bf16 && T::KIND == Kind::Bf16
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(value: f32) -> Lanes {
    [_mm256_set1_ps(value); 4]
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn to_lanes<B: Weight, T: Weight>(values: &[f32; CHUNK]) -> Lanes {
    if !all_bf16::<B, T>() {
        return widen(values);
    }
    let mut places = [0.0; CHUNK];
    for (at, value) in values.iter().enumerate() {
        places[split_place(at)] = *value;
    }
    widen(&places)
}

#[inline]
#[target_feature(enable = "avx2")]
fn from_lanes<B: Weight, T: Weight>(lanes: Lanes, values: &mut [f32; CHUNK]) {
    if !all_bf16::<B, T>() {
        return store(lanes, values);
    }
    let mut places = [0.0; CHUNK];
    store(lanes, &mut places);
    for (at, value) in values.iter_mut().enumerate() {
        *value = places[split_place(at)];
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(lanes: Lanes, values: &mut [f32; CHUNK]) {
    for (place, lane) in values.as_chunks_mut::<8>().0.iter_mut().zip(lanes) {
        // SAFETY: `place` is eight float32.
        unsafe { _mm256_storeu_ps(place.as_mut_ptr(), lane) };
    }
}

/// As float32 in order.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen<W: Weight>(weights: &[W; CHUNK]) -> Lanes {
    [0, 1, 2, 3].map(|quarter| {
        let start = weights[quarter * 8..].as_ptr();
        // SAFETY: `start` points at eight weights of the requested type.
        unsafe {
            match W::KIND {
                Kind::F32 => _mm256_loadu_ps(start.cast()),
                Kind::F16 => _mm256_cvtph_ps(_mm_loadu_si128(start.cast())),
                Kind::Bf16 => {
                    let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(start.cast()));
                    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
                }
            }
        }
    })
}

/// 32 bfloat16 as words, the first and the last sixteen.
#[inline]
#[target_feature(enable = "avx2")]
fn words<W: Weight>(weights: &[W; CHUNK]) -> [__m256i; 2] {
    [0, 16].map(|at| {
        // SAFETY: sixteen weights from `at` on are at least 32 bytes.
        unsafe { _mm256_loadu_si256(weights[at..].as_ptr().cast()) }
    })
}

/// The even and the odd ones of sixteen bfloat16 as float32.
#[inline]
#[target_feature(enable = "avx2")]
fn split(words: __m256i) -> [__m256; 2] {
    let odd = _mm256_and_si256(words, _mm256_set1_epi32(ODD));
    [_mm256_slli_epi32::<16>(words), odd].map(|half| _mm256_castsi256_ps(half))
}

/// The even and the odd ones of 32 bfloat16, as `Lanes` has them.
#[inline]
#[target_feature(enable = "avx2")]
fn split_all<W: Weight>(weights: &[W; CHUNK]) -> Lanes {
    let [first, last] = words(weights).map(|words| split(words));
    [first[0], first[1], last[0], last[1]]
}

/// The upper halves of even and odd float32 as sixteen words in turns.
#[inline]
#[target_feature(enable = "avx2")]
fn upper(even: __m256, odd: __m256) -> __m256i {
    let even = _mm256_srli_epi32::<16>(_mm256_castps_si256(even));
    _mm256_blend_epi16::<0xAA>(even, _mm256_castps_si256(odd))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn pack_chunk<B: Weight, T: Weight, const MASK: bool>(
    base: &[B; CHUNK],
    tuned: &[T; CHUNK],
    lanes: &mut Lanes,
) -> (u32, u32) {
    prefetch::behind(base, AHEAD_BYTES);
    prefetch::behind(tuned, AHEAD_BYTES);
    let split_up = all_bf16::<B, T>();
    let (base, tuned) = if split_up {
        (split_all(base), split_all(tuned))
    } else {
        (widen(base), widen(tuned))
    };
    let d = [0, 1, 2, 3].map(|at| _mm256_sub_ps(tuned[at], base[at]));
    for (lane, difference) in lanes.iter_mut().zip(d) {
        *lane = _mm256_add_ps(*lane, _mm256_andnot_ps(_mm256_set1_ps(-0.0), difference));
    }
    // bfloat16 numbers are multiples of 2^-133, the last bit of the upper half of a float32: it is
    // zero only where the whole difference is (but for the sign).
    let sixteens = if split_up {
        [upper(d[0], d[1]), upper(d[2], d[3])]
    } else {
        let flags = d.map(|d| sign_of(d));
        [[flags[0], flags[1]], [flags[2], flags[3]]]
            .map(|[a, b]| _mm256_permute4x64_epi64::<0xD8>(_mm256_packs_epi32(a, b)))
    };
    // Saturating keeps signs and zeros: 32 bytes, below, at or above zero.
    let bytes = _mm256_packs_epi16(sixteens[0], sixteens[1]);
    let bytes = _mm256_permute4x64_epi64::<0xD8>(bytes);
    let zero = _mm256_setzero_si256();
    let plus = _mm256_movemask_epi8(_mm256_cmpgt_epi8(bytes, zero));
    let zeros = if MASK { is_zero(sixteens) } else { 0 };
    (plus.cast_unsigned(), if MASK { !zeros } else { 0 })
}

/// Stores a cache line of bits in two registers.
#[inline]
#[target_feature(enable = "avx2")]
fn store_line(bits: &[[u8; 4]; 16], line: &mut [[u8; 4]; 16]) {
    let halves = bits.as_chunks::<8>().0.iter();
    for (bits, place) in halves.zip(line.as_chunks_mut::<8>().0) {
        // SAFETY: both are 32 bytes.
        unsafe {
            let bits = _mm256_loadu_si256(bits.as_ptr().cast());
            _mm256_storeu_si256(place.as_mut_ptr().cast(), bits);
        }
    }
}

/// 1 where a number is above zero, -1 where it is below, 0 for zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn sign_of(numbers: __m256) -> __m256i {
    let zero = _mm256_setzero_ps();
    let above = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GT_OQ>(numbers, zero));
    let below = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(numbers, zero));
    _mm256_sub_epi32(below, above)
}

/// Which of 32 words are zero but for their sign bit.
#[inline]
#[target_feature(enable = "avx2")]
fn is_zero(sixteens: [__m256i; 2]) -> u32 {
    let zero = _mm256_setzero_si256();
    let [first, last] =
        sixteens.map(|words| _mm256_cmpeq_epi16(_mm256_slli_epi16::<1>(words), zero));
    let bytes = _mm256_permute4x64_epi64::<0xD8>(_mm256_packs_epi16(first, last));
    _mm256_movemask_epi8(bytes).cast_unsigned()
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn apply_chunk<W: Weight>(weights: &mut [W; CHUNK], bits: u32, mask: u32, scale: Lanes) {
    if W::KIND == Kind::Bf16 {
        return apply_bf16(weights, bits, mask, scale);
    }
    let old = widen(weights);
    let minus = spread(!bits);
    let sums = [0, 1, 2, 3].map(|at| _mm256_add_ps(old[at], _mm256_xor_ps(minus[at], scale[at])));
    if mask == u32::MAX {
        return narrow(sums, weights);
    }
    let mut new = *weights;
    narrow(sums, &mut new);
    for (at, (weight, new)) in weights.iter_mut().zip(new).enumerate() {
        if mask >> at & 1 == 1 {
            *weight = new;
        }
    }
}

/// Each bit at the sign of its number, nothing else.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(bits: u32) -> Lanes {
    let to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    [bits, bits >> 8, bits >> 16, bits >> 24].map(|bits| {
        let shifted = _mm256_sllv_epi32(_mm256_set1_epi32(bits.cast_signed()), to_sign);
        _mm256_and_ps(_mm256_castsi256_ps(shifted), _mm256_set1_ps(-0.0))
    })
}

/// Stores 32 sums as float32 or float16; bfloat16 has `apply_bf16`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn narrow<W: Weight>(sums: Lanes, weights: &mut [W; CHUNK]) {
    for (place, sum) in weights.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
        let place = place.as_mut_ptr();
        // SAFETY: `place` points at eight weights of the requested type.
        unsafe {
            if W::KIND == Kind::F32 {
                _mm256_storeu_ps(place.cast(), sum);
            } else {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(sum);
                _mm_storeu_si128(place.cast(), halves);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn apply_bf16<W: Weight>(weights: &mut [W; CHUNK], bits: u32, mask: u32, scale: Lanes) {
    // Bit 2i + 1 of each sixteen goes to the sign of dword i, bit 2i to the place below it.
    let bits = _mm256_set1_epi32(bits.cast_signed());
    let plus = [
        _mm256_setr_epi32(30, 28, 26, 24, 22, 20, 18, 16),
        _mm256_setr_epi32(14, 12, 10, 8, 6, 4, 2, 0),
    ]
    .map(|to_sign| _mm256_sllv_epi32(bits, to_sign));
    for (at, old) in words(weights).into_iter().enumerate() {
        let [even, odd] = split(old);
        let even_plus = _mm256_slli_epi32::<1>(plus[at]);
        let even = _mm256_add_ps(even, signed(scale[2 * at], even_plus));
        let odd = _mm256_add_ps(odd, signed(scale[2 * at + 1], plus[at]));
        let mut new = rounded(even, odd);
        if mask != u32::MAX {
            new = _mm256_blendv_epi8(old, new, spread_words(mask >> (16 * at)));
        }
        // SAFETY: sixteen bfloat16 weights from there on: 32 bytes.
        unsafe { _mm256_storeu_si256(weights[16 * at..].as_mut_ptr().cast(), new) };
    }
}

/// The scale, negated where the sign bit of `plus` is not set.
#[inline]
#[target_feature(enable = "avx2")]
fn signed(scale: __m256, plus: __m256i) -> __m256 {
    let negative = _mm256_xor_ps(scale, _mm256_set1_ps(-0.0));
    let sign = _mm256_and_ps(_mm256_castsi256_ps(plus), _mm256_set1_ps(-0.0));
    _mm256_xor_ps(sign, negative)
}

/// Each of sixteen bits as a word of ones or zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn spread_words(bits: u32) -> __m256i {
    let each = _mm256_setr_epi16(
        1,
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
        512,
        1024,
        2048,
        4096,
        8192,
        16384,
        i16::MIN,
    );
    #[allow(clippy::cast_possible_truncation)] // sixteen bits are needed
    let bits = _mm256_set1_epi16((bits as u16).cast_signed());
    _mm256_cmpeq_epi16(_mm256_and_si256(bits, each), each)
}

/// Even and odd float32 rounded to bfloat16, as words in turns.
///
/// Up where the lower half is above a half, or is a half and the upper half odd: where it is at least
/// a half after 1 was taken from it, saturating at 0, when the upper half is even. A NaN was widened
/// from bfloat16, so its lower half is 0 and it stays as it is.
#[inline]
#[target_feature(enable = "avx2")]
fn rounded(even: __m256, odd: __m256) -> __m256i {
    let upper = upper(even, odd);
    let odd = _mm256_slli_epi32::<16>(_mm256_castps_si256(odd));
    let lower = _mm256_blend_epi16::<0xAA>(_mm256_castps_si256(even), odd);
    let is_even = _mm256_andnot_si256(upper, _mm256_set1_epi16(1));
    let above_half = _mm256_srli_epi16::<15>(_mm256_subs_epu16(lower, is_even));
    _mm256_add_epi16(upper, above_half)
}

#[inline]
#[target_feature(enable = "avx2")]
fn unpack_chunk(signs: &mut [f32; CHUNK], bits: u32, mask: u32) {
    // Where the mask is 0 its sign bit, moved over all others, leaves nothing of the 1.
    let ones = spread(!bits).map(|sign| _mm256_or_ps(sign, _mm256_set1_ps(1.0)));
    let keep = spread(mask).map(|sign| _mm256_srai_epi32::<31>(_mm256_castps_si256(sign)));
    let kept = [0, 1, 2, 3].map(|at| _mm256_and_ps(ones[at], _mm256_castsi256_ps(keep[at])));
    store(kept, signs);
}
