//! Krum's order of the contributors (arXiv:1703.02757), and Bulyan's (arXiv:1802.07927).
//!
//! A contributor's score is the sum of its squared distances to the nearest others, in exact integers;
//! of equal scores the first contributor's comes first.

use rayon::iter::IntoParallelIterator;

use super::whole::distance;
use crate::{
    error::{CoreError, check_length},
    threads,
};

/// Writes the contributors in ascending order of the sum of the distances to their `near` nearest others.
///
/// # Errors
/// [`CoreError::Length`] for a matrix or an order that does not fit.
pub fn krum_order(
    gram: &[i64],
    count: usize,
    near: usize,
    order: &mut [u64],
) -> Result<(), CoreError> {
    check_length("gram", count * count, gram.len())?;
    check_length("order", count, order.len())?;
    let mut scores = threads::collect((0..count).into_par_iter(), |row| {
        let others = (0..count).filter(|other| *other != row);
        let mut distances: Vec<i64> = others
            .map(|other| distance(gram, count, row, other))
            .collect();
        if near < distances.len() {
            distances.select_nth_unstable(near);
        }
        Ok((sum(distances.iter().take(near)), row))
    })?;
    scores.sort_unstable();
    for (place, (_, row)) in order.iter_mut().zip(scores) {
        *place = row as u64;
    }
    Ok(())
}

/// Writes the contributors in the order in which Bulyan takes them, as many as `order` has places: each time
/// Krum's first among those that are left, by the distances to all but `far + 2` of these (one at least).
///
/// # Errors
/// [`CoreError::Length`] for a matrix that does not fit, or more places than contributors.
pub fn bulyan_order(
    gram: &[i64],
    count: usize,
    far: usize,
    order: &mut [u64],
) -> Result<(), CoreError> {
    check_length("gram", count * count, gram.len())?;
    check_length("order", count.min(order.len()), order.len())?;
    let mut others = threads::collect((0..count).into_par_iter(), |row| {
        let others = (0..count).filter(|other| *other != row);
        let mut others: Vec<(i64, usize)> = others
            .map(|other| (distance(gram, count, row, other), other))
            .collect();
        others.sort_unstable();
        Ok(others)
    })?;
    let mut left: Vec<usize> = (0..count).collect();
    for place in order {
        let near = left.len().saturating_sub(far + 2).max(1);
        let score = |row: &usize| {
            let distances = others[*row].iter().map(|(distance, _)| distance);
            (sum(distances.take(near)), *row)
        };
        let Some(first) = left.iter().copied().min_by_key(score) else {
            break;
        };
        left.retain(|row| *row != first);
        for row in &mut others {
            row.retain(|(_, other)| *other != first);
        }
        *place = first as u64;
    }
    Ok(())
}

/// Distances are none below 0.
#[allow(clippy::cast_sign_loss)]
fn sum<'a>(distances: impl Iterator<Item = &'a i64>) -> u128 {
    distances.map(|distance| *distance as u128).sum()
}
