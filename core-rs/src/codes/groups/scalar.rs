//! The definition of digits and scales, for a run of whole groups (the last one may be shorter).
//!
//! Plain loops over arrays of 32 lanes, written so that a compiler can take any vectors it has: these
//! very functions are compiled for every instruction set. No sum is reordered and no product is fused,
//! so all give the same bytes.
#![allow(clippy::inline_always)] // so that an instruction set reaches down to the loops

use half::f16;

use super::codec::{Codec, GROUP};
use crate::weights::BLOCK;

/// Accumulators of a group's sum: value `i` goes to lane `i mod LANES`.
const LANES: usize = 32;

/// How often a threshold is fitted anew to the values beyond it.
const REFITS: usize = 3;

/// Added to a float32 of less than 2^22, the integer, ties to even, is in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;

/// Room for the digits of a block, one to a byte, and for eight written at its end.
type Digits = [u8; BLOCK + 8];

/// Chooses the scales and writes the digits of a block.
#[inline(always)]
pub(super) fn pack_block(kind: Codec, values: &[f32], codes: &mut [u8], scales: &mut [f16]) {
    let mut digits: Digits = [0; BLOCK + 8];
    let groups = values.chunks(GROUP).zip(digits.chunks_mut(GROUP));
    for ((values, digits), scale) in groups.zip(scales) {
        *scale = choose_scale(kind, values);
        write_digits(kind, values, scale.to_f32(), digits);
    }
    match kind {
        Codec::Sign => squeeze::<8, 2>(&digits, codes),
        Codec::Ternary => squeeze::<5, 3>(&digits, codes),
        Codec::Int2 => squeeze::<4, 4>(&digits, codes),
        Codec::Int4 => squeeze::<2, 16>(&digits, codes),
        Codec::Int8 => codes.copy_from_slice(&digits[..codes.len()]),
    }
}

