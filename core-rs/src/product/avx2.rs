//! The products with AVX2: eight rows are the lanes of a register, or sixteen rows half its bytes.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // the names of intrinsics are unambiguous

use std::arch::x86_64::*;

use half::bf16;

use super::{
    PIECE, STRIP, Word,
    dense::AHEAD,
    scalar::{Inputs, LANES, ROWS},
    settle,
    tables::{Bytes, Step, Sums},
};
use crate::prefetch;

#[target_feature(enable = "avx2")]
fn load_bytes(bytes: &[u8; PIECE]) -> __m256i {
    // SAFETY: an array of 32 bytes is read.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn load_floats(floats: &[f32; 8]) -> __m256 {
    // SAFETY: an array of 8 floats is read.
    unsafe { _mm256_loadu_ps(floats.as_ptr()) }
}

#[target_feature(enable = "avx2")]
fn store_bytes(bytes: &mut [u8; PIECE], value: __m256i) {
    // SAFETY: an array of 32 bytes is written.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), value) }
}

#[target_feature(enable = "avx2")]
fn store_floats(floats: &mut [f32; 8], value: __m256) {
    // SAFETY: an array of 8 floats is written.
    unsafe { _mm256_storeu_ps(floats.as_mut_ptr(), value) }
}

/// The two halves of an array.
fn halves<T, const N: usize>(all: &[T]) -> (&[T; N], &[T; N]) {
    let [left, right] = all.as_chunks::<N>().0 else {
        unreachable!("called for twice N values")
    };
    (left, right)
}

/// Sixteen bytes of two rows: `low` in the lower half.
#[target_feature(enable = "avx2")]
fn load_pair(low: &[u8; 16], high: &[u8; 16]) -> __m256i {
    // SAFETY: two arrays of 16 bytes are read.
    let (low, high) = unsafe {
        let low = _mm_loadu_si128(low.as_ptr().cast());
        (low, _mm_loadu_si128(high.as_ptr().cast()))
    };
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
}

/// Four registers with rows of words become four with words of rows, in each 128 bits.
#[target_feature(enable = "avx2")]
fn transpose_4x4(rows: [__m256i; 4]) -> [__m256i; 4] {
    let [a, b, c, d] = rows;
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab2, cd2) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab2, cd2),
        _mm256_unpackhi_epi64(ab2, cd2),
    ]
}

/// See [`super::scalar::spread_exact`].
#[target_feature(enable = "avx2")]
pub(super) fn spread_exact(rows: &[&[u8]; STRIP], ahead: &[u8], words: &mut [Word]) {
    let mut ahead = ahead.chunks(2 * 64);
    for (at, words) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        prefetch::now(ahead.next().unwrap_or_default());
        for half in 0..2 {
            let piece = |row: usize| &rows[8 * half + row].as_chunks().0[at];
            let pair = |row: usize| load_pair(piece(row), piece(row + 4));
            let by_word = transpose_4x4([pair(0), pair(1), pair(2), pair(3)]);
            for (word, value) in words.iter_mut().zip(by_word) {
                store_bytes(&mut word.0.as_chunks_mut().0[half], value);
            }
        }
    }
}

/// As [`super::scalar::spread_int8`], but a word's first byte of all rows comes first, then its
/// second, third and fourth: a shuffle looks all sixteen up in one table.
#[target_feature(enable = "avx2")]
pub(super) fn spread_int8(rows: &[&[u8]; STRIP], ahead: &[u8], words: &mut [Word]) {
    let mut ahead = ahead.chunks(4 * 64);
    for (at, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        prefetch::now(ahead.next().unwrap_or_default());
        let mut turned = [_mm256_setzero_si256(); STRIP];
        for (turned, row) in turned.iter_mut().zip(rows) {
            *turned = load_bytes(&row.as_chunks().0[at]);
        }
        // Interleaving the first eight registers with the last eight, four times, transposes.
        for _ in 0..4 {
            let old = turned;
            for pair in 0..8 {
                turned[2 * pair] = _mm256_unpacklo_epi8(old[pair], old[pair + 8]);
                turned[2 * pair + 1] = _mm256_unpackhi_epi8(old[pair], old[pair + 8]);
            }
        }
        for (byte, value) in turned.into_iter().enumerate() {
            let part = byte % 4;
            let (low, high) = (byte / 4, byte / 4 + 4);
            store_half(&mut words[low], part, _mm256_castsi256_si128(value));
            store_half(&mut words[high], part, _mm256_extracti128_si256::<1>(value));
        }
    }
}

/// Writes one byte of sixteen rows.
#[target_feature(enable = "avx2")]
fn store_half(word: &mut Word, part: usize, value: __m128i) {
    let room: &mut [u8; 16] = &mut word.0.as_chunks_mut().0[part];
    // SAFETY: an array of 16 bytes is written.
    unsafe { _mm_storeu_si128(room.as_mut_ptr().cast(), value) }
}

