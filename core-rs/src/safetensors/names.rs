//! Names: plain, short, once each.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

use super::{MAX_NAME_BYTES, entries::Entry, error::HeaderError, json::Text};

/// Refuses a name that could be taken for a path out of a folder, or that a terminal or a C program
/// would not show as it is.
pub(super) fn check(text: Text<'_>) -> Result<(), HeaderError> {
    let refused = |fault| HeaderError::Name {
        name: text.decode().into_owned(),
        fault,
    };
    // An escape is at most six bytes long and stands for at least one.
    if text.raw_bytes() > 6 * MAX_NAME_BYTES || text.decode().len() > MAX_NAME_BYTES {
        return Err(HeaderError::LongName {
            opening: text.opening(),
            raw_bytes: text.raw_bytes(),
        });
    }
    let name = text.decode();
    if name.chars().any(char::is_control) {
        return Err(refused("no control characters"));
    }
    let mut pieces = name.split(['/', '\\']);
    if name.starts_with(['/', '\\']) || pieces.any(|piece| piece == "..") {
        return Err(refused("no path that leads out of a folder"));
    }
    Ok(())
}

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
