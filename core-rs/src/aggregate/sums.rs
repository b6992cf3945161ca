//! Adding integers to those columns whose bit is 1.
//!
//! Four rows at a time: the four bits of a column choose one of the sixteen sums of their numbers. These
//! sums are cut into planes of 6 bits, so that a register of bytes contains a plane of sixteen sums and one
//! byte shuffle looks it up for a column in every byte; only as many planes are added as the numbers need.

mod lookup;
mod scalar;

use super::{
    lanes,
    strips::{STRIP, Strip},
};
use crate::isa::{Isa, compiled, dispatch};

compiled! { avx2, avx512, neon over lanes:
    fn add_masked(numbers: &Numbers, terms: Terms<'_>, sums: &mut Sums)
        = lookup::add_masked::<Register>;
}

/// Rows whose numbers have a table of sums together.
pub(super) const GROUP: usize = 4;
/// Bits of a plane: four entries of one still fit a byte.
const PLANE_BITS: u32 = 6;
/// Planes at most: `fixed` leaves 50 bits to a number, and four of them take two more.
const PLANES: usize = 9;

/// One sum for each column of a strip.
pub(super) type Sums = [i64; 8 * STRIP];

/// The numbers of all rows, none below 0, and the tables of every [`GROUP`] of them.
pub(super) struct Numbers {
    each: Vec<[i64; GROUP]>,
    /// Trailing zero bits of every number, which the tables omit.
    shift: u32,
    planes: usize,
    /// For each group its planes, one after the other.
    tables: Vec<[u8; 16]>,
}

/// Some groups of rows, and which columns each of their rows is added to.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) groups: &'a [usize],
    /// [`GROUP`] for each group; zeros after the last row.
    pub(super) masks: &'a [Strip],
}

impl Numbers {
    pub(super) fn new(numbers: &[i64]) -> Self {
        let mut each = vec![[0; GROUP]; numbers.len().div_ceil(GROUP)];
        each.as_flattened_mut()[..numbers.len()].copy_from_slice(numbers);
        let shift = numbers.iter().fold(0, |all, number| all | number);
        let shift = if shift == 0 {
            0
        } else {
            shift.trailing_zeros()
        };
        let largest = each.iter().map(|group| group.iter().sum::<i64>()).max();
        let bits = i64::BITS - (largest.unwrap_or(0) >> shift).leading_zeros();
        let planes = bits.div_ceil(PLANE_BITS) as usize;
        assert!(planes <= PLANES, "numbers of more than 50 bits");
        let tables = each.iter().flat_map(|group| tables(group, shift, planes));
        let tables = tables.collect();
        Self {
            each,
            shift,
            planes,
            tables,
        }
    }

    /// The number of groups.
    pub(super) fn groups(&self) -> usize {
        self.each.len()
    }
}

/// The planes of the sums of each subset of four numbers.
fn tables(group: &[i64; GROUP], shift: u32, planes: usize) -> impl Iterator<Item = [u8; 16]> {
    let sums: [i64; 16] = std::array::from_fn(|subset| {
        let chosen = group.iter().enumerate();
        let chosen = chosen.filter(|(row, _)| subset >> row & 1 == 1);
        chosen.map(|(_, number)| number >> shift).sum()
    });
    (0..)
        .step_by(PLANE_BITS as usize)
        .take(planes)
        .map(move |low| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 6 bits
            sums.map(|sum| (sum >> low & ((1 << PLANE_BITS) - 1)) as u8)
        })
}

/// Adds each row's number to the sum of every column whose bit in the row's mask is 1.
pub(super) fn add_masked(isa: Isa, numbers: &Numbers, terms: Terms<'_>, sums: &mut Sums) {
    dispatch!(isa, add_masked(numbers, terms, sums));
}
