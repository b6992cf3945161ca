//! BLAKE3 over parts of files.
//!
//! Files are read piece by piece.

use std::ops::Range;

use crate::{
    error::CoreError,
    files::OpenFile,
    threads::{self, Watch},
};

/// Bytes read at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// Digest of a whole file in which the bytes from `zero_at` on, `zero_len` of them, count as ASCII
/// `0`: so a file can carry its own digest there. Written as 64 hexadecimal digits.
///
/// # Errors
/// [`CoreError::Range`] for bytes that the file does not have, and the errors of [`OpenFile`].
pub fn file_digest(file: &OpenFile, zero_at: u64, zero_len: u64) -> Result<String, CoreError> {
    let length = file.length()?;
    let stop = u128::from(zero_at) + u128::from(zero_len);
    let Some(zeros) = zero_at
        .checked_add(zero_len)
        .filter(|stop| *stop <= length)
        .map(|stop| zero_at..stop)
    else {
        return Err(CoreError::Range {
            path: file.path().to_owned(),
            start: zero_at,
            stop,
            length,
        });
    };
    let mut hasher = blake3::Hasher::new();
    update(&mut hasher, file, 0..length, &zeros)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Digest of bytes in memory, written as 64 hexadecimal digits.
#[must_use]
pub fn bytes_digest(bytes: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    threads::hash(&mut hasher, bytes);
    hasher.finalize().to_hex().to_string()
}

/// Adds a range of a file to a hash, with the bytes in `zeros` read as ASCII `0`.
pub(crate) fn update(
    hasher: &mut blake3::Hasher,
    file: &OpenFile,
    range: Range<u64>,
    zeros: &Range<u64>,
) -> Result<(), CoreError> {
    let watch = Watch::new();
    let mut room = vec![0; to_index(PIECE_BYTES.min(range.end - range.start))];
    let mut at = range.start;
    while at < range.end {
        let piece = &mut room[..to_index(PIECE_BYTES.min(range.end - at))];
        watch.check()?;
        file.read_at(piece, at)?;
        let stop = at + piece.len() as u64;
        let (from, to) = (zeros.start.clamp(at, stop), zeros.end.clamp(at, stop));
        piece[to_index(from - at)..to_index(to - at)].fill(b'0');
        threads::hash(hasher, piece);
        at = stop;
    }
    Ok(())
}

/// A position within a piece.
#[allow(clippy::cast_possible_truncation)] // at most PIECE_BYTES
fn to_index(bytes: u64) -> usize {
    bytes as usize
}

#[cfg(test)]
mod tests;
