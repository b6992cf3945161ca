//! In how many columns two contributors disagree: the Gram matrix of packed signs, in exact integers.
//!
//! For signs x and y in {-1, +1} over d columns, `x . y = d - 2 h` with h the Hamming distance; so the
//! matrix of all h is the Gram matrix that distance-based rules need (Krum, arXiv:1703.02757), and
//! for scales a, b the squared distance is `d (a^2 + b^2) - 2 a b (d - 2 h)`. Shards add up.
//!
//! Half of the pairs are computed; time is O(n^2 d / 2) bits, memory one block of rows in the cache.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod harley_seal;
#[cfg(target_arch = "x86_64")]
mod lookup;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use std::ops::Range;

use rayon::iter::IntoParallelIterator;

use super::{Packed, strips::aligned};
use crate::{
    error::{CoreError, check_length},
    isa::{Isa, dispatch},
    prefetch,
    threads::{self, Watch},
};

/// What every kernel takes at once: it is given whole steps only.
const STEP_BYTES: usize = 512;

/// Bytes of a row that are worked on at once.
const BLOCK_BYTES: usize = 3072;
/// Rows that stay in the first cache, a block of each ...
const NEAR: usize = 9;
/// ... while so many at a time of a panel in the second cache pass by, ...
const PASSING: usize = 9;
/// ... and such a part of one of the next near rows is prefetched.
const PARTS: usize = 3;
/// Rows of a panel that one thread alone compares with all others: while they pass by, all of the next
/// near rows are prefetched.
const HEIGHT: usize = NEAR * PARTS * PASSING;
/// Rows of a panel, and rows that it is compared with, in a task for one of many threads.
const SHARE: (usize, usize) = (12 * PASSING, 54 * PASSING);
/// How many rows before its turn a row of a panel is prefetched.
const AHEAD: usize = 3;
/// From this many contributors on AVX2 looks half bytes up.
#[cfg(target_arch = "x86_64")]
const LOOKED_UP: usize = 32;
/// Below this many contributors panels are lower, so that every thread gets one.
const FEW: usize = 480;

/// Adds the Hamming distances of all pairs of contributors to `total`, [n, n], row-major.
///
/// # Errors
/// [`CoreError::Length`] for another number of sums than n times n.
pub fn add_hamming(isa: Isa, packed: Packed<'_>, total: &mut [u64]) -> Result<(), CoreError> {
    let rows = packed.rows();
    check_length("total", rows * rows, total.len())?;
    #[cfg(target_arch = "x86_64")]
    if let (Isa::Avx2(proof), LOOKED_UP..) = (isa, rows) {
        return lookup::add(proof, packed, total);
    }
    let whole = packed.cols() / (8 * STEP_BYTES) * STEP_BYTES;
    let heads: Vec<&[u8]> = packed.iter().map(|row| &row[..whole]).collect();
    add_rows(isa, &heads, total)?;
    let rest = padded_rest(packed, whole);
    let rests: Vec<&[u8]> = rest.chunks_exact(STEP_BYTES).collect();
    add_rows(isa, &rests, total)
}

/// What is left after the whole steps, filled up with zeros, which agree in every row.
fn padded_rest(packed: Packed<'_>, start: usize) -> Vec<u8> {
    if packed.cols() == 8 * start {
        return Vec::new();
    }
    let mut rest = vec![0; packed.rows() * STEP_BYTES];
    for (row, room) in packed.iter().zip(rest.chunks_exact_mut(STEP_BYTES)) {
        let bytes = &row[start..];
        room[..bytes.len()].copy_from_slice(bytes);
        room[bytes.len() - 1] &= packed.last_byte_mask();
    }
    rest
}

/// One rectangle of the matrix: `height` rows from `top` and the columns from `left`; for every
/// [`NEAR`] columns a line of sums a row.
struct Rectangle {
    top: usize,
    left: usize,
    height: usize,
    sums: Vec<[u64; NEAR]>,
}

fn add_rows(isa: Isa, rows: &[&[u8]], total: &mut [u64]) -> Result<(), CoreError> {
    let count = rows.len();
    let (height, width) = match threads::count() {
        1 => (HEIGHT, count.max(1)),
        _ if count < FEW => (3 * PASSING, SHARE.1),
        _ => SHARE,
    };
    let corners = (0..count).step_by(height).flat_map(|top| {
        let lefts = (top..count).step_by(width);
        lefts.map(move |left| (top, left))
    });
    let corners: Vec<_> = corners.collect();
    let watch = Watch::new();
    let done = threads::collect(corners.into_par_iter(), |corner| {
        rectangle(isa, rows, (height, width), corner, &watch)
    })?;
    for rectangle in done {
        add_rectangle(&rectangle, count, total);
    }
    Ok(())
}

