//! The products with AVX-512: a strip's sixteen rows are the sixteen lanes of a register.
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

/// `(a and b) or c`, as the table of truth that the ternary instruction takes.
const A_AND_B_OR_C: i32 = 0xEA;

/// Eight 32-bit words of two rows: `low` in the lower half.
#[target_feature(enable = "avx512f")]
fn load_pair(low: &[u8; PIECE], high: &[u8; PIECE]) -> __m512i {
    // SAFETY: two arrays of 32 bytes are read.
    let (low, high) = unsafe {
        let low = _mm256_loadu_si256(low.as_ptr().cast());
        (low, _mm256_loadu_si256(high.as_ptr().cast()))
    };
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

#[target_feature(enable = "avx512f")]
fn load_bytes(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: an array of 64 bytes is read.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn load_floats(floats: &[f32; 16]) -> __m512 {
    // SAFETY: an array of 16 floats is read.
    unsafe { _mm512_loadu_ps(floats.as_ptr()) }
}

#[target_feature(enable = "avx512f")]
fn store_word(word: &mut Word, value: __m512i) {
    // SAFETY: an array of 64 bytes is written.
    unsafe { _mm512_storeu_si512(word.0.as_mut_ptr().cast(), value) }
}

#[target_feature(enable = "avx512f")]
fn store_floats(floats: &mut [f32; 16], value: __m512) {
    // SAFETY: an array of 16 floats is written.
    unsafe { _mm512_storeu_ps(floats.as_mut_ptr(), value) }
}

/// Four registers with rows of words become four with words of rows, in each 128 bits.
#[target_feature(enable = "avx512f")]
fn transpose_4x4(rows: [__m512i; 4]) -> [__m512i; 4] {
    let [a, b, c, d] = rows;
    let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab2, cd2) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab2, cd2),
        _mm512_unpackhi_epi64(ab2, cd2),
    ]
}

/// See [`super::scalar::spread_exact`].
#[target_feature(enable = "avx512f")]
pub(super) fn spread_exact(rows: &[&[u8]; STRIP], ahead: &[u8], words: &mut [Word]) {
    let mut ahead = ahead.chunks(4 * 64);
    for (at, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        prefetch::now(ahead.next().unwrap_or_default());
        let piece = |row: usize| &rows[row].as_chunks().0[at];
        let pair = |row: usize| load_pair(piece(row), piece(row + 4));
        let left = transpose_4x4([pair(0), pair(1), pair(2), pair(3)]);
        let right = transpose_4x4([pair(8), pair(9), pair(10), pair(11)]);
        for word in 0..4 {
            // 128-bit parts: words 0 to 3 of rows 0-3 and 4-7 (8-11, 12-15), and words 4 to 7.
            let (left, right) = (left[word], right[word]);
            store_word(&mut words[word], _mm512_shuffle_i32x4::<0x88>(left, right));
            let later = _mm512_shuffle_i32x4::<0xDD>(left, right);
            store_word(&mut words[word + 4], later);
        }
    }
}

/// See [`super::scalar::spread_int8`].
#[target_feature(enable = "avx512f")]
pub(super) fn spread_int8(rows: &[&[u8]; STRIP], ahead: &[u8], words: &mut [Word]) {
    spread_exact(rows, ahead, words);
}

/// See [`super::scalar::exact`]: one permutation looks up four inputs of sixteen rows.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) fn exact(words: &[Word], tables: &[Sums], ahead: &[u8], sums: &mut [f64; STRIP]) {
    let mut ahead = ahead.chunks(64);
    let mut lanes = [_mm512_setzero_ps(); 8];
    for (at, (word, table)) in words.iter().zip(tables).enumerate() {
        if at % 2 == 0 {
            prefetch::now(ahead.next().unwrap_or_default());
        }
        let bits = load_bytes(&word.0);
        for (shift, (lane, table)) in (0..).step_by(4).zip(lanes.iter_mut().zip(&table.0)) {
            // The permutation looks at the lowest four bits alone.
            let index = _mm512_srlv_epi32(bits, _mm512_set1_epi32(shift));
            *lane = _mm512_add_ps(*lane, _mm512_permutexvar_ps(index, load_floats(table)));
        }
    }
    let pair = |lane: usize| _mm512_add_ps(lanes[lane], lanes[lane + 4]);
    let even = _mm512_add_ps(pair(0), pair(2));
    let odd = _mm512_add_ps(pair(1), pair(3));
    let mut block = [0.0; STRIP];
    store_floats(&mut block, _mm512_add_ps(even, odd));
    for (sum, block) in sums.iter_mut().zip(block) {
        *sum += f64::from(block);
    }
}

