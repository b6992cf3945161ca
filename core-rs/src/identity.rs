//! The identity of a base model: one hash over the tensors that a delta changes.
//!
//! BLAKE3 over, for each named tensor in the order of the names' UTF-8 bytes:
//!
//! | field | bytes |
//! |---|---|
//! | length of the name | u64, little endian |
//! | name | UTF-8 |
//! | length of the dtype | u64, little endian |
//! | dtype, as in the file | ASCII, for example `BF16` |
//! | number of dimensions | u64, little endian |
//! | each dimension | u64, little endian |
//! | length of the values | u64, little endian |
//! | values | as in the file |
//!
//! How the tensors are split into files, the files' names, their metadata and any other tensor in
//! them make no difference.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    path::PathBuf,
};

use crate::{
    digest,
    error::{CoreError, quote},
    files::OpenFile,
    safetensors::{self, TensorInfo},
    threads,
};

/// A tensor and its file.
struct Place<'a> {
    file: &'a OpenFile,
    tensor: TensorInfo,
}

/// Hashes the named tensors of a model in one or more safetensors files, as 64 hexadecimal
/// digits. A name given twice counts once.
///
/// # Errors
/// [`CoreError::NoNames`] without a name, [`CoreError::MissingTensor`] and [`CoreError::TensorTwice`]
/// for names that are not in exactly one file, and whatever [`safetensors::read_header`] refuses.
pub fn base_identity(paths: &[PathBuf], names: &[String]) -> Result<String, CoreError> {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        return Err(CoreError::NoNames);
    }
    let files = paths
        .iter()
        .map(|path| OpenFile::open(path))
        .collect::<Result<Vec<_>, CoreError>>()?;
    let places = find(&files, &names)?;
    let mut hasher = blake3::Hasher::new();
    for name in names {
        let place = places.get(name).ok_or_else(|| CoreError::MissingTensor {
            name: quote(name),
            files: files.len(),
        })?;
        update(&mut hasher, place)?;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Finds the named tensors in the files' headers.
fn find<'a>(
    files: &'a [OpenFile],
    names: &BTreeSet<&str>,
) -> Result<BTreeMap<String, Place<'a>>, CoreError> {
    let mut places: BTreeMap<String, Place> = BTreeMap::new();
    for file in files {
        for tensor in safetensors::read_header(file)?.tensors {
            if !names.contains(tensor.name.as_str()) {
                continue;
            }
            match places.entry(tensor.name.clone()) {
                Entry::Vacant(entry) => entry.insert(Place { file, tensor }),
                Entry::Occupied(entry) => {
                    return Err(CoreError::TensorTwice {
                        name: quote(&tensor.name),
                        first: entry.get().file.path().to_owned(),
                        second: file.path().to_owned(),
                    });
                }
            };
        }
    }
    Ok(places)
}

/// Adds one tensor of a file to the hash.
fn update(hasher: &mut blake3::Hasher, place: &Place<'_>) -> Result<(), CoreError> {
    let TensorInfo {
        name,
        dtype,
        shape,
        start,
        stop,
    } = &place.tensor;
    frame(hasher, name, dtype.name, shape, stop - start);
    digest::update(hasher, place.file, *start..*stop, &(0..0))
}

/// Adds the fields before a tensor's values.
fn frame(hasher: &mut blake3::Hasher, name: &str, dtype: &str, shape: &[u64], bytes: u64) {
    for text in [name, dtype] {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.update(&(shape.len() as u64).to_le_bytes());
    for size in shape {
        hasher.update(&size.to_le_bytes());
    }
    hasher.update(&bytes.to_le_bytes());
}

/// The same hash, computed incrementally over tensors that are read for another purpose.
#[derive(Debug, Default)]
pub struct IdentityHasher {
    hasher: blake3::Hasher,
    last: Option<String>,
}

impl IdentityHasher {
    /// Adds a tensor: its name, its dtype as in the file, its dimensions, its bytes.
    ///
    /// # Errors
    /// [`CoreError::NameOrder`] unless the name comes after all the names before.
    pub fn add(
        &mut self,
        name: &str,
        dtype: &str,
        shape: &[u64],
        bytes: &[u8],
    ) -> Result<(), CoreError> {
        if let Some(last) = self.last.as_ref().filter(|last| last.as_str() >= name) {
            return Err(CoreError::NameOrder {
                name: quote(name),
                last: quote(last),
            });
        }
        frame(&mut self.hasher, name, dtype, shape, bytes.len() as u64);
        threads::hash(&mut self.hasher, bytes);
        self.last = Some(name.to_owned());
        Ok(())
    }

    /// The identity of the tensors added so far, as 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`CoreError::NoNames`] if there are none.
    pub fn finish(&self) -> Result<String, CoreError> {
        if self.last.is_none() {
            return Err(CoreError::NoNames);
        }
        Ok(self.hasher.finalize().to_hex().to_string())
    }
}

#[cfg(test)]
mod tests;