/// Adds the values above the diagonal to both halves of the matrix.
fn add_rectangle(rectangle: &Rectangle, count: usize, total: &mut [u64]) {
    let groups = rectangle.sums.chunks_exact(rectangle.height);
    for (left, lines) in (rectangle.left..).step_by(NEAR).zip(groups) {
        for (row, line) in (rectangle.top..).zip(lines) {
            for (column, sum) in (left..count).zip(line) {
                if column > row {
                    total[row * count + column] += sum;
                    total[column * count + row] += sum;
                }
            }
        }
    }
}

/// The distances between the rows from the top and those from the left, as many of each as `size`
/// allows; most pairs below the diagonal are skipped.
fn rectangle(
    isa: Isa,
    rows: &[&[u8]],
    size: (usize, usize),
    corner: (usize, usize),
    watch: &Watch,
) -> Result<Rectangle, CoreError> {
    let ((height, width), (top, left)) = (size, corner);
    let above = &rows[top..rows.len().min(top + height)];
    let beside = &rows[left..rows.len().min(left + width)];
    let mut sums = vec![[0; NEAR]; above.len() * beside.len().div_ceil(NEAR)];
    let (mut panel, mut near) = (Panel::default(), Panel::default());
    for start in (0..above[0].len()).step_by(BLOCK_BYTES) {
        watch.check()?;
        let range = start..above[0].len().min(start + BLOCK_BYTES);
        let panel = panel.copy(above, range.clone());
        for (group, column) in (0..beside.len()).step_by(NEAR).enumerate() {
            let (now, later) = beside[column..].split_at(NEAR.min(beside.len() - column));
            let needed = above.len().min(left + column + now.len() - top);
            let later: Vec<_> = later
                .iter()
                .map(|row| &row[range.clone()])
                .take(NEAR)
                .collect();
            let now = near.copy(now, range.clone());
            let sums = &mut sums[group * above.len()..];
            pass_by(isa, &panel[..needed], &now, &later, sums);
        }
    }
    Ok(Rectangle {
        top,
        left,
        height: above.len(),
        sums,
    })
}

/// Compares rows of a panel with the near ones, a line of `sums` for each; meanwhile prefetches the lines
/// that come next, which are in the last-level cache, and the `later` rows, which are in memory: only a
/// little at once, since the number of cache lines in flight is limited.
fn pass_by(
    isa: Isa,
    panel: &[&[u8]],
    near: &[&[u8]],
    later: &[&[u8]],
    mut sums: &mut [[u64; NEAR]],
) {
    for (index, above) in panel.chunks(PASSING).enumerate() {
        let (now, next) = sums.split_at_mut(above.len());
        prefetch::now(next[..PASSING.min(next.len())].as_flattened());
        prefetch::now(part(later, index));
        dispatch!(isa, add_block(above, near, now));
        sums = next;
    }
}

/// The part of some rows that is prefetched as number `index`.
fn part<'a>(rows: &[&'a [u8]], index: usize) -> &'a [u8] {
    let Some(row) = rows.get(index / PARTS) else {
        return &[];
    };
    let mut parts = row.chunks(row.len().div_ceil(PARTS));
    parts.nth(index % PARTS).unwrap_or_default()
}

/// One block of some rows side by side, where a load of 64 bytes never crosses a cache line.
#[derive(Default)]
struct Panel(Vec<u8>);

impl Panel {
    fn copy<'a>(&'a mut self, rows: &[&[u8]], range: Range<usize>) -> Vec<&'a [u8]> {
        let room = aligned(&mut self.0, rows.len() * range.len());
        let laters = rows.iter().skip(AHEAD).map(|row| &row[range.clone()]);
        let laters = laters.chain(std::iter::repeat(&[][..]));
        for ((room, row), later) in room.chunks_exact_mut(range.len()).zip(rows).zip(laters) {
            prefetch::now(later);
            room.copy_from_slice(&row[range.clone()]);
        }
        room.chunks_exact(range.len()).collect()
    }
}

/// Runs a kernel's inner instructions `steps` times on registers alone, and returns how many pairs of
/// bits they compare: what the kernel could do if memory cost nothing.
#[must_use]
pub fn registers(isa: Isa, steps: usize) -> usize {
    dispatch!(isa, registers(steps))
}