/// See [`super::scalar::int8`]: a row's four bytes are looked up side by side, each in its own
/// quarter of the table, and added up by the dot product with ones.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn int8(
    words: &[Word],
    tables: &[Bytes],
    step: Step,
    ahead: &[u8],
    sums: &mut [f64; STRIP],
) {
    let mut ahead = ahead.chunks(64);
    let four = _mm512_set1_epi32(0x0F0F_0F0F);
    let quarter = _mm512_set1_epi32(0x3020_1000);
    let ones = _mm512_set1_epi8(1);
    let mut found = [_mm512_setzero_si512(); 2];
    for (at, (word, Bytes([low, high]))) in words.iter().zip(tables).enumerate() {
        if at % 2 == 0 {
            prefetch::now(ahead.next().unwrap_or_default());
        }
        let bits = load_bytes(&word.0);
        let above = _mm512_srli_epi32::<4>(bits);
        let index = _mm512_ternarylogic_epi32::<A_AND_B_OR_C>(bits, four, quarter);
        let index_above = _mm512_ternarylogic_epi32::<A_AND_B_OR_C>(above, four, quarter);
        let of_low = _mm512_permutexvar_epi8(index, load_bytes(low));
        let of_high = _mm512_permutexvar_epi8(index_above, load_bytes(high));
        found[0] = _mm512_dpbusd_epi32(found[0], of_low, ones);
        found[1] = _mm512_dpbusd_epi32(found[1], of_high, ones);
    }
    let mut by_row = [0i32; STRIP];
    let both = _mm512_add_epi32(found[0], found[1]);
    // SAFETY: an array of 16 integers is written.
    unsafe { _mm512_storeu_si512(by_row.as_mut_ptr().cast(), both) };
    settle(&by_row, step, sums);
}

/// See [`super::scalar::dense`]: a bf16 is the upper half of a float32.
#[target_feature(enable = "avx512f")]
pub(super) fn dense(rows: [&[bf16]; ROWS], x: &[Inputs]) -> [[f32; LANES]; ROWS] {
    #[allow(clippy::cast_possible_wrap)]
    let upper = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
    let mut lanes = [[_mm512_setzero_ps(); 2]; ROWS];
    for (at, x) in x.iter().enumerate() {
        let x = x.0.as_chunks().0;
        let (even_x, odd_x) = (load_floats(&x[0]), load_floats(&x[1]));
        for (row, lanes) in rows.iter().zip(&mut lanes) {
            let weights = &row.as_chunks::<LANES>().0[at];
            prefetch::behind(weights, AHEAD);
            // SAFETY: an array of 32 values of two bytes is read.
            let both = unsafe { _mm512_loadu_si512(weights.as_ptr().cast()) };
            let even = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(both));
            let odd = _mm512_castsi512_ps(_mm512_and_si512(both, upper));
            lanes[0] = _mm512_add_ps(lanes[0], _mm512_mul_ps(even, even_x));
            lanes[1] = _mm512_add_ps(lanes[1], _mm512_mul_ps(odd, odd_x));
        }
    }
    let mut out = [[0.0; LANES]; ROWS];
    for (out, lanes) in out.iter_mut().zip(lanes) {
        for (out, lane) in out.as_chunks_mut().0.iter_mut().zip(lanes) {
            store_floats(out, lane);
        }
    }
    out
}
