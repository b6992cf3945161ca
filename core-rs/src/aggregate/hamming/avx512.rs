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
    _mm512_ternarylogic_epi64,
};

use super::super::lanes::{Lanes, avx512::XOR3};

const TILE: usize = 3;
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

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn total(pair: Pair) -> u64 {
    let twos = _mm512_add_epi64(pair.twos, pair.twos);
    let all = _mm512_add_epi64(twos, _mm512_popcnt_epi64(pair.ones));
    _mm512_reduce_add_epi64(all).cast_unsigned()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 256], at: usize) -> [__m512i; 2] {
    [Lanes::load(&bytes[at..]), Lanes::load(&bytes[at + 64..])]
}

/// Adds the distances of every row of `above` to every row of `beside`; a line of sums for each row
/// above starts `stride` after the one before.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(super) fn add_block(above: &[&[u8]], beside: &[&[u8]], sums: &mut [u64], stride: usize) {
    for (firsts, lines) in above.chunks(TILE).zip(sums.chunks_mut(TILE * stride)) {
        for (seconds, left) in beside.chunks(TILE).zip((0..).step_by(TILE)) {
            let tile = tile(whole(firsts), whole(seconds));
            for (pairs, line) in tile.iter().zip(lines.chunks_mut(stride)).take(firsts.len()) {
                for (pair, sum) in pairs.iter().zip(&mut line[left..]).take(seconds.len()) {
                    *sum += total(*pair);
                }
            }
        }
    }
}

/// A tile's rows in steps of 256 bytes, the last row repeated where there are fewer than three.
#[inline]
fn whole<'a>(rows: &[&'a [u8]]) -> Rows<'a> {
    [0, 1, 2].map(|index| rows[index.min(rows.len() - 1)].as_chunks::<256>().0)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn tile(above: Rows<'_>, beside: Rows<'_>) -> Tile {
    let mut pairs = empty();
    let steps = above[0].len();
    let [above, beside] = [above, beside].map(|rows| rows.map(|row| &row[..steps]));
    for at in 0..steps {
        for half in [0, 128] {
            let first = [
                load(&above[0][at], half),
                load(&above[1][at], half),
                load(&above[2][at], half),
            ];
            for column in 0..TILE {
                let second = load(&beside[column][at], half);
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
    std::hint::black_box(
        pairs
            .as_flattened()
            .iter()
            .map(|pair| total(*pair))
            .sum::<u64>(),
    );
    steps * TILE * TILE * 2 * 512
}

/// The same value, of which the compiler knows nothing.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut word: __m512i) -> __m512i {
    // SAFETY: no instruction, only a comment.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) word, options(nomem, nostack, preserves_flags));
    }
    word
}
