//! Every name once.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

use super::{entries::Entry, error::HeaderError};

/// Refuses a name that two tensors have. Hashes with a key of this process are compared first: no file
/// can make many that are equal.
pub(super) fn refuse_twice(header: &str, entries: &[Entry]) -> Result<(), HeaderError> {
    let keys = RandomState::new();
    let hash = |entry: &Entry| {
        let mut hasher = keys.build_hasher();
        hasher.write(entry.name(header).decode().as_bytes());
        hasher.finish()
    };
    let mut hashes: Vec<u64> = entries.iter().map(&hash).collect();
    hashes.sort_unstable();
    for pair in hashes.windows(2).filter(|pair| pair[0] == pair[1]) {
        let mut alike = entries.iter().filter(|entry| hash(entry) == pair[0]);
        let first = alike.next().map(|entry| entry.name(header).decode());
        if alike.any(|entry| Some(entry.name(header).decode()) == first) {
            let name = first.unwrap_or_default().into_owned();
            return Err(HeaderError::Twice { name });
        }
    }
    Ok(())
}
