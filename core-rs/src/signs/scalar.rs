//! The definition of each step, on 32 values at a time, in plain Rust.

use super::rows::{
    AHEAD_BYTES, ApplyRow, PackRow, mask_word, pack_words, padded, row_kernels, sum_in_order, word,
    write_word,
};
use crate::{
    prefetch,
    weights::{BLOCK, CHUNK, Weight},
};

/// 32 numbers in order.
type Lanes = [f32; CHUNK];

row_kernels!();
pack_words!();

fn splat(value: f32) -> Lanes {
    [value; CHUNK]
}

fn to_lanes<B: Weight, T: Weight>(values: &[f32; CHUNK]) -> Lanes {
    *values
}

fn from_lanes<B: Weight, T: Weight>(lanes: Lanes, values: &mut [f32; CHUNK]) {
    *values = lanes;
}

/// Adds each |tuned - base| to its lane; returns which differences are above zero, and which are
/// not zero if `MASK` is set.
#[inline]
fn pack_chunk<B: Weight, T: Weight, const MASK: bool>(
    base: &[B; CHUNK],
    tuned: &[T; CHUNK],
    lanes: &mut Lanes,
) -> (u32, u32) {
    let (base, mut difference) = (B::widen(base), T::widen(tuned));
    for ((difference, base), lane) in difference.iter_mut().zip(base).zip(lanes) {
        *difference -= base;
        *lane += difference.abs();
    }
    let plus = bits_where(&difference, |d| d > 0.0);
    let nonzero = if MASK {
        bits_where(&difference, |d| d != 0.0)
    } else {
        0
    };
    (plus, nonzero)
}

/// A bit for each number, the first one's the least significant.
#[inline]
fn bits_where(values: &[f32; CHUNK], test: impl Fn(f32) -> bool) -> u32 {
    let flags = values.map(|value| u8::from(test(value)));
    let bytes = flags.as_chunks::<8>().0.iter().enumerate();
    bytes.fold(0, |word, (index, flags)| {
        word | gathered(*flags) << (8 * index)
    })
}

/// Eight flags of 0 or 1 as the bits of a byte: the product moves flag i to bit 56 + i.
#[inline]
#[allow(clippy::cast_possible_truncation)] // eight bits are left
fn gathered(flags: [u8; 8]) -> u32 {
    (u64::from_le_bytes(flags).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

/// Adds +scale where `bits` has a 1, -scale where it has a 0; only where `mask` has a 1.
#[inline]
fn apply_chunk<W: Weight>(weights: &mut [W; CHUNK], bits: u32, mask: u32, scale: Lanes) {
    let mut sums = W::widen(weights);
    for (index, (sum, scale)) in sums.iter_mut().zip(scale).enumerate() {
        *sum += if bits >> index & 1 == 1 {
            scale
        } else {
            -scale
        };
    }
    for (index, (weight, sum)) in weights.iter_mut().zip(W::narrow(&sums)).enumerate() {
        if mask >> index & 1 == 1 {
            *weight = sum;
        }
    }
}

/// Writes +1 where `bits` has a 1, -1 where it has a 0, and 0 where `mask` has a 0.
#[inline]
fn unpack_chunk(signs: &mut [f32; CHUNK], bits: u32, mask: u32) {
    for (index, sign) in signs.iter_mut().enumerate() {
        let size = if bits >> index & 1 == 1 { 1.0 } else { -1.0 };
        *sign = if mask >> index & 1 == 1 { size } else { 0.0 };
    }
}
