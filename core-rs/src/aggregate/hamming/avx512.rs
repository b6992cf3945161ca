//! 512 bits at a time, three rows against three, so that a word is loaded once for three pairs.
//!
//! Two words of each row are compared in three ternary operations: with `x = a ^ b` for the first
//! words, `y` for the second and a digit `o` kept from before, `half = o ^ x`, the new digit is
//! `half ^ y`, and the carry is `o` where `half` is 0, else `y`, which there is the complement of the
//! new digit. Only the carry is counted (VPOPCNTQ), with weight 2: five operations for two words where
//! exclusive or, count and addition take six.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_popcnt_epi64, _mm512_reduce_add_epi64, _mm512_setzero_si512,
    _mm512_shuffle_i64x2, _mm512_ternarylogic_epi64, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use super::{
    super::lanes::{Lanes, avx512::XOR3},
    NEAR,
};

const TILE: usize = 3;
const _: () = assert!(NEAR.is_multiple_of(TILE));
/// Truth table of "a where half is 0, else the complement of c", for (a, half, c).
const CARRY: i32 = 0b0111_0100;

/// What one pair has counted: a digit for each column of a register, and twos.
#[derive(Clone, Copy)]
struct Pair {
    ones: __m512i,
    twos: __m512i,
}

/// The kernel's inner instructions: compares two words of one row with two of another.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn step(pair: &mut Pair, first: [__m512i; 2], second: [__m512i; 2]) {
    let half = _mm512_ternarylogic_epi64::<XOR3>(pair.ones, first[0], second[0]);
    let ones = _mm512_ternarylogic_epi64::<XOR3>(half, first[1], second[1]);
    let carry = _mm512_ternarylogic_epi64::<CARRY>(pair.ones, half, ones);
    pair.ones = ones;
    pair.twos = _mm512_add_epi64(pair.twos, _mm512_popcnt_epi64(carry));
}

/// The rows of a tile in steps of 256 bytes.
type Rows<'a> = [&'a [[u8; 256]]; TILE];
type Tile = [[Pair; TILE]; TILE];

#[inline]
#[target_feature(enable = "avx512f")]
fn empty() -> Tile {
    let zero = _mm512_setzero_si512();
    [[Pair {
        ones: zero,
        twos: zero,
    }; TILE]; TILE]
}

/// What a pair has counted, spread over eight numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn spread(pair: Pair) -> __m512i {
    let twos = _mm512_add_epi64(pair.twos, pair.twos);
    _mm512_add_epi64(twos, _mm512_popcnt_epi64(pair.ones))
}

/// Sums of neighbouring numbers of both, in turns.
#[inline]
#[target_feature(enable = "avx512f")]
fn pair_up(first: __m512i, second: __m512i) -> __m512i {
    _mm512_add_epi64(
        _mm512_unpacklo_epi64(first, second),
        _mm512_unpackhi_epi64(first, second),
    )
}

/// Sums of neighbouring quarters of both, the first's first.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold(first: __m512i, second: __m512i) -> __m512i {
    _mm512_add_epi64(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(first, second),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(first, second),
    )
}

/// The totals of a tile: those of eight pairs in one tree of additions, the ninth's separately.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn totals(tile: &Tile) -> [[u64; TILE]; TILE] {
    let mut of = [_mm512_setzero_si512(); TILE * TILE];
    for (numbers, pair) in of.iter_mut().zip(tile.as_flattened()) {
        *numbers = spread(*pair);
    }
    let low = fold(pair_up(of[0], of[1]), pair_up(of[2], of[3]));
    let high = fold(pair_up(of[4], of[5]), pair_up(of[6], of[7]));
    let mut bytes = [0; 72];
    fold(low, high).store(&mut bytes);
    let last = _mm512_reduce_add_epi64(of[8]);
    bytes[64..].copy_from_slice(&last.to_le_bytes());
    let mut found = [[0; TILE]; TILE];
    for (total, bytes) in found.as_flattened_mut().iter_mut().zip(bytes.as_chunks().0) {
        *total = u64::from_le_bytes(*bytes);
    }
    found
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 256], at: usize) -> [__m512i; 2] {
    [Lanes::load(&bytes[at..]), Lanes::load(&bytes[at + 64..])]
}

/// Adds the distances of every row of `above` to every row of `beside`, a line of sums for each row
/// above; the rest of a line is unspecified.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(super) fn add_block(above: &[&[u8]], beside: &[&[u8]], sums: &mut [[u64; NEAR]]) {
    for (firsts, lines) in above.chunks(TILE).zip(sums.chunks_mut(TILE)) {
        for (seconds, left) in beside.chunks(TILE).zip((0..NEAR).step_by(TILE)) {
            let found = totals(&tile(whole(firsts), whole(seconds)));
            for (line, found) in lines.iter_mut().zip(found) {
                for (sum, found) in line[left..].iter_mut().zip(found) {
                    *sum += found;
                }
            }
        }
    }
}

/// A tile's rows in steps of 256 bytes, the last row repeated where there are fewer than three.
#[inline(always)]
fn whole<'a>(rows: &[&'a [u8]]) -> Rows<'a> {
    let last = rows.len() - 1;
    [rows[0], rows[last.min(1)], rows[last.min(2)]].map(|row| row.as_chunks::<256>().0)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn tile(above: Rows<'_>, beside: Rows<'_>) -> Tile {
    let mut pairs = empty();
    let [high, middle, low] = above;
    let [left, centre, right] = beside;
    let firsts = high.iter().zip(middle).zip(low);
    let seconds = left.iter().zip(centre).zip(right);
    for (((high, middle), low), ((left, centre), right)) in firsts.zip(seconds) {
        for half in [0, 128] {
            let first = [load(high, half), load(middle, half), load(low, half)];
            for (column, second) in [left, centre, right].into_iter().enumerate() {
                let second = load(second, half);
                for row in 0..TILE {
                    step(&mut pairs[row][column], first[row], second);
                }
            }
        }
    }
    pairs
}

/// The inner instructions on registers alone; returns the pairs of bits compared.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(super) fn registers(steps: usize) -> usize {
    let mut pairs = empty();
    let mut words = [_mm512_setzero_si512(); 4];
    for _ in 0..steps {
        for pair in pairs.as_flattened_mut() {
            for word in &mut words {
                *word = opaque(*word);
            }
            let [a, b, c, d] = words;
            step(pair, [a, b], [c, d]);
        }
    }
    std::hint::black_box(totals(&pairs));
    steps * TILE * TILE * 2 * 512
}

/// The same value, opaque to the compiler.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut word: __m512i) -> __m512i {
    // SAFETY: no instruction, only a comment.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) word, options(nomem, nostack, preserves_flags));
    }
    word
}