/// See [`super::scalar::exact`]: two permutations, one for each half of the table, look up four
/// inputs of eight rows; the fourth bit chooses.
#[target_feature(enable = "avx2")]
pub(super) fn exact(words: &[Word], tables: &[Sums], ahead: &[u8], sums: &mut [f64; STRIP]) {
    let mut ahead = ahead.chunks(64);
    for (half, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut lanes = [_mm256_setzero_ps(); 8];
        for (at, (word, table)) in words.iter().zip(tables).enumerate() {
            if at % 2 == 0 {
                prefetch::now(ahead.next().unwrap_or_default());
            }
            let bits = load_bytes(&word.0.as_chunks().0[half]);
            for (shift, (lane, table)) in (0..).step_by(4).zip(lanes.iter_mut().zip(&table.0)) {
                // The permutation looks at the lowest three bits alone, the choice at the highest.
                let index = _mm256_srlv_epi32(bits, _mm256_set1_epi32(shift));
                let fourth = _mm256_sllv_epi32(bits, _mm256_set1_epi32(28 - shift));
                let (low, high) = halves(table);
                let low = _mm256_permutevar8x32_ps(load_floats(low), index);
                let high = _mm256_permutevar8x32_ps(load_floats(high), index);
                let found = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(fourth));
                *lane = _mm256_add_ps(*lane, found);
            }
        }
        let pair = |lane: usize| _mm256_add_ps(lanes[lane], lanes[lane + 4]);
        let even = _mm256_add_ps(pair(0), pair(2));
        let odd = _mm256_add_ps(pair(1), pair(3));
        let mut block = [0.0; 8];
        store_floats(&mut block, _mm256_add_ps(even, odd));
        for (sum, block) in sums.iter_mut().zip(block) {
            *sum += f64::from(block);
        }
    }
}

/// See [`super::scalar::int8`]: a shuffle looks up one byte of sixteen rows in each 128 bits.
///
/// Two rows share 16 bits: `both` adds them as one number and `odd` the upper one alone, so that
/// `both - 256 odd` is the lower one. A block's sum is at most 256 times 255, which fits 16 bits.
#[target_feature(enable = "avx2")]
pub(super) fn int8(
    words: &[Word],
    tables: &[Bytes],
    step: Step,
    ahead: &[u8],
    sums: &mut [f64; STRIP],
) {
    let mut ahead = ahead.chunks(64);
    let four = _mm256_set1_epi8(15);
    let mut both = [_mm256_setzero_si256(); 2];
    let mut odd = [_mm256_setzero_si256(); 2];
    for (at, (word, Bytes([low, high]))) in words.iter().zip(tables).enumerate() {
        if at % 2 == 0 {
            prefetch::now(ahead.next().unwrap_or_default());
        }
        for part in 0..2 {
            let bits = load_bytes(&word.0.as_chunks().0[part]);
            let above = _mm256_srli_epi16::<4>(bits);
            let tables = [low, high].map(|table| load_bytes(&table.as_chunks().0[part]));
            let of_low = _mm256_shuffle_epi8(tables[0], _mm256_and_si256(bits, four));
            let of_high = _mm256_shuffle_epi8(tables[1], _mm256_and_si256(above, four));
            for (found, (both, odd)) in [of_low, of_high]
                .into_iter()
                .zip(both.iter_mut().zip(&mut odd))
            {
                *both = _mm256_add_epi16(*both, found);
                *odd = _mm256_add_epi16(*odd, _mm256_srli_epi16::<8>(found));
            }
        }
    }
    let odd = _mm256_add_epi16(odd[0], odd[1]);
    let both = _mm256_add_epi16(both[0], both[1]);
    let even = _mm256_sub_epi16(both, _mm256_slli_epi16::<8>(odd));
    settle(&interleaved(even, odd), step, sums);
}

/// Adds the halves of each and puts the rows in order.
#[target_feature(enable = "avx2")]
fn interleaved(even: __m256i, odd: __m256i) -> [i32; STRIP] {
    let [even, odd] = [even, odd].map(|sums| {
        let high = _mm256_extracti128_si256::<1>(sums);
        _mm256_cvtepu16_epi32(_mm_add_epi16(_mm256_castsi256_si128(sums), high))
    });
    let mut by_parity = [[0i32; 8]; 2];
    for (room, value) in by_parity.iter_mut().zip([even, odd]) {
        // SAFETY: an array of 8 integers is written.
        unsafe { _mm256_storeu_si256(room.as_mut_ptr().cast(), value) };
    }
    std::array::from_fn(|row| by_parity[row % 2][row / 2])
}

/// See [`super::scalar::dense`]: a bf16 is the upper half of a float32.
#[target_feature(enable = "avx2")]
pub(super) fn dense(rows: [&[bf16]; ROWS], x: &[Inputs]) -> [[f32; LANES]; ROWS] {
    let first = dense_pair([rows[0], rows[1]], x);
    let second = dense_pair([rows[2], rows[3]], x);
    [first[0], first[1], second[0], second[1]]
}

/// Two rows side by side: eight registers of sums.
#[target_feature(enable = "avx2")]
fn dense_pair(rows: [&[bf16]; 2], x: &[Inputs]) -> [[f32; LANES]; 2] {
    #[allow(clippy::cast_possible_wrap)]
    let upper = _mm256_set1_epi32(0xFFFF_0000_u32 as i32);
    let mut lanes = [[_mm256_setzero_ps(); 4]; 2];
    for (at, x) in x.iter().enumerate() {
        let x: &[[f32; 8]] = x.0.as_chunks().0;
        for (row, lanes) in rows.iter().zip(&mut lanes) {
            let weights = &row.as_chunks::<LANES>().0[at];
            prefetch::behind(weights, AHEAD);
            for (half, weights) in weights.as_chunks::<16>().0.iter().enumerate() {
                // SAFETY: an array of 16 values of two bytes is read.
                let both = unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) };
                let even = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(both));
                let odd = _mm256_castsi256_ps(_mm256_and_si256(both, upper));
                let even = _mm256_mul_ps(even, load_floats(&x[half]));
                let odd = _mm256_mul_ps(odd, load_floats(&x[half + 2]));
                lanes[half] = _mm256_add_ps(lanes[half], even);
                lanes[half + 2] = _mm256_add_ps(lanes[half + 2], odd);
            }
        }
    }
    let mut out = [[0.0; LANES]; 2];
    for (out, lanes) in out.iter_mut().zip(lanes) {
        for (room, lane) in out.as_chunks_mut().0.iter_mut().zip(lanes) {
            store_floats(room, lane);
        }
    }
    out
}
