//! Which contributions a trimmed mean keeps, for many columns at once.
//!
//! Two gates watch each sign: one opens when `trim` of that sign have passed, one when `n - trim` have;
//! a contribution is kept while the first is open and the second is not. A gate is a count in binary
//! digits that starts so high that its top digit becomes 1 at that moment. Rows pass in groups of 16:
//! where no gate opens within a group, the group needs one addition for each gate.

mod gates;

use super::{
    lanes,
    strips::{STRIP, Strip},
};
use crate::isa::{Isa, compiled, dispatch};

compiled! { scalar, avx2, avx512, neon over lanes:
    fn pass(rule: Trim, strip: &[Strip], kept: &mut Kept<'_>) = gates::pass::<Register>;
}

/// The rule: of `rows` values the `trim` highest and lowest are left out.
#[derive(Clone, Copy)]
pub(super) struct Trim {
    pub(super) rows: usize,
    pub(super) trim: usize,
}

/// What a group of 16 rows contributes.
#[derive(Clone, Copy, PartialEq)]
enum Group {
    /// Nothing, in any column.
    Nothing,
    /// Every row in every column.
    Everything,
    /// The rows that the masks say.
    Some,
}

/// The kept pluses and minuses of 16 rows.
type Masks = [[Strip; 16]; 2];

/// Terms of the sums: a number is added where the mask's bit is 1, and all sums start at `start`.
pub(super) struct Kept<'a> {
    multiples: &'a [i64],
    pub(super) masks: Vec<Strip>,
    pub(super) numbers: Vec<i64>,
    pub(super) start: i64,
}

impl<'a> Kept<'a> {
    /// No terms yet of contributors with these scales.
    pub(super) fn new(multiples: &'a [i64]) -> Self {
        let (masks, numbers) = (Vec::new(), Vec::new());
        Self {
            multiples,
            masks,
            numbers,
            start: 0,
        }
    }

    /// Lets all rows pass, in descending order of their scales; a multiple of 16 of them.
    pub(super) fn pass(&mut self, isa: Isa, rule: Trim, strip: &[Strip]) {
        dispatch!(isa, pass(rule, strip, self));
    }

    /// Takes the group of rows from `first` on.
    fn take(&mut self, first: usize, rows: &[Strip; 16], group: Group, masks: &Masks) {
        let multiples = &self.multiples[first..self.multiples.len().min(first + 16)];
        match group {
            Group::Nothing => {}
            Group::Everything => {
                // A sign times a number is twice the number where the bit is 1, less the number.
                self.masks.extend_from_slice(&rows[..multiples.len()]);
                self.numbers
                    .extend(multiples.iter().map(|number| 2 * number));
                self.start -= multiples.iter().sum::<i64>();
            }
            Group::Some => {
                for (masks, sign) in masks.iter().zip([1, -1]) {
                    self.masks.extend_from_slice(&masks[..multiples.len()]);
                    self.numbers
                        .extend(multiples.iter().map(|number| sign * number));
                }
            }
        }
    }
}
