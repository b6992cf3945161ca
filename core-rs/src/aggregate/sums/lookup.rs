//! Looking the sums of four numbers up, over registers of any width.
//!
//! The bits of four rows are brought together as half bytes: with the columns of a register in eight
//! registers of indices, the byte of a column stays where its bits were. Four looked-up bytes are added as
//! bytes; two columns share 16 bits: `both` adds them as one number and `odd` the upper one alone, so
//! that `both - 256 odd` is the lower one.
#![allow(unsafe_code)]

use super::{super::lanes::Bytes, GROUP, Numbers, PLANE_BITS, PLANES, STRIP, Strip, Sums, Terms};

/// Groups whose indices stay in the first cache.
const CHUNK: usize = 32;
/// Bytes that are added before they are widened: four of 6 bits fit 8.
const FOUR: usize = 4;
/// Groups whose sums of a plane's entries fit 16 bits: 65535 / 63, in whole chunks.
const FITTING: usize = 1024;
/// Which bit of a byte of columns the eight registers of indices have.
const BITS: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

/// The sums of columns with one bit of a byte: `both`, `odd`.
type Pairs<L> = [L; 2];

/// The sums of one bit of all bytes, those of even bytes first.
type OfBit = [[i64; STRIP / 2]; 2];

/// # Safety
/// As for [`Bytes`].
#[inline(always)]
pub(super) unsafe fn add_masked<L: Bytes>(numbers: &Numbers, terms: Terms<'_>, sums: &mut Sums) {
    let zero = L::splat(false);
    for (at, sums) in (0..STRIP)
        .step_by(L::BYTES)
        .zip(sums.chunks_exact_mut(8 * L::BYTES))
    {
        let mut found: [OfBit; 8] = [[[0; STRIP / 2]; 2]; 8];
        let parts = terms.groups.chunks(FITTING);
        for (groups, masks) in parts.zip(terms.masks.chunks(GROUP * FITTING)) {
            let mut planes = [[[zero; 2]; 8]; PLANES];
            let chunks = groups.chunks(CHUNK);
            for (groups, masks) in chunks.zip(masks.chunks(GROUP * CHUNK)) {
                add_chunk(numbers, Terms { groups, masks }, at, &mut planes);
            }
            for (plane, low) in planes[..numbers.planes]
                .iter()
                .zip((0..).step_by(PLANE_BITS as usize))
            {
                for (pairs, found) in plane.iter().zip(&mut found) {
                    widen(*pairs, low, found);
                }
            }
        }
        for (found, bit) in found.iter().zip(BITS) {
            for (byte, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                sums[bit] += found[byte % 2][byte / 2] << numbers.shift;
            }
        }
    }
}

/// Adds at most [`CHUNK`] groups.
#[inline(always)]
fn add_chunk<L: Bytes>(
    numbers: &Numbers,
    terms: Terms<'_>,
    at: usize,
    planes: &mut [[Pairs<L>; 8]; PLANES],
) {
    // A group that is not there has no bits: it looks up the first sum of any table, which is 0.
    let mut indices = [[L::splat(false); 8]; CHUNK];
    let mut tables = [&numbers.tables[..0]; CHUNK];
    tables.fill(&numbers.tables[..numbers.planes]);
    for (indices, masks) in indices.iter_mut().zip(terms.masks.as_chunks::<GROUP>().0) {
        *indices = together(masks, at);
    }
    for (tables, group) in tables.iter_mut().zip(terms.groups) {
        *tables = &numbers.tables[group * numbers.planes..][..numbers.planes];
    }
    let used = terms.groups.len().div_ceil(FOUR);
    let indices = &indices.as_chunks::<FOUR>().0[..used];
    for (plane, planes) in planes[..numbers.planes].iter_mut().enumerate() {
        let [first, second] = planes.as_chunks_mut::<4>().0 else {
            continue;
        };
        let tables = tables.as_chunks::<FOUR>().0;
        add_half::<L, 0>(indices, tables, plane, first);
        add_half::<L, 4>(indices, tables, plane, second);
    }
}

/// Adds one plane of a chunk's groups to four registers of columns.
#[inline(always)]
fn add_half<L: Bytes, const FIRST: usize>(
    indices: &[[[L; 8]; FOUR]],
    tables: &[[&[[u8; 16]]; FOUR]],
    plane: usize,
    pairs: &mut [Pairs<L>; 4],
) {
    let mut sums = *pairs;
    for (indices, tables) in indices.iter().zip(tables) {
        let tables = tables.map(|planes| L::repeat(&planes[plane]));
        for (k, [both, odd]) in sums.iter_mut().enumerate() {
            let mut found = tables[0].lookup(indices[0][FIRST + k]);
            for four in 1..FOUR {
                found = found.add_bytes(tables[four].lookup(indices[four][FIRST + k]));
            }
            *both = both.add_pairs(found);
            *odd = odd.add_pairs(found.shift_right(8));
        }
    }
    *pairs = sums;
}

/// The bits of four masks as half bytes, a register for each of [`BITS`].
#[inline(always)]
fn together<L: Bytes>(masks: &[Strip; GROUP], at: usize) -> [L; 8] {
    let [a, b, c, d] = [0, 1, 2, 3].map(|row| L::load(&masks[row][at..]));
    let (even, odd) = swap::<L, 1>(a, b);
    let (even2, odd2) = swap::<L, 1>(c, d);
    let (first, second) = swap::<L, 2>(even, even2);
    let (third, fourth) = swap::<L, 2>(odd, odd2);
    let low = L::repeat(&[0x0f; 16]);
    let [a, b, c, d] = [first, second, third, fourth]
        .map(|halves| [halves.and(low), halves.shift_right(4).and(low)]);
    [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
}

/// Puts the parts of `SIZE` bits with even places of both beside each other, and those with odd ones.
#[inline(always)]
fn swap<L: Bytes, const SIZE: u8>(first: L, second: L) -> (L, L) {
    let even = L::repeat(&[if SIZE == 1 { 0x55 } else { 0x33 }; 16]);
    let differ = first.shift_right(SIZE).xor(second).and(even);
    (first.xor(differ.shift_left(SIZE)), second.xor(differ))
}

/// Adds sums of a plane whose lowest bit has place `low`.
#[inline(always)]
fn widen<L: Bytes>([both, odd]: Pairs<L>, low: u32, found: &mut OfBit) {
    let even = both.sub_pairs(odd.shift_left(8));
    for (pairs, found) in [even, odd].into_iter().zip(found) {
        let mut bytes = [0; STRIP];
        pairs.store(&mut bytes);
        for (pair, found) in bytes[..L::BYTES].as_chunks().0.iter().zip(found) {
            *found += i64::from(u16::from_le_bytes(*pair)) << low;
        }
    }
}
