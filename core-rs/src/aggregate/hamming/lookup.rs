//! With AVX2, many rows at a time against two others: half bytes are looked up.
//!
//! Four columns of two rows choose a table of 16 bytes. For each four bits of a third row it says in how many
//! of the columns that row differs from the first of the two (lower half of the byte) and from the
//! second (upper half), so that one shuffle compares 32 rows with both. Three such bytes are added, at
//! most 12 in each half; then `both` adds them as one number and `second` the upper half alone, so
//! that `both - 16 second` is the lower one. Carry-save adders take twice as many instructions.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // the names of intrinsics are unambiguous

use std::{arch::x86_64::*, array, ops::Range};

use rayon::prelude::*;

use super::{super::Packed, avx2::hidden};
use crate::{
    error::CoreError,
    isa::Proof,
    prefetch,
    threads::{self, Watch},
};

/// Bytes of a row that are compared before sums of bytes are widened: 60 half bytes, at most 240.
const BLOCK: usize = 30;
/// Blocks whose sums fit 16 bits: 256 times 240.
const FITTING: usize = 256;
/// Registers of rows that meet a table, ...
const REGISTERS: usize = 4;
/// ... and their rows.
const ROWS: usize = 32 * REGISTERS;
/// Rows that pass by in a task: their sums, 16 bits for each of [`ROWS`], stay in the second cache.
const PASSING: usize = 256;
/// Prefetch distance in a row, in bytes.
const AHEAD: usize = 64;

/// The half bytes of a block of [`ROWS`] rows, those of the lower four bits first.
type Indices = [[__m256i; REGISTERS]; 2 * BLOCK];
/// `both` and `second` for each register of rows.
type Sums = [[__m256i; 2]; REGISTERS];
/// As numbers of 16 bits: for each register, for either row of the two, those of even and of odd bytes.
type Wide = [[[__m256i; 2]; 2]; REGISTERS];

/// The tables: the first row's four bits are the lower half of a table's number.
static TABLES: Tables = Tables(tables());

#[repr(align(64))]
struct Tables([[u8; 16]; 256]);

#[allow(clippy::cast_possible_truncation)] // at most 68
const fn tables() -> [[u8; 16]; 256] {
    let mut tables = [[0; 16]; 256];
    let mut at = 0_usize;
    while at < 256 * 16 {
        let (pair, bits) = (at / 16, at % 16);
        let first = ((pair & 15) ^ bits).count_ones();
        let second = ((pair >> 4) ^ bits).count_ones();
        tables[pair][bits] = (first + 16 * second) as u8;
        at += 1;
    }
    tables
}

/// Adds the distances of all pairs to `total`, [n, n].
///
/// # Errors
/// [`CoreError::Stopped`] where the work should stop.
pub(super) fn add(_: Proof, packed: Packed<'_>, total: &mut [u64]) -> Result<(), CoreError> {
    let (rows, count) = (packed.rows, packed.rows());
    let corners = (0..count).step_by(ROWS).flat_map(|top| {
        let lefts = (top..count).step_by(PASSING);
        lefts.map(move |left| (top, left))
    });
    let corners: Vec<_> = corners.collect();
    let watch = Watch::new();
    let found = threads::collect(corners.into_par_iter(), |(top, left)| {
        let above = &rows[top..count.min(top + ROWS)];
        let beside = &rows[left..count.min(left + PASSING)];
        let panel = Panel {
            above,
            beside,
            offset: left - top,
            last_byte: packed.last_byte_mask(),
        };
        let mut sums = vec![[0; ROWS]; beside.len()];
        // SAFETY: the proof guarantees that the processor has AVX2.
        unsafe { add_panel(&panel, &mut sums, &watch)? };
        Ok((top, left, sums))
    })?;
    for (top, left, sums) in found {
        for (column, sums) in (left..).zip(sums) {
            for (row, sum) in (top..column).zip(sums) {
                total[row * count + column] += sum;
                total[column * count + row] += sum;
            }
        }
    }
    Ok(())
}

/// At most [`ROWS`] rows, and at most [`PASSING`] that they are compared with.
struct Panel<'a> {
    above: &'a [&'a [u8]],
    beside: &'a [&'a [u8]],
    /// Which row the first beside is, counted from the first above.
    offset: usize,
    /// Which bits of a row's last byte are columns.
    last_byte: u8,
}

