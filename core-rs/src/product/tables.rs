//! What a token becomes before it meets the signs: for each four inputs, all their signed sums.
//!
//! Made by plain Rust for every instruction set, so that the kernels only look up and add.

use super::{BLOCK, WORD};

/// The signed sums of a word's 32 inputs in float32: eight times four inputs, sixteen sums each.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Sums(pub(super) [[f32; 16]; 8]);

/// The sums of those of 32 integers whose bit is set, moved up so that the least one is 0.
///
/// The first half has the inputs of each byte's low four bits, byte by byte, the second those of its
/// high four bits.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Bytes(pub(super) [[u8; 64]; 2]);

/// How a block's integers become inputs again.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// An input is about this times its integer.
    pub(super) size: f64,
    /// The sum of the absolute integers: twice a row's look-ups less this is its signed sum.
    pub(super) total: i32,
}

/// One token's inputs as tables.
pub(super) enum Tables {
    /// For [`super::Method::Exact`].
    Exact(Vec<Sums>),
    /// For [`super::Method::Int8`], with a step for each block.
    Int8(Vec<Bytes>, Vec<Step>),
}

impl Tables {
    pub(super) fn exact(x: &[f32]) -> Self {
        Self::Exact(x.chunks(WORD).map(|x| sums_of_word(&padded(x))).collect())
    }

    pub(super) fn int8(x: &[f32]) -> Self {
        let mut words = Vec::with_capacity(x.len().div_ceil(WORD));
        let mut steps = Vec::with_capacity(x.len().div_ceil(BLOCK));
        for block in x.chunks(BLOCK) {
            let (size, mut total) = (step_of_block(block), 0);
            for word in block.chunks(WORD) {
                let (bytes, of_word) = bytes_of_word(word, per_step(size));
                words.push(bytes);
                total += of_word;
            }
            steps.push(Step { size, total });
        }
        Self::Int8(words, steps)
    }
}

fn padded(x: &[f32]) -> [f32; WORD] {
    let mut word = [0.0; WORD];
    word[..x.len()].copy_from_slice(x);
    word
}

/// `(±x0 ± x1) + (±x2 ± x3)`, the sign of `xi` being plus where bit `i` of the index is 1.
fn sums_of_word(x: &[f32; WORD]) -> Sums {
    let mut sums = Sums([[0.0; 16]; 8]);
    for (four, sums) in x.as_chunks::<4>().0.iter().zip(&mut sums.0) {
        let low = signed_pairs(four[0], four[1]);
        let high = signed_pairs(four[2], four[3]);
        for (sums, high) in sums.as_chunks_mut::<4>().0.iter_mut().zip(high) {
            *sums = low.map(|low| low + high);
        }
    }
    sums
}

fn signed_pairs(x: f32, y: f32) -> [f32; 4] {
    [-x - y, x - y, -x + y, x + y]
}

/// The least step for which no integer passes 127, and no four of them 255 together.
///
/// Rounding adds at most a half to each of the four: 253 + 2 = 255.
pub(super) fn step_of_block(x: &[f32]) -> f64 {
    let (mut single, mut four) = (0.0f32, 0.0f64);
    let (fours, rest) = x.as_chunks::<4>();
    let mut last = [0.0; 4];
    last[..rest.len()].copy_from_slice(rest);
    for x in fours.iter().chain([&last]) {
        let x = x.map(f32::abs);
        single = single.max(x[0].max(x[1]).max(x[2].max(x[3])));
        let x = x.map(f64::from);
        four = four.max((x[0] + x[1]) + (x[2] + x[3]));
    }
    (f64::from(single) / 127.0).max(four / 253.0)
}

/// The integer nearest to `x / step`, ties to even; 0 for a step of 0.
#[allow(clippy::cast_possible_truncation)] // at most 127, by the choice of the step
pub(super) fn whole(x: f32, per_step: f64) -> i32 {
    /// Adding 1.5 times 2^52 leaves no room for a fraction: the addition rounds it away, and the
    /// lower half of the sum's bits is the integer.
    const NO_FRACTION: f64 = 6_755_399_441_055_744.0;
    (f64::from(x) * per_step + NO_FRACTION).to_bits() as i32
}

/// What an integer is multiplied by, instead of a division by the step.
pub(super) fn per_step(size: f64) -> f64 {
    if size == 0.0 { 0.0 } else { 1.0 / size }
}

/// The table of a word, and the sum of its absolute integers.
fn bytes_of_word(x: &[f32], per_step: f64) -> (Bytes, i32) {
    let numbers = padded(x).map(|x| whole(x, per_step));
    let mut bytes = Bytes([[0; 64]; 2]);
    let [low, high] = &mut bytes.0;
    let rooms = low.as_chunks_mut::<16>().0.iter_mut();
    let rooms = rooms.zip(high.as_chunks_mut::<16>().0);
    for (eight, (low, high)) in numbers.as_chunks::<8>().0.iter().zip(rooms) {
        *low = sums_of_four([eight[0], eight[1], eight[2], eight[3]]);
        *high = sums_of_four([eight[4], eight[5], eight[6], eight[7]]);
    }
    (bytes, numbers.iter().map(|number| number.abs()).sum())
}

/// Entry `n` adds `|q|` of each number that is above 0 and has its bit of `n` set, and of each that
/// is below 0 and has it not.
///
/// Eight entries are added at a time, as the bytes of an integer; none passes 255.
fn sums_of_four(q: [i32; 4]) -> [u8; 16] {
    const ALL: u64 = 0x0101_0101_0101_0101;
    const SET: [u64; 3] = [
        0x0100_0100_0100_0100,
        0x0101_0000_0101_0000,
        0x0101_0101_0000_0000,
    ];
    let plus = q.map(|q| u64::from(q > 0).wrapping_neg()); // all ones, or none
    let mut eight = 0;
    for ((q, plus), set) in q.iter().zip(plus).zip(SET) {
        eight += u64::from(q.unsigned_abs()) * ((ALL - set) ^ (ALL & plus));
    }
    let last = u64::from(q[3].unsigned_abs()) * ALL;
    let (low, high) = (last & !plus[3], last & plus[3]);
    let entries = u128::from(eight + low) | u128::from(eight + high) << 64;
    entries.to_le_bytes()
}
