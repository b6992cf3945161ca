//! The weighted mean of contributions of plus or minus a scale.
//!
//! Sum of `weight * scale * sign`, divided by the sum of the weights. Each product,
//! and each weight, becomes a multiple of a unit (`fixed`), the sums are exact integers, and the
//! quotient is taken in float64 and rounded to float32.
//!
//! O(n d); memory: 4096 columns of all rows for each thread.

use rayon::{iter::IndexedParallelIterator, slice::ParallelSliceMut};

use super::{
    Packed, Refusal,
    fixed::{Fixed, fixed},
    strips::{STRIP, Strip, gather},
    sums::{GROUP, Numbers, Sums, Terms, add_masked},
};
use crate::{
    error::{CoreError, check_length},
    isa::Isa,
    threads,
};

/// Bytes of a row that are copied at once.
const BLOCK_BYTES: usize = 512;

/// Writes the weighted mean of the contributions for each column; `weights` may be all 1.
///
/// # Errors
/// [`CoreError::Length`] for a buffer that does not fit, [`Refusal`] for a scale or weight
/// that is negative or not finite, or weights that are all 0.
pub fn mean(
    isa: Isa,
    packed: Packed<'_>,
    scales: &[f32],
    weights: &[f32],
    means: &mut [f32],
) -> Result<(), CoreError> {
    // Copies: the checked values are used even if the originals are modified meanwhile.
    let (scales, weights) = (scales.to_vec(), weights.to_vec());
    check_numbers("scale", packed, &scales)?;
    check_numbers("weight", packed, &weights)?;
    check_length("means", packed.cols(), means.len())?;
    let pairs = scales.iter().zip(&weights);
    let products: Vec<f64> = pairs.map(|(s, w)| f64::from(*s) * f64::from(*w)).collect();
    let products = fixed(&products);
    let weights = fixed(&weights.iter().map(|w| f64::from(*w)).collect::<Vec<_>>());
    let total: i64 = weights.multiples.iter().sum();
    if total == 0 {
        let rows = packed.rows();
        return Err(Refusal::NoWeight { rows }.into());
    }
    #[allow(clippy::cast_precision_loss)] // rounded, as defined
    let divisor = total as f64 * weights.unit;
    let order: Vec<usize> = (0..packed.rows()).collect();
    let numbers = Numbers::new(&products.multiples);
    let groups: Vec<usize> = (0..numbers.groups()).collect();
    let all = products.multiples.iter().sum::<i64>();
    for_strips(
        packed,
        &order,
        GROUP * groups.len(),
        means,
        |strip, means| {
            let mut sums = [0; 8 * STRIP];
            let terms = Terms {
                groups: &groups,
                masks: strip,
            };
            add_masked(isa, &numbers, terms, &mut sums);
            twice_less(&mut sums, all);
            write(&products, &sums, divisor, means);
        },
    )
}

/// Calls `work` with each strip of all rows and the output of its columns.
fn for_strips(
    packed: Packed<'_>,
    order: &[usize],
    height: usize,
    means: &mut [f32],
    work: impl Fn(&[Strip], &mut [f32]) + Sync + Send,
) -> Result<(), CoreError> {
    let blocks = means.par_chunks_mut(8 * BLOCK_BYTES).enumerate();
    threads::for_each_with(blocks, 1, Vec::new, |room, (block, means)| {
        let at = block * BLOCK_BYTES;
        gather(
            packed,
            order,
            height,
            at..at + means.len().div_ceil(8),
            room,
        );
        for (strip, means) in room.chunks_exact(height).zip(means.chunks_mut(8 * STRIP)) {
            work(strip, means);
        }
    })
}

/// A sign times a number is twice the number where the bit is 1, less the number.
fn twice_less(sums: &mut Sums, all: i64) {
    for sum in sums {
        *sum = 2 * *sum - all;
    }
}

fn write(fixed: &Fixed, sums: &Sums, divisor: f64, means: &mut [f32]) {
    for (mean, sum) in means.iter_mut().zip(sums) {
        *mean = fixed.mean(*sum, divisor);
    }
}

fn check_numbers(what: &'static str, packed: Packed<'_>, numbers: &[f32]) -> Result<(), CoreError> {
    check_length(what, packed.rows(), numbers.len())?;
    let wrong = |number: &f32| !number.is_finite() || *number < 0.0;
    match numbers.iter().position(wrong) {
        Some(row) => Err(Refusal::Scale {
            what,
            row,
            value: numbers[row],
        }
        .into()),
        None => Ok(()),
    }
}
