//! The network: which rows are compared with which, whatever their values.
//!
//! Blocks of sixteen rows are sorted in registers by Batcher's odd-even merge sort. Then sorted runs
//! are merged two by two, twice as long each time: the first one backwards against the second leaves
//! the lower half before the higher, each rising and falling once, and comparing at half the distance
//! over and over sorts both (Batcher's bitonic merge). Its last four steps stay within a block, which
//! takes them in registers. Rows that a block or a run lacks count as infinite: the ones that fill up a
//! block are, and a comparison with one that is not there would change nothing.
#![allow(unsafe_code)]

use super::{Line, WIDTH};

/// Rows that are in registers at once.
pub(super) const BLOCK_ROWS: usize = 16;

/// Some columns of one row.
///
/// # Safety
/// An implementation may use instructions that not every processor has; see [`trimmed`].
pub(super) unsafe trait Register: Copy {
    /// Values in a register.
    const COLUMNS: usize;

    /// The columns from `part` times [`Register::COLUMNS`] on.
    fn load(line: &Line, part: usize) -> Self;

    /// The other way round.
    fn store(self, line: &mut Line, part: usize);

    /// The lower value of each column; of two zeros either one.
    fn lower(self, other: Self) -> Self;

    /// The value of each column that `lower` does not give.
    fn higher(self, other: Self) -> Self;
}

/// Puts the lower values into the first of each pair of rows and the higher ones into the second.
macro_rules! compare {
    ($rows:ident: $(($low:literal $high:literal))*) => {
        $(
            ($rows[$low], $rows[$high]) =
                ($rows[$low].lower($rows[$high]), $rows[$low].higher($rows[$high]));
        )*
    };
}

/// Sorts the lines and writes the mean of those that are kept: `rows` of them less `trim` at each end.
/// The lines are filled up to whole blocks with infinities.
///
/// # Safety
/// Only from a function with the register's instructions.
#[inline(always)]
pub(super) unsafe fn trimmed<R: Register>(
    rows: usize,
    trim: usize,
    lines: &mut [Line],
    means: &mut Line,
) {
    // SAFETY: the caller has the register's instructions.
    unsafe { sort_all::<R>(lines) };
    let kept = &lines[trim..rows - trim];
    let mut sums = [0.0f64; WIDTH];
    for line in kept {
        for (sum, value) in sums.iter_mut().zip(line.0) {
            *sum += f64::from(value);
        }
    }
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // rounded, as defined
    for (mean, sum) in means.0.iter_mut().zip(sums) {
        *mean = (sum / kept.len() as f64) as f32;
    }
}

/// Sorts the lines of every column; they are filled up to whole blocks with infinities.
///
/// # Safety
/// As for [`trimmed`].
#[inline(always)]
pub(super) unsafe fn sort_all<R: Register>(lines: &mut [Line]) {
    for part in 0..WIDTH / R::COLUMNS {
        sort::<R>(lines, part);
    }
}

#[inline(always)]
fn sort<R: Register>(lines: &mut [Line], part: usize) {
    for block in lines.as_chunks_mut().0 {
        in_registers::<R, false>(block, part);
    }
    let mut sorted = BLOCK_ROWS;
    while sorted < lines.len() {
        for run in lines.chunks_mut(2 * sorted) {
            if run.len() > sorted {
                merge::<R>(run, sorted, part);
            }
        }
        sorted *= 2;
    }
}

/// Merges the run's first `sorted` lines with the others.
#[inline(always)]
fn merge<R: Register>(run: &mut [Line], sorted: usize, part: usize) {
    let (first, second) = run.split_at_mut(sorted);
    compare_lines::<R>(first.iter_mut().rev().zip(second), part);
    let mut distance = sorted / 2;
    while distance >= BLOCK_ROWS {
        for window in run.chunks_mut(2 * distance) {
            let (low, high) = window.split_at_mut(distance.min(window.len()));
            compare_lines::<R>(low.iter_mut().zip(high), part);
        }
        distance /= 2;
    }
    for block in run.as_chunks_mut().0 {
        in_registers::<R, true>(block, part);
    }
}

#[inline(always)]
fn compare_lines<'a, R: Register>(
    pairs: impl Iterator<Item = (&'a mut Line, &'a mut Line)>,
    part: usize,
) {
    for (low, high) in pairs {
        let (first, second) = (R::load(low, part), R::load(high, part));
        first.lower(second).store(low, part);
        first.higher(second).store(high, part);
    }
}

