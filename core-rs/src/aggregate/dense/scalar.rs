//! The definition: which of two values is the lower one.
#![allow(unsafe_code)]

use super::{
    Line,
    network::{self, Register},
};

pub(super) fn trimmed(rows: usize, trim: usize, lines: &mut [Line], means: &mut Line) {
    // SAFETY: every processor has what this takes.
    unsafe { network::trimmed::<[f32; 4]>(rows, trim, lines, means) };
}

pub(super) fn sort(lines: &mut [Line]) {
    // SAFETY: every processor has what this takes.
    unsafe { network::sort_all::<[f32; 4]>(lines) };
}

// SAFETY: plain arrays, which every processor has.
unsafe impl Register for [f32; 4] {
    const COLUMNS: usize = 4;

    #[inline(always)]
    fn load(line: &Line, part: usize) -> Self {
        line.0.as_chunks().0[part]
    }

    #[inline(always)]
    fn store(self, line: &mut Line, part: usize) {
        line.0.as_chunks_mut().0[part] = self;
    }

    #[inline(always)]
    fn lower(mut self, other: Self) -> Self {
        for (value, other) in self.iter_mut().zip(other) {
            *value = if *value < other { *value } else { other };
        }
        self
    }

    #[inline(always)]
    fn higher(mut self, other: Self) -> Self {
        for (value, other) in self.iter_mut().zip(other) {
            *value = if *value < other { other } else { *value };
        }
        self
    }
}