/// Adds a panel's distances; those below the diagonal may be left out.
#[target_feature(enable = "avx2")]
fn add_panel(panel: &Panel<'_>, sums: &mut [[u64; ROWS]], watch: &Watch) -> Result<(), CoreError> {
    let length = panel.above[0].len();
    let pairs = panel.beside.len().div_ceil(2);
    let mut wide = vec![[[[_mm256_setzero_si256(); 2]; 2]; REGISTERS]; pairs];
    for part in (0..length).step_by(FITTING * BLOCK) {
        watch.check()?;
        for start in (part..length.min(part + FITTING * BLOCK)).step_by(BLOCK) {
            add_block(panel, start, &mut wide);
        }
        for (wide, sums) in wide.iter_mut().zip(sums.chunks_mut(2)) {
            settle(wide, sums);
        }
    }
    Ok(())
}

#[target_feature(enable = "avx2")]
fn add_block(panel: &Panel<'_>, start: usize, wide: &mut [Wide]) {
    let indices = indices(panel.above, start, panel.last_byte);
    let pairs = panel.beside.chunks(2).zip(wide);
    for (pair, (rows, wide)) in pairs.enumerate() {
        let choices = choices(rows[0], rows[rows.len() - 1], start, panel.last_byte);
        let needed = panel.above.len().min(panel.offset + 2 * pair + rows.len());
        match needed.div_ceil(32) {
            1 => widen(&compare::<1>(&indices, &choices), wide),
            2 => widen(&compare::<2>(&indices, &choices), wide),
            3 => widen(&compare::<3>(&indices, &choices), wide),
            _ => widen(&compare::<4>(&indices, &choices), wide),
        }
    }
}

/// 32 bytes of a row, or as many as are left; zeros follow.
#[inline]
#[target_feature(enable = "avx2")]
fn block(row: &[u8], start: usize, last_byte: u8) -> __m256i {
    prefetch::behind(&row[start..=start], AHEAD);
    let mut room = [0; 32];
    let bytes = row[start..].first_chunk().unwrap_or_else(|| {
        let rest = &row[start..];
        room[..rest.len()].copy_from_slice(rest);
        room[rest.len() - 1] &= last_byte;
        &room
    });
    // SAFETY: an array of 32 bytes is read.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// Rows as columns of half bytes.
#[target_feature(enable = "avx2")]
fn indices(rows: &[&[u8]], start: usize, last_byte: u8) -> Indices {
    let half = _mm256_set1_epi8(15);
    let mut indices = [[_mm256_setzero_si256(); REGISTERS]; 2 * BLOCK];
    for (register, rows) in rows.chunks(32).enumerate() {
        let of = |range: Range<usize>| {
            let mut blocks = [_mm256_setzero_si256(); 16];
            for (block_of, row) in blocks.iter_mut().zip(rows.get(range).unwrap_or_default()) {
                *block_of = block(row, start, last_byte);
            }
            transposed(blocks)
        };
        let (low, high) = (of(0..16.min(rows.len())), of(16..rows.len().max(16)));
        for (byte, (low, high)) in low.into_iter().zip(high).enumerate() {
            let bytes = [
                _mm256_permute2x128_si256::<0x20>(low, high),
                _mm256_permute2x128_si256::<0x31>(low, high),
            ];
            for (byte, bytes) in [byte, byte + 16].into_iter().zip(bytes) {
                if byte < BLOCK {
                    indices[byte][register] = _mm256_and_si256(bytes, half);
                    let upper = _mm256_srli_epi16::<4>(bytes);
                    indices[BLOCK + byte][register] = _mm256_and_si256(upper, half);
                }
            }
        }
    }
    indices
}

/// Sixteen rows of 32 bytes: register `k` gets byte `k` of each, and byte `k + 16` in its upper half.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(mut rows: [__m256i; 16]) -> [__m256i; 16] {
    // Interleaving the first eight registers with the last eight, four times, transposes.
    for _ in 0..4 {
        let old = rows;
        for pair in 0..8 {
            rows[2 * pair] = _mm256_unpacklo_epi8(old[pair], old[pair + 8]);
            rows[2 * pair + 1] = _mm256_unpackhi_epi8(old[pair], old[pair + 8]);
        }
    }
    rows
}

