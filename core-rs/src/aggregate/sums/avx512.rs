//! Four rows at a time: four bits of a column choose one of 16 sums from a register (VPERMD).
//!
//! Within a 32-bit lane the bits of four masks are brought together: register `k` holds, as half byte
//! `p` of lane `l`, the bits of column `32 l + 4 p + k`. A sum of four numbers is looked up in two
//! parts, the lower 28 bits and the rest, each of which 16 times fits 32 bits; then both are added to
//! 64-bit sums.

use std::arch::x86_64::{
    __m256i, __m512i, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512, _mm512_castsi256_si512,
    _mm512_cvtepi32_epi64, _mm512_cvtepi64_epi32, _mm512_cvtepu32_epi64, _mm512_extracti64x4_epi64,
    _mm512_inserti64x4, _mm512_mask_add_epi64, _mm512_permutexvar_epi32, _mm512_rorv_epi32,
    _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srai_epi64, _mm512_srli_epi32, _mm512_ternarylogic_epi64,
};

use super::{super::lanes::Lanes, Strip, Sums};

/// Groups of four rows whose parts are added before they would leave 32 bits.
const GROUPS: usize = 16;
/// Bits of the lower part.
const LOW: u32 = 28;
/// Truth table of `a | (b & c)`.
const OR_AND: i32 = 0b1111_1000;

/// The 64-bit sums of column `32 l + 4 p + k`, at `[k][p]`, lanes 0 to 7 and 8 to 15.
type Scattered = [[[__m512i; 2]; 8]; 4];

#[target_feature(enable = "avx512f,avx512dq")]
pub(super) fn add_masked(masks: &[Strip], numbers: &[i64], sums: &mut Sums) {
    let zero = _mm512_setzero_si512();
    let mut scattered = [[[zero; 2]; 8]; 4];
    for (masks, numbers) in masks.chunks(4 * GROUPS).zip(numbers.chunks(4 * GROUPS)) {
        add_groups(masks, numbers, &mut scattered);
    }
    let mut lanes = [0; 64];
    for (k, registers) in scattered.iter().enumerate() {
        for (p, halves) in registers.iter().enumerate() {
            for (half, register) in halves.iter().enumerate() {
                register.store(&mut lanes);
                for (l, sum) in lanes.as_chunks::<8>().0.iter().enumerate() {
                    sums[32 * (8 * half + l) + 4 * p + k] += i64::from_le_bytes(*sum);
                }
            }
        }
    }
}

/// Adds at most [`GROUPS`] groups.
#[target_feature(enable = "avx512f,avx512dq")]
fn add_groups(masks: &[Strip], numbers: &[i64], sums: &mut Scattered) {
    let zero = _mm512_setzero_si512();
    let mut groups = [([zero; 4], [zero; 2]); GROUPS];
    let used = masks.len().div_ceil(4);
    let parts = masks.chunks(4).zip(numbers.chunks(4));
    for ((chosen, table), (masks, numbers)) in groups.iter_mut().zip(parts) {
        (*chosen, *table) = (together(masks), sixteen_sums(numbers));
    }
    for (k, sums) in sums.iter_mut().enumerate() {
        let mut parts = [[zero; 2]; 8];
        for (chosen, table) in &groups[..used] {
            let mut choice = chosen[k];
            for part in &mut parts {
                part[0] = _mm512_add_epi32(part[0], _mm512_permutexvar_epi32(choice, table[0]));
                part[1] = _mm512_add_epi32(part[1], _mm512_permutexvar_epi32(choice, table[1]));
                choice = _mm512_srli_epi32::<4>(choice);
            }
        }
        for (part, sums) in parts.iter().zip(sums) {
            let halves = [
                whole(
                    _mm512_extracti64x4_epi64::<0>(part[0]),
                    _mm512_extracti64x4_epi64::<0>(part[1]),
                ),
                whole(
                    _mm512_extracti64x4_epi64::<1>(part[0]),
                    _mm512_extracti64x4_epi64::<1>(part[1]),
                ),
            ];
            *sums = [
                _mm512_add_epi64(sums[0], halves[0]),
                _mm512_add_epi64(sums[1], halves[1]),
            ];
        }
    }
}

/// The bits of four masks side by side.
#[inline]
#[target_feature(enable = "avx512f")]
fn together(masks: &[Strip]) -> [__m512i; 4] {
    let mut chosen = [_mm512_setzero_si512(); 4];
    for (mask, r) in masks.iter().zip(0..) {
        let (mask, place) = (Lanes::load(&mask[..]), _mm512_set1_epi32(0x1111_1111 << r));
        for (chosen, k) in chosen.iter_mut().zip(0..) {
            let turned = _mm512_rorv_epi32(mask, _mm512_set1_epi32((k - r) & 31));
            *chosen = _mm512_ternarylogic_epi64::<OR_AND>(*chosen, turned, place);
        }
    }
    chosen
}

/// The sums of each subset of four numbers, their lower parts and the rest.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn sixteen_sums(numbers: &[i64]) -> [__m512i; 2] {
    let number = |index: usize| numbers.get(index).copied().unwrap_or(0);
    let mut first = _mm512_setzero_si512();
    for (index, subsets) in [0b1010_1010, 0b1100_1100, 0b1111_0000]
        .into_iter()
        .enumerate()
    {
        first = _mm512_mask_add_epi64(first, subsets, first, _mm512_set1_epi64(number(index)));
    }
    let second = _mm512_add_epi64(first, _mm512_set1_epi64(number(3)));
    let low = _mm512_set1_epi64((1 << LOW) - 1);
    [
        join(_mm512_and_si512(first, low), _mm512_and_si512(second, low)),
        join(
            _mm512_srai_epi64::<LOW>(first),
            _mm512_srai_epi64::<LOW>(second),
        ),
    ]
}

/// Sixteen 64-bit numbers, which fit, as 32-bit numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn join(first: __m512i, second: __m512i) -> __m512i {
    let first = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(first));
    _mm512_inserti64x4::<1>(first, _mm512_cvtepi64_epi32(second))
}

/// Lower parts (unsigned) and the rest (signed) as 64-bit numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn whole(low: __m256i, high: __m256i) -> __m512i {
    let high = _mm512_slli_epi64::<LOW>(_mm512_cvtepi32_epi64(high));
    _mm512_add_epi64(_mm512_cvtepu32_epi64(low), high)
}
