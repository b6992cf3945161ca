//! What the products compute, in plain Rust: the definition for every instruction set.

use half::bf16;

use super::{
    PIECE, STRIP, Word, add_lanes, settle,
    tables::{Bytes, Step, Sums},
};

/// Accumulators of a row of weights.
pub(super) const LANES: usize = 32;
/// 32 inputs, those of even index first, where no load crosses a line of the cache.
#[repr(align(64))]
pub(super) struct Inputs(pub(super) [f32; LANES]);
/// Rows of weights that are read side by side.
pub(super) const ROWS: usize = 4;

/// Lays out a strip: word `w` gets bytes `4w` to `4w + 3` of each of its rows.
pub(super) fn spread_exact(rows: &[&[u8]; STRIP], _ahead: &[u8], words: &mut [Word]) {
    for (row, bytes) in rows.iter().enumerate() {
        for (four, word) in bytes.as_chunks::<4>().0.iter().zip(&mut *words) {
            word.0[4 * row..][..4].copy_from_slice(four);
        }
    }
}

/// As [`spread_exact`]; an instruction set may lay the bytes out differently for each method.
pub(super) fn spread_int8(rows: &[&[u8]; STRIP], _ahead: &[u8], words: &mut [Word]) {
    debug_assert!(rows.iter().all(|row| row.len().is_multiple_of(PIECE)));
    spread_exact(rows, &[], words);
}

/// Adds to each row's sum the signed sum of a block's inputs.
///
/// Four inputs `4g` to `4g + 3` are looked up together, by their four bits, and added to lane
/// `g mod 8`, in the order of `g`, each lane starting from 0; then `add_lanes`, and the block's sum
/// is added to the row's in float64.
pub(super) fn exact(words: &[Word], tables: &[Sums], _ahead: &[u8], sums: &mut [f64; STRIP]) {
    for (row, sum) in sums.iter_mut().enumerate() {
        let mut lanes = [0.0f32; 8];
        for (word, table) in words.iter().zip(tables) {
            let bits = word.of_row(row);
            for (four, (lane, table)) in lanes.iter_mut().zip(&table.0).enumerate() {
                *lane += table[(bits >> (4 * four) & 15) as usize];
            }
        }
        *sum += f64::from(add_lanes(&lanes));
    }
}

/// Adds to each row's sum the signed sum of a block's integers, times their step.
///
/// With `l` the sum of the looked-up bytes, the signed sum is `2 l - total`, exactly.
pub(super) fn int8(
    words: &[Word],
    tables: &[Bytes],
    step: Step,
    _ahead: &[u8],
    sums: &mut [f64; STRIP],
) {
    let mut found = [0; STRIP];
    for (row, found) in found.iter_mut().enumerate() {
        for (word, Bytes([low, high])) in words.iter().zip(tables) {
            for (byte, bits) in word.of_row(row).to_le_bytes().into_iter().enumerate() {
                *found += i32::from(low[16 * byte + usize::from(bits & 15)]);
                *found += i32::from(high[16 * byte + usize::from(bits >> 4)]);
            }
        }
    }
    settle(&found, step, sums);
}

/// Multiplies four rows of weights by the inputs.
///
/// Input `i` times its weight, rounded to float32, is added to lane `i mod 32` in the order of `i`,
/// each lane starting from 0. `x` has the inputs 0, 2, 4 ... 30 of each 32 before 1, 3, 5 ... 31.
pub(super) fn dense(rows: [&[bf16]; ROWS], x: &[Inputs]) -> [[f32; LANES]; ROWS] {
    rows.map(|row| {
        let mut lanes = [0.0; LANES];
        for (weights, x) in row.as_chunks::<LANES>().0.iter().zip(x) {
            for lane in 0..LANES {
                let weight = weights[lane % 16 * 2 + lane / 16];
                lanes[lane] += weight.to_f32() * x.0[lane];
            }
        }
        lanes
    })
}