/// Sorts a block, or merges it where it rises and falls once.
#[inline(always)]
fn in_registers<R: Register, const MERGE: bool>(block: &mut [Line; BLOCK_ROWS], part: usize) {
    let mut rows = [R::load(&block[0], part); BLOCK_ROWS];
    for (row, line) in rows.iter_mut().zip(&*block).skip(1) {
        *row = R::load(line, part);
    }
    let rows = if MERGE {
        merge_block(rows)
    } else {
        sort_block(rows)
    };
    for (line, row) in block.iter_mut().zip(rows) {
        row.store(line, part);
    }
}

/// Batcher's odd-even merge sort of sixteen.
#[inline(always)]
fn sort_block<R: Register>(mut rows: [R; BLOCK_ROWS]) -> [R; BLOCK_ROWS] {
    compare!(rows: (0 1) (2 3) (4 5) (6 7) (8 9) (10 11) (12 13) (14 15));

    compare!(rows: (0 2) (1 3) (4 6) (5 7) (8 10) (9 11) (12 14) (13 15));
    compare!(rows: (1 2) (5 6) (9 10) (13 14));

    compare!(rows: (0 4) (1 5) (2 6) (3 7) (8 12) (9 13) (10 14) (11 15));
    compare!(rows: (2 4) (3 5) (10 12) (11 13));
    compare!(rows: (1 2) (3 4) (5 6) (9 10) (11 12) (13 14));

    compare!(rows: (0 8) (1 9) (2 10) (3 11) (4 12) (5 13) (6 14) (7 15));
    compare!(rows: (4 8) (5 9) (6 10) (7 11));
    compare!(rows: (2 4) (3 5) (6 8) (7 9) (10 12) (11 13));
    compare!(rows: (1 2) (3 4) (5 6) (7 8) (9 10) (11 12) (13 14));
    rows
}

/// The last four steps of a bitonic merge.
#[inline(always)]
fn merge_block<R: Register>(mut rows: [R; BLOCK_ROWS]) -> [R; BLOCK_ROWS] {
    compare!(rows: (0 8) (1 9) (2 10) (3 11) (4 12) (5 13) (6 14) (7 15));
    compare!(rows: (0 4) (1 5) (2 6) (3 7) (8 12) (9 13) (10 14) (11 15));
    compare!(rows: (0 2) (1 3) (4 6) (5 7) (8 10) (9 11) (12 14) (13 15));
    compare!(rows: (0 1) (2 3) (4 5) (6 7) (8 9) (10 11) (12 13) (14 15));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of one column.
    fn sorted(values: &[f32]) -> Vec<f32> {
        let mut lines: Vec<Line> = values.iter().map(|value| Line([*value; WIDTH])).collect();
        let padded = lines.len().next_multiple_of(BLOCK_ROWS);
        lines.resize(padded, Line([f32::INFINITY; WIDTH]));
        for part in 0..WIDTH / <[f32; 4]>::COLUMNS {
            sort::<[f32; 4]>(&mut lines, part);
        }
        let columns = 0..WIDTH;
        let rows = lines[..values.len()].iter();
        rows.map(|line| {
            columns
                .clone()
                .for_each(|column| assert_eq!(line.0[column].to_bits(), line.0[0].to_bits()));
            line.0[0]
        })
        .collect()
    }

    /// A network that sorts zeros and ones sorts everything (the 0-1 principle: Knuth, vol. 3, 5.3.4).
    #[test]
    fn sixteen_rows_of_zeros_and_ones_are_sorted_whatever_they_are() {
        for ones in 0u16..=u16::MAX {
            let rows: Vec<f32> = (0..BLOCK_ROWS)
                .map(|row| if ones >> row & 1 == 1 { 1.0 } else { 0.0 })
                .collect();
            let sorted = sorted(&rows);
            assert!(sorted.is_sorted(), "{ones:016b}");
            let kept = sorted.iter().filter(|value| **value > 0.5).count();
            assert_eq!(kept, ones.count_ones() as usize);
        }
    }

    #[test]
    fn any_number_of_rows_is_sorted() {
        for rows in 1..=8 * BLOCK_ROWS {
            for zeros in 0..=rows {
                let mut values = vec![1.0; rows];
                // Spread over the rows, so that every run has some: 131 is prime.
                (0..zeros).for_each(|zero| values[zero * 131 % rows] = 0.0);
                let sorted = sorted(&values);
                let expected = (0..rows).map(|row| if row < zeros { 0.0 } else { 1.0 });
                assert!(
                    sorted.into_iter().eq(expected),
                    "{zeros} zeros in {rows} rows"
                );
            }
        }
    }
}
