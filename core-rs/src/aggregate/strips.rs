//! Rows cut into strips of 512 columns, filled up with zeros.

use std::ops::{Deref, DerefMut, Range};

use super::Packed;
use crate::prefetch;

/// Bytes of a strip.
pub(super) const STRIP: usize = 64;

/// How many rows before its turn a row is asked for: they lie too far apart to be foreseen.
pub(super) const AHEAD: usize = 8;

/// 512 columns of one row, in a cache line of their own.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Strip(pub(super) [u8; STRIP]);

impl Strip {
    /// No bit is 1.
    pub(super) const ZERO: Self = Self([0; STRIP]);
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
        strip[..range.len()].copy_from_slice(&row[range.clone()]);
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
    let strips = bytes.len().div_ceil(STRIP);
    room.clear();
    room.resize(strips * height, Strip::ZERO);
    for (line, row) in order.iter().enumerate() {
        if let Some(later) = order.get(line + AHEAD) {
            prefetch::now(&packed.rows[*later][bytes.clone()]);
        }
        let row = &packed.rows[*row][bytes.clone()];
        let lines = room[line..].iter_mut().step_by(height);
        for (strip, part) in lines.zip(row.chunks(STRIP)) {
            match part.first_chunk::<STRIP>() {
                Some(part) => strip.0 = *part,
                None => strip[..part.len()].copy_from_slice(part),
            }
        }
    }
}