#[inline(always)]
fn choose_scale(kind: Codec, values: &[f32]) -> f16 {
    match kind {
        Codec::Sign => f16::from_f32(mean(values)),
        Codec::Ternary => ternary_scale(values),
        Codec::Int2 => int2_scale(values),
        Codec::Int4 => reaching_scale(values, 7.0),
        Codec::Int8 => reaching_scale(values, 127.0),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // rounded once
#[inline(always)]
fn mean(values: &[f32]) -> f32 {
    (sum_above(values, -1.0).0 / values.len() as f64) as f32
}

/// The mean of what exceeds half of it, found in a few steps from the threshold 0.75 mean.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // as defined
#[inline(always)]
fn ternary_scale(values: &[f32]) -> f16 {
    let all = sum_above(values, -1.0).0 / values.len() as f64;
    let mut threshold = (0.75 * all) as f32;
    let mut scale = 0.0;
    for _ in 0..REFITS {
        let (sum, count) = sum_above(values, threshold);
        scale = if count == 0 {
            0.0
        } else {
            sum / f64::from(count)
        };
        threshold = (scale / 2.0) as f32;
    }
    f16::from_f32(scale as f32)
}

/// The step between -1.5, -0.5, 0.5 and 1.5 that fits best, found in a few steps from 1.25 mean.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // as defined
#[inline(always)]
fn int2_scale(values: &[f32]) -> f16 {
    let all = sum_above(values, -1.0).0;
    let count = values.len() as f64;
    let mut scale = (1.25 * all / count) as f32;
    for _ in 0..REFITS {
        let (high, beyond) = sum_above(values, scale);
        scale = ((0.5 * all + high) / (0.25 * count + 2.0 * f64::from(beyond))) as f32;
    }
    f16::from_f32(scale)
}

/// The largest |value| divided by `steps`, rounded so that `steps` of it reach over that value.
#[inline(always)]
fn reaching_scale(values: &[f32], steps: f32) -> f16 {
    let largest = values
        .iter()
        .fold(0.0f32, |top, value| top.max(value.abs()));
    let scale = f16::from_f32(largest / steps);
    if steps * scale.to_f32() < largest {
        return f16::from_bits(scale.to_bits() + 1);
    }
    scale
}

/// The sum of those |values| that exceed a threshold, and how many they are.
#[inline(always)]
fn sum_above(values: &[f32], threshold: f32) -> (f64, u32) {
    let (mut sums, mut counts) = ([0.0f32; LANES], [0u32; LANES]);
    for values in values.chunks(LANES) {
        for ((value, sum), count) in values.iter().zip(&mut sums).zip(&mut counts) {
            let size = value.abs();
            let counted = size > threshold;
            *sum += if counted { size } else { 0.0 };
            *count += u32::from(counted);
        }
    }
    (
        sums.iter().map(|sum| f64::from(*sum)).sum(),
        counts.iter().sum(),
    )
}

#[inline(always)]
fn write_digits(kind: Codec, values: &[f32], scale: f32, digits: &mut [u8]) {
    let pairs = values.iter().zip(digits);
    match kind {
        Codec::Sign => pairs.for_each(|(value, digit)| *digit = u8::from(*value > 0.0)),
        Codec::Ternary => pairs.for_each(|(value, digit)| {
            let half = scale / 2.0;
            *digit = u8::from(*value > half) + u8::from(*value >= -half);
        }),
        Codec::Int2 => pairs.for_each(|(value, digit)| {
            let above = u8::from(*value > scale) + u8::from(*value > 0.0);
            *digit = above + u8::from(*value >= -scale);
        }),
        Codec::Int4 => pairs.for_each(|(value, digit)| *digit = nearest(*value, scale, 8)),
        Codec::Int8 => pairs.for_each(|(value, digit)| *digit = nearest(*value, scale, 128)),
    }
}

/// `middle + value / scale`, rounded to the nearest integer, ties to even.
#[allow(clippy::cast_possible_truncation)] // the lowest byte is the number
#[inline(always)]
fn nearest(value: f32, scale: f32, middle: u8) -> u8 {
    let steps = if scale == 0.0 { 0.0 } else { value / scale };
    ((steps + ROUNDER).to_bits() as u8).wrapping_add(middle)
}

/// Writes `N` digits to a byte, as a number in base `R`, the first digit lowest.
#[allow(clippy::cast_possible_truncation)] // a digit's radix is at most 16
#[inline(always)]
fn squeeze<const N: usize, const R: usize>(digits: &Digits, codes: &mut [u8]) {
    for (code, digits) in codes.iter_mut().zip(digits.chunks_exact(N)) {
        *code = digits
            .iter()
            .rev()
            .fold(0, |code, digit| code * R as u8 + digit);
    }
}

/// Adds the decoded values of a block of digits.
#[inline(always)]
pub(super) fn apply_block(kind: Codec, codes: &[u8], scales: &[f16], values: &mut [f32]) {
    let mut digits: Digits = [0; BLOCK + 8];
    let (middle, unit) = match kind {
        Codec::Sign => (0.5, 2.0),
        Codec::Ternary => (1.0, 1.0),
        Codec::Int2 => (1.5, 1.0),
        Codec::Int4 => (8.0, 1.0),
        Codec::Int8 => (128.0, 1.0),
    };
    match kind {
        Codec::Sign => expand::<8, 2>(codes, &mut digits),
        Codec::Ternary => expand_ternary(codes, &mut digits),
        Codec::Int2 => expand::<4, 4>(codes, &mut digits),
        Codec::Int4 => expand::<2, 16>(codes, &mut digits),
        Codec::Int8 => digits[..codes.len()].copy_from_slice(codes),
    }
    let groups = values.chunks_mut(GROUP).zip(digits.chunks(GROUP));
    for ((values, digits), scale) in groups.zip(scales) {
        let scale = unit * scale.to_f32();
        for (value, digit) in values.iter_mut().zip(digits) {
            *value += (f32::from(*digit) - middle) * scale;
        }
    }
}

/// Reads `N` digits of a byte in base `R`, a power of two.
#[allow(clippy::cast_possible_truncation)] // a digit's radix is at most 16
#[inline(always)]
fn expand<const N: usize, const R: usize>(codes: &[u8], digits: &mut Digits) {
    for (code, digits) in codes.iter().zip(digits.chunks_exact_mut(N)) {
        for (place, digit) in digits.iter_mut().enumerate() {
            *digit = code >> (place * R.ilog2() as usize) & (R - 1) as u8;
        }
    }
}

/// Reads the five digits of each byte from a table, eight at once; the next byte overwrites three.
#[inline(always)]
fn expand_ternary(codes: &[u8], digits: &mut Digits) {
    for (index, code) in codes.iter().enumerate() {
        digits[index * 5..index * 5 + 8].copy_from_slice(&TERNARY[usize::from(*code)]);
    }
}

/// The digits of each byte in base 3, the lowest first.
static TERNARY: [[u8; 8]; 256] = ternary_table();

#[allow(clippy::cast_possible_truncation)] // a digit in base 3
const fn ternary_table() -> [[u8; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut place = 0;
    while place < 256 * 5 {
        let (code, digit) = (place / 5, place % 5);
        table[code][digit] = (code / 3usize.pow(digit as u32) % 3) as u8;
        place += 1;
    }
    table
}
