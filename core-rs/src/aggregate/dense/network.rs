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

/// Sorts the lines and writes the mean of those that are kept.
#[inline(always)]
pub(super) fn trimmed(pairs: &[(u32, u32)], trim: usize, lines: &mut [Line], means: &mut Line) {
    for (low, high) in pairs {
        let (low, high) = (*low as usize, *high as usize);
        let (first, second) = (lines[low], lines[high]);
        for column in 0..first.len() {
            let (a, b) = (first[column], second[column]);
            lines[low][column] = if a < b { a } else { b };
            lines[high][column] = if a < b { b } else { a };
        }
    }
    let kept = &lines[trim..lines.len() - trim];
    let mut sums = [0.0f64; super::WIDTH];
    for line in kept {
        for (sum, value) in sums.iter_mut().zip(line) {
            *sum += f64::from(*value);
        }
    }
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // rounded, as defined
    for (mean, sum) in means.iter_mut().zip(sums) {
        *mean = (sum / kept.len() as f64) as f32;
    }
}
