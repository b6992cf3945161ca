//! The network: which rows are compared, and comparing them.

use super::Line;

/// The pairs of rows (lower, higher) that Batcher's odd-even merge sort compares, in order.
pub(super) fn comparators(rows: usize) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    let mut sorted = 1;
    while sorted < rows {
        let mut apart = sorted;
        while apart > 0 {
            for start in (apart % sorted..rows.saturating_sub(apart)).step_by(2 * apart) {
                for low in start..(start + apart).min(rows - apart) {
                    if low / (2 * sorted) == (low + apart) / (2 * sorted) {
                        #[allow(clippy::cast_possible_truncation)] // rows of a real round
                        pairs.push((low as u32, (low + apart) as u32));
                    }
                }
            }
            apart /= 2;
        }
        sorted *= 2;
    }
    pairs
}

/// An instruction set's comparator.
pub(super) trait Compare {
    /// Puts the lower value of each column into the first line, the higher one into the second.
    fn compare(first: &mut Line, second: &mut Line);
}

/// Sorts the lines and writes the mean of those that are kept.
#[inline(always)]
pub(super) fn trimmed<C: Compare>(
    pairs: &[(u32, u32)],
    trim: usize,
    lines: &mut [Line],
    means: &mut Line,
) {
    for (low, high) in pairs {
        let (before, after) = lines.split_at_mut(*high as usize);
        C::compare(&mut before[*low as usize], &mut after[0]);
    }
    let kept = &lines[trim..lines.len() - trim];
    let mut sums = [0.0f64; super::WIDTH];
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
