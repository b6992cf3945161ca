//! Reads a file sequentially, never past its end.

use std::io::{self, Read};

use super::{error::GgufError, limits::MAX_HEADER_BYTES};

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The file is not well-formed.
    Refused(GgufError),
    /// The error.
    Io(io::Error),
}

impl From<GgufError> for Stop {
    fn from(error: GgufError) -> Self {
        Self::Refused(error)
    }
}

/// Bytes, and how many of them are left.
pub(super) struct Source<R> {
    inner: R,
    /// The place of the next byte.
    pub(super) at: u64,
    /// The file's size.
    pub(super) file_bytes: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R, file_bytes: u64) -> Self {
        let at = 0;
        Self {
            inner,
            at,
            file_bytes,
        }
    }

    /// Refuses what the rest of the file has no room for, before any memory is taken for it.
    pub(super) fn check_room(&self, count: u64, each: u64, what: &str) -> Result<(), GgufError> {
        let stop = u128::from(self.at) + u128::from(count) * u128::from(each);
        let what = || what.to_owned();
        if stop > u128::from(self.file_bytes) {
            return Err(GgufError::Truncated {
                what: what(),
                stop,
                file_bytes: self.file_bytes,
            });
        }
        if stop > u128::from(MAX_HEADER_BYTES) {
            return Err(GgufError::TooLong { what: what() });
        }
        Ok(())
    }

    fn fill(&mut self, room: &mut [u8], what: &str) -> Result<(), Stop> {
        self.check_room(room.len() as u64, 1, what)?;
        self.inner.read_exact(room).map_err(Stop::Io)?;
        self.at += room.len() as u64;
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Stop> {
        let mut room = [0; N];
        self.fill(&mut room, what)?;
        Ok(room)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Stop> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Stop> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// That many bytes.
    pub(super) fn bytes(&mut self, count: u64, what: &str) -> Result<Vec<u8>, Stop> {
        self.check_room(count, 1, what)?;
        let mut bytes = Vec::new();
        self.append(count, &mut bytes, what)?;
        Ok(bytes)
    }

    /// Appends that many bytes.
    fn append(&mut self, count: u64, bytes: &mut Vec<u8>, what: &str) -> Result<(), Stop> {
        self.check_room(count, 1, what)?;
        let start = bytes.len();
        // Within the limit of a header: no overflow on any machine.
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        bytes.resize(start + count, 0);
        self.fill(&mut bytes[start..], what)
    }

    /// A string, its length before it.
    pub(super) fn text(&mut self, what: &str) -> Result<String, Stop> {
        let count = self.u64(what)?;
        self.text_of(count, what)
    }

    pub(super) fn text_of(&mut self, count: u64, what: &str) -> Result<String, Stop> {
        let bytes = self.bytes(count, what)?;
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let (what, byte) = (what.to_owned(), error.as_bytes()[at]);
            Stop::Refused(GgufError::NotUtf8 { what, at, byte })
        })
    }
}
