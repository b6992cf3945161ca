//! Rows cut into strips of 512 columns, filled up with zeros.

use std::ops::Range;

use super::Packed;

/// Bytes of a strip.
pub(super) const STRIP: usize = 64;

/// 512 columns of one row.
pub(super) type Strip = [u8; STRIP];

/// At most 64 bytes of each row, filled up; none where the range is empty.
pub(super) fn tail(rows: &[&[u8]], range: Range<usize>) -> Vec<Strip> {
    if range.is_empty() {
        return Vec::new();
    }
    let strip = |row: &&[u8]| {
        let mut strip = [0; STRIP];
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
    room.resize(strips * height, [0; STRIP]);
    for (line, row) in order.iter().enumerate() {
        let row = &packed.rows[*row][bytes.clone()];
        let lines = room[line..].iter_mut().step_by(height);
        for (strip, part) in lines.zip(row.chunks(STRIP)) {
            strip[..part.len()].copy_from_slice(part);
        }
    }
}