/// The numbers of the tables that a block of two rows chooses.
#[inline]
#[target_feature(enable = "avx2")]
fn choices(first: &[u8], second: &[u8], start: usize, last_byte: u8) -> [u8; 64] {
    let half = _mm256_set1_epi8(15);
    let first = block(first, start, last_byte);
    let second = block(second, start, last_byte);
    let lower = _mm256_slli_epi16::<4>(_mm256_and_si256(second, half));
    let lower = _mm256_or_si256(_mm256_and_si256(first, half), lower);
    let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(first), half);
    let upper = _mm256_or_si256(upper, _mm256_andnot_si256(half, second));
    let mut choices = [0; 64];
    for (at, numbers) in [(0, lower), (BLOCK, upper)] {
        // SAFETY: 32 of 64 bytes are written, from byte 30 at most.
        unsafe { _mm256_storeu_si256(choices.as_mut_ptr().add(at).cast(), numbers) };
    }
    choices
}

/// The kernel's inner instructions: three half bytes of two rows against some registers of rows.
#[inline]
#[target_feature(enable = "avx2")]
fn step(sums: &mut [[__m256i; 2]], tables: [__m256i; 3], indices: [&[__m256i; REGISTERS]; 3]) {
    let half = _mm256_set1_epi8(15);
    for (register, [both, second]) in sums.iter_mut().enumerate() {
        let [a, b, c]: [_; 3] =
            array::from_fn(|k| _mm256_shuffle_epi8(tables[k], indices[k][register]));
        let found = _mm256_add_epi8(_mm256_add_epi8(a, b), c);
        let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(found), half);
        *both = _mm256_add_epi8(*both, found);
        *second = _mm256_add_epi8(*second, upper);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn compare<const NEEDED: usize>(indices: &Indices, choices: &[u8; 64]) -> Sums {
    let mut sums = [[_mm256_setzero_si256(); 2]; REGISTERS];
    let threes = indices.as_chunks::<3>().0.iter();
    for ([a, b, c], choices) in threes.zip(choices.as_chunks::<3>().0) {
        let tables = choices.map(|choice| {
            // SAFETY: an array of 16 bytes is read.
            unsafe {
                let table = TABLES.0[usize::from(choice)].as_ptr();
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast()))
            }
        });
        step(&mut sums[..NEEDED], tables, [a, b, c]);
    }
    sums
}

/// Adds a block's sums to those of 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(sums: &Sums, wide: &mut Wide) {
    let (low, upper) = (_mm256_set1_epi16(0xff), _mm256_set1_epi8(-16));
    for ([both, second], wide) in sums.iter().zip(wide) {
        let sixteen = _mm256_and_si256(_mm256_slli_epi16::<4>(*second), upper);
        let bytes = [_mm256_sub_epi8(*both, sixteen), *second];
        for (bytes, [even, odd]) in bytes.into_iter().zip(wide) {
            *even = _mm256_add_epi16(*even, _mm256_and_si256(bytes, low));
            *odd = _mm256_add_epi16(*odd, _mm256_srli_epi16::<8>(bytes));
        }
    }
}

/// Moves sums of 16 bits to those of either row.
#[target_feature(enable = "avx2")]
fn settle(wide: &mut Wide, sums: &mut [[u64; ROWS]]) {
    for (register, of_rows) in wide.iter_mut().enumerate() {
        for (of_row, sums) in of_rows.iter_mut().zip(&mut *sums) {
            for (parity, numbers) in of_row.iter_mut().enumerate() {
                let mut room = [0u16; 16];
                // SAFETY: an array of 32 bytes is written.
                unsafe { _mm256_storeu_si256(room.as_mut_ptr().cast(), *numbers) };
                let sums = sums[32 * register + parity..].iter_mut().step_by(2);
                for (sum, number) in sums.zip(room) {
                    *sum += u64::from(number);
                }
                *numbers = _mm256_setzero_si256();
            }
        }
    }
}

/// The inner instructions on registers alone; returns the pairs of bits compared.
#[target_feature(enable = "avx2")]
pub(super) fn registers(steps: usize) -> usize {
    let mut sums = [[_mm256_setzero_si256(); 2]; REGISTERS];
    let (mut indices, mut tables) = (
        [_mm256_setzero_si256(); REGISTERS],
        [_mm256_setzero_si256(); 3],
    );
    for _ in 0..steps {
        for table in &mut tables {
            *table = hidden(*table);
        }
        let indices: [[__m256i; REGISTERS]; 3] = array::from_fn(|_| {
            indices = indices.map(|register| hidden(register));
            indices
        });
        step(&mut sums, tables, indices.each_ref());
    }
    std::hint::black_box(sums);
    // Each byte compares four columns with two rows.
    steps * 3 * REGISTERS * 32 * 4 * 2
}
