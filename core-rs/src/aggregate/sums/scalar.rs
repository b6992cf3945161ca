//! The definition: `sum[c] += number` where bit c is 1, one byte of columns after the other.

use super::{Numbers, Sums, Terms};

/// For each byte the eight numbers that an `and` with a term needs: all ones where its bit is 1.
static ALL_ONES: [[i64; 8]; 256] = all_ones();

const fn all_ones() -> [[i64; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut at = 0;
    while at < 256 * 8 {
        let bit = (at / 8) >> (at % 8) & 1;
        table[at / 8][at % 8] = if bit == 1 { -1 } else { 0 };
        at += 1;
    }
    table
}

pub(super) fn add_masked(numbers: &Numbers, terms: Terms<'_>, sums: &mut Sums) {
    for (byte, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut eight = *sums;
        let each = terms.groups.iter().flat_map(|group| &numbers.each[*group]);
        for (mask, number) in terms.masks.iter().zip(each) {
            let ones = &ALL_ONES[usize::from(mask[byte])];
            for (sum, ones) in eight.iter_mut().zip(ones) {
                *sum += number & ones;
            }
        }
        *sums = eight;
    }
}
