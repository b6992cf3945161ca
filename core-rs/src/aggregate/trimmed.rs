//! Which contributions a trimmed mean keeps, for many columns at once.
//!
//! Two gates watch each sign: one opens when `trim` of that sign have passed, one when `n - trim` have;
//! a contribution is kept while the first is open and the second is not. A gate is a count in binary
//! digits that starts so high that its top digit becomes 1 at that moment. Rows pass in groups of 16:
//! where no gate opens within a group, the group needs one addition for each gate.

mod gates;

use std::ops::Range;

use super::{
    lanes,
    strips::{STRIP, Strip},
    sums::{GROUP, Terms},
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
    /// The rows in the masks.
    Some,
}

/// Where the pluses of 16 rows are kept, and where the minuses are not.
type Masks = [[Strip; 16]; 2];

/// Groups of rows whose numbers are added where the masks' bits are 1.
pub(super) struct List {
    groups: Vec<usize>,
    masks: Vec<Strip>,
}

impl List {
    /// Room for so many rows: growing it would cost as much as the addition.
    fn with_capacity(rows: usize) -> Self {
        Self {
            groups: Vec::with_capacity(rows / GROUP),
            masks: Vec::with_capacity(rows),
        }
    }

    fn push(&mut self, groups: Range<usize>, masks: &[Strip; 16]) {
        self.masks.extend_from_slice(&masks[..GROUP * groups.len()]);
        self.groups.extend(groups);
    }

    pub(super) fn terms(&self) -> Terms<'_> {
        Terms {
            groups: &self.groups,
            masks: &self.masks,
        }
    }
}

/// What is added to each column: one list's numbers twice, the other's once, `less` a number.
///
/// A number that is kept in some columns is added where its plus is kept and where its minus is not, less
/// the number; one that is kept in all of them twice where the bit is 1, which is the same.
pub(super) struct Kept<'a> {
    multiples: &'a [i64],
    pub(super) twice: List,
    pub(super) once: List,
    pub(super) less: i64,
}

impl<'a> Kept<'a> {
    /// No terms yet of contributors with these scales.
    pub(super) fn new(multiples: &'a [i64]) -> Self {
        let rows = multiples.len().next_multiple_of(16);
        let (twice, once) = (List::with_capacity(rows), List::with_capacity(2 * rows));
        Self {
            multiples,
            twice,
            once,
            less: 0,
        }
    }

    /// Lets all rows pass, in descending order of their scales; a multiple of 16 of them.
    pub(super) fn pass(&mut self, isa: Isa, rule: Trim, strip: &[Strip]) {
        dispatch!(isa, pass(rule, strip, self));
    }

    /// Takes the group of rows from `first` on.
    fn take(&mut self, first: usize, rows: &[Strip; 16], group: Group, masks: &Masks) {
        let present = first..self.multiples.len().min(first + 16);
        let groups = first / GROUP..present.end.div_ceil(GROUP);
        match group {
            Group::Nothing => return,
            Group::Everything => self.twice.push(groups, rows),
            Group::Some => {
                for masks in masks {
                    self.once.push(groups.clone(), masks);
                }
            }
        }
        self.less += self.multiples[present].iter().sum::<i64>();
    }
}
