//! Rows cut into strips of 512 columns, filled up with zeros.

use std::ops::{Deref, DerefMut, Range};

use super::Packed;
use crate::prefetch;

/// Bytes of a strip.
pub(super) const STRIP: usize = 64;

/// How many rows are read side by side, while as many next ones are prefetched: they are too far apart
/// for the hardware prefetcher, and one stream alone does not fill the way from memory.
pub(super) const AHEAD: usize = 8;

/// 512 columns of one row, in a cache line of their own.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Strip(pub(super) [u8; STRIP]);

impl Strip {
    /// No bit is 1.
    pub(super) const ZERO: Self = Self([0; STRIP]);

    /// Copies at most 64 bytes; zeros follow.
    fn fill_from(&mut self, part: &[u8]) {
        if let Some(part) = part.first_chunk() {
            self.0 = *part;
        } else {
            self.0 = [0; STRIP];
            self.0[..part.len()].copy_from_slice(part);
        }
    }
}

impl Deref for Strip {
    type Target = [u8; STRIP];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Strip {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Bytes of which the first starts a cache line.
pub(super) fn aligned(room: &mut Vec<u8>, size: usize) -> &mut [u8] {
    room.resize(size + STRIP, 0);
    let skip = room.as_ptr().align_offset(STRIP).min(STRIP);
    &mut room[skip..skip + size]
}

/// At most 64 bytes of each row, filled up; none where the range is empty.
pub(super) fn tail(rows: &[&[u8]], range: Range<usize>) -> Vec<Strip> {
    if range.is_empty() {
        return Vec::new();
    }
    let strip = |row: &&[u8]| {
        let mut strip = Strip::ZERO;
        strip.fill_from(&row[range.clone()]);
        strip
    };
    rows.iter().map(strip).collect()
}

/// Copies some columns of all rows, in the given order of the rows: strip after strip, each with all
/// rows, `height` of them (rows of zeros follow the last).
pub(super) fn gather(
    packed: Packed<'_>,
    order: &[usize],
    height: usize,
    bytes: Range<usize>,
    room: &mut Vec<Strip>,
) {
    room.resize(bytes.len().div_ceil(STRIP) * height, Strip::ZERO);
    let starts = bytes.clone().step_by(STRIP);
    for strip in room.chunks_exact_mut(height) {
        strip[order.len()..].fill(Strip::ZERO);
    }
    for (line, rows) in (0..).step_by(AHEAD).zip(order.chunks(AHEAD)) {
        let later = &order[(line + AHEAD).min(order.len())..];
        for (strip, start) in room.chunks_exact_mut(height).zip(starts.clone()) {
            let part = start..bytes.end.min(start + STRIP);
            for later in &later[..AHEAD.min(later.len())] {
                prefetch::now(&packed.rows[*later][part.clone()]);
            }
            for (strip, row) in strip[line..].iter_mut().zip(rows) {
                strip.fill_from(&packed.rows[*row][part.clone()]);
            }
        }
    }
}
