//! Files that are opened once and read at offsets, so that they stay the same.
//!
//! Nothing is mapped: truncating a mapped file crashes the process, while truncating a file that is
//! read is an error.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::error::CoreError;

/// A regular file.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    file: File,
}

impl OpenFile {
    /// Opens a file.
    ///
    /// # Errors
    /// [`CoreError::NotAFile`] for a folder or a device, [`CoreError::Io`] for errors of the file
    /// system.
    pub fn open(path: &Path) -> Result<Self, CoreError> {
        // Checked before opening: opening a pipe would wait for its other end.
        let kind = fs::metadata(path).map_err(CoreError::io(path))?;
        if !kind.is_file() {
            let kind = if kind.is_dir() {
                "a folder"
            } else {
                "a device"
            };
            let path = path.to_owned();
            return Err(CoreError::NotAFile { path, kind });
        }
        let file = File::open(path).map_err(CoreError::io(path))?;
        let path = path.to_owned();
        Ok(Self { path, file })
    }

    /// Its path when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its current size in bytes.
    ///
    /// # Errors
    /// [`CoreError::Io`] for errors of the file system.
    pub fn length(&self) -> Result<u64, CoreError> {
        let found = self.file.metadata().map_err(CoreError::io(&self.path))?;
        Ok(found.len())
    }

    /// Fills `room` with the bytes from an offset.
    ///
    /// # Errors
    /// [`CoreError::CutShort`] where the file ends before, [`CoreError::Io`] for errors of the file
    /// system.
    pub fn read_at(&self, room: &mut [u8], at: u64) -> Result<(), CoreError> {
        fill(&self.file, room, at).map_err(CoreError::io(&self.path))
    }

    /// A range inside the file, allocated with exactly its size.
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub fn range(&self, start: u64, length: u64) -> Result<Vec<u8>, CoreError> {
        let length = usize::try_from(length).map_err(io::Error::other);
        let length = length.map_err(CoreError::io(&self.path))?;
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(length);
        reserved.map_err(|_| CoreError::Memory { bytes: length })?;
        bytes.resize(length, 0);
        self.read_at(&mut bytes, start)?;
        Ok(bytes)
    }

    /// The file itself, for a single sequential reader.
    pub(crate) fn stream(&self) -> &File {
        &self.file
    }
}

#[cfg(unix)]
fn fill(file: &File, room: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, room, at)
}

#[cfg(windows)]
fn fill(file: &File, mut room: &mut [u8], mut at: u64) -> io::Result<()> {
    while !room.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, room, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                at += read as u64;
                room = &mut room[read..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
