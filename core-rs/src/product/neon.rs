//! The products with NEON: sixteen rows are the bytes of a register, or four of them its lanes.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // the names of intrinsics are unambiguous

use std::arch::aarch64::*;

use half::bf16;

use super::{
    STRIP, Word,
    scalar::{self, Inputs, LANES, ROWS},
    settle,
    tables::{Bytes, Step, Sums},
};

#[target_feature(enable = "neon")]
fn load_bytes(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: an array of 16 bytes is read.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

#[target_feature(enable = "neon")]
fn store_bytes(bytes: &mut [u8; 16], value: uint8x16_t) {
    // SAFETY: an array of 16 bytes is written.
    unsafe { vst1q_u8(bytes.as_mut_ptr(), value) }
}

#[target_feature(enable = "neon")]
fn load_floats(floats: &[f32; 4]) -> float32x4_t {
    // SAFETY: an array of 4 floats is read.
    unsafe { vld1q_f32(floats.as_ptr()) }
}

#[target_feature(enable = "neon")]
fn store_floats(floats: &mut [f32; 4], value: float32x4_t) {
    // SAFETY: an array of 4 floats is written.
    unsafe { vst1q_f32(floats.as_mut_ptr(), value) }
}

/// See [`super::scalar::spread_exact`]; moving bytes needs no instructions of its own.
#[target_feature(enable = "neon")]
pub(super) fn spread_exact(rows: &[&[u8]; STRIP], _ahead: &[u8], words: &mut [Word]) {
    scalar::spread_exact(rows, &[], words);
}

/// As [`super::scalar::spread_int8`], but a word's first byte of all rows comes first, then its
/// second, third and fourth: a table instruction looks up all sixteen.
#[target_feature(enable = "neon")]
pub(super) fn spread_int8(rows: &[&[u8]; STRIP], _ahead: &[u8], words: &mut [Word]) {
    let rows = rows.map(|row| row.as_chunks::<16>().0);
    for (at, words) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let mut turned = rows.map(|row| load_bytes(&row[at]));
        // Interleaving the first eight registers with the last eight, four times, transposes.
        for _ in 0..4 {
            let old = turned;
            for pair in 0..8 {
                turned[2 * pair] = vzip1q_u8(old[pair], old[pair + 8]);
                turned[2 * pair + 1] = vzip2q_u8(old[pair], old[pair + 8]);
            }
        }
        for (byte, value) in turned.into_iter().enumerate() {
            store_bytes(&mut words[byte / 4].0.as_chunks_mut().0[byte % 4], value);
        }
    }
}

/// See [`super::scalar::exact`]: a table instruction looks up four inputs of four rows, byte by byte.
#[target_feature(enable = "neon")]
pub(super) fn exact(words: &[Word], tables: &[Sums], _ahead: &[u8], sums: &mut [f64; STRIP]) {
    let first_byte = vdupq_n_u32(0x0302_0100);
    for (quarter, sums) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let mut lanes = [vdupq_n_f32(0.0); 8];
        for (word, table) in words.iter().zip(tables) {
            let mut bits = vreinterpretq_u32_u8(load_bytes(&word.0.as_chunks().0[quarter]));
            for (lane, table) in lanes.iter_mut().zip(&table.0) {
                let entry = vandq_u32(bits, vdupq_n_u32(15));
                let index = vmlaq_u32(first_byte, entry, vdupq_n_u32(0x0404_0404));
                let found = vqtbl4q_u8(table_bytes(table), vreinterpretq_u8_u32(index));
                *lane = vaddq_f32(*lane, vreinterpretq_f32_u8(found));
                bits = vshrq_n_u32::<4>(bits);
            }
        }
        let pair = |lane: usize| vaddq_f32(lanes[lane], lanes[lane + 4]);
        let even = vaddq_f32(pair(0), pair(2));
        let odd = vaddq_f32(pair(1), pair(3));
        let mut block = [0.0; 4];
        store_floats(&mut block, vaddq_f32(even, odd));
        for (sum, block) in sums.iter_mut().zip(block) {
            *sum += f64::from(block);
        }
    }
}

#[target_feature(enable = "neon")]
fn table_bytes(table: &[f32; 16]) -> uint8x16x4_t {
    let part = |at: usize| vreinterpretq_u8_f32(load_floats(&table.as_chunks().0[at]));
    uint8x16x4_t(part(0), part(1), part(2), part(3))
}

/// See [`super::scalar::int8`]. A block's sum is at most 256 times 255, which fits 16 bits.
#[target_feature(enable = "neon")]
pub(super) fn int8(
    words: &[Word],
    tables: &[Bytes],
    step: Step,
    _ahead: &[u8],
    sums: &mut [f64; STRIP],
) {
    let mut first = vdupq_n_u16(0);
    let mut last = vdupq_n_u16(0);
    for (word, Bytes([low, high])) in words.iter().zip(tables) {
        for part in 0..4 {
            let bits = load_bytes(&word.0.as_chunks().0[part]);
            let [low, high] = [low, high].map(|table| load_bytes(&table.as_chunks().0[part]));
            let of_low = vqtbl1q_u8(low, vandq_u8(bits, vdupq_n_u8(15)));
            let of_high = vqtbl1q_u8(high, vshrq_n_u8::<4>(bits));
            for found in [of_low, of_high] {
                first = vaddw_u8(first, vget_low_u8(found));
                last = vaddw_high_u8(last, found);
            }
        }
    }
    let mut found = [0u16; STRIP];
    // SAFETY: twice eight of sixteen values are written.
    unsafe {
        vst1q_u16(found.as_mut_ptr(), first);
        vst1q_u16(found.as_mut_ptr().add(8), last);
    }
    settle(&found.map(i32::from), step, sums);
}

/// See [`super::scalar::dense`]: a bf16 is the upper half of a float32.
#[target_feature(enable = "neon")]
pub(super) fn dense(rows: [&[bf16]; ROWS], x: &[Inputs]) -> [[f32; LANES]; ROWS] {
    rows.map(|row| {
        let mut lanes = [vdupq_n_f32(0.0); 8];
        for (weights, x) in row.as_chunks::<LANES>().0.iter().zip(x) {
            let x: &[[f32; 4]] = x.0.as_chunks().0;
            for (part, weights) in weights.as_chunks::<8>().0.iter().enumerate() {
                // SAFETY: an array of 8 values of two bytes is read.
                let both = unsafe { vld1q_u32(weights.as_ptr().cast()) };
                let even = vreinterpretq_f32_u32(vshlq_n_u32::<16>(both));
                let odd = vandq_u32(both, vdupq_n_u32(0xFFFF_0000));
                let even = vmulq_f32(even, load_floats(&x[part]));
                let odd = vmulq_f32(vreinterpretq_f32_u32(odd), load_floats(&x[part + 4]));
                lanes[part] = vaddq_f32(lanes[part], even);
                lanes[part + 4] = vaddq_f32(lanes[part + 4], odd);
            }
        }
        let mut out = [0.0; LANES];
        for (room, lane) in out.as_chunks_mut().0.iter_mut().zip(lanes) {
            store_floats(room, lane);
        }
        out
    })
}
