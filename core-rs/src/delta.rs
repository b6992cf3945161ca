//! A strict reader of delta files, versions 1 and 2.
//!
//! A delta is a safetensors file whose metadata say which terms change which tensor of the base. Checked
//! here: the container (see [`crate::safetensors`]), where the digest is and that it is the file's,
//! format and version, every field of the header, the parts that each term calls for with their types and
//! shapes and no others, that floats are finite, and that no code is one which nothing writes.
//! `docs/reference/delta-format.md` specifies it all.

mod codes;
mod error;
mod extensions;
mod header;
mod object;
mod parts;
mod terms;

use std::collections::BTreeMap;

use crate::{
    digest,
    error::{CoreError, quote},
    files::OpenFile,
    safetensors::{self, Header},
};
pub use error::DeltaError;
pub use header::{DeltaHeader, DeltaTensor, Version};
pub use parts::Part;
pub use terms::{FactorCodec, Scale, Term};

/// The format of the file.
pub const FORMAT: &str = "zoo-gym-delta";

/// The versions that are read.
pub const VERSIONS: [(&str, Version); 2] = [("1", Version::One), ("2", Version::Two)];

/// The start of every delta file after the length of its header; the digest follows.
const OPENING: &[u8] = b"{\"__metadata__\":{\"digest\":\"";

/// Where the digest is.
const DIGEST_AT: u64 = 8 + OPENING.len() as u64;

/// Its characters.
const DIGEST_BYTES: u64 = 64;

/// A valid delta file.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// Its digest, 64 hexadecimal digits.
    pub digest: String,
    /// Its version.
    pub version: Version,
    /// Its header as JSON.
    pub text: String,
    /// The same, parsed.
    pub header: DeltaHeader,
    /// The position of each part.
    pub container: Header,
}

/// Reads and checks a delta file, all of its bytes.
///
/// # Errors
/// [`DeltaError`] for a file that is no delta or contradicts itself, and what
/// [`safetensors::read_header`] and [`safetensors::check_finite`] refuse.
pub fn read_delta(file: &OpenFile) -> Result<Delta, CoreError> {
    let refused = CoreError::file(file.path());
    let container = safetensors::read_header(file)?;
    let version = check_metadata(&container.metadata).map_err(&refused)?;
    check_digest(file, &container)?;
    let delta = assemble(container, version).map_err(&refused)?;
    safetensors::check_finite(file, &delta.container)?;
    let read = |start, length| file.range(start, length);
    match codes::fault(&delta.header, &delta.container, read)? {
        None => Ok(delta),
        Some(reason) => Err(refused(reason)),
    }
}

/// Reads and checks a delta file in memory, but for its digest and that its floats are finite.
///
/// # Errors
/// [`DeltaError`] for the first thing that is wrong.
pub fn parse(file: &[u8]) -> Result<Delta, DeltaError> {
    let container = safetensors::parse(file).map_err(DeltaError::Container)?;
    let version = check_metadata(&container.metadata)?;
    check_opening(file.get(8..).unwrap_or_default())?;
    let delta = assemble(container, version)?;
    // The container's ranges were checked to be within the file.
    #[allow(clippy::cast_possible_truncation)]
    let read = |start: u64, length: u64| {
        Ok::<_, DeltaError>(file[start as usize..(start + length) as usize].to_vec())
    };
    codes::fault(&delta.header, &delta.container, read)?.map_or(Ok(delta), Err)
}

/// Parses and checks the JSON of a header of a version.
///
/// # Errors
/// [`DeltaError`] for the first thing that is wrong.
pub fn parse_text(text: &str, version: Version) -> Result<DeltaHeader, DeltaError> {
    header::parse(text, version)
}

fn assemble(mut container: Header, version: Version) -> Result<Delta, DeltaError> {
    let mut taken = |key| container.metadata.remove(key).unwrap_or_default();
    let (digest, text) = (taken("digest"), taken("header"));
    let header = parse_text(&text, version)?;
    parts::check(&header, &container)?;
    Ok(Delta {
        digest,
        version,
        text,
        header,
        container,
    })
}

/// Returns the version; refuses another format or version, and any other keys.
fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<Version, DeltaError> {
    let told = |key| {
        metadata
            .get(key)
            .map_or("none".to_owned(), |text| quote(text))
    };
    if metadata.get("format").map(String::as_str) != Some(FORMAT) {
        let what = "metadata format".to_owned();
        return Err(DeltaError::wrong(
            what,
            &format!("'{FORMAT}'"),
            told("format"),
        ));
    }
    let known = |text: &String| VERSIONS.iter().find(|(name, _)| name == text);
    let Some((_, version)) = metadata.get("version").and_then(known) else {
        let what = "metadata version".to_owned();
        return Err(DeltaError::wrong(what, "'1' or '2'", told("version")));
    };
    let keys: Vec<_> = metadata.keys().map(String::as_str).collect();
    if keys == ["digest", "format", "header", "version"] {
        return Ok(*version);
    }
    let got: Vec<_> = keys.iter().take(8).map(|key| quote(key)).collect();
    let what = "metadata".to_owned();
    Err(DeltaError::wrong(
        what,
        "digest, format, header and version",
        got.join(", "),
    ))
}

/// Refuses a file with its digest elsewhere: it would be part of the digested bytes.
fn check_opening(header: &[u8]) -> Result<(), DeltaError> {
    if header.starts_with(OPENING) {
        return Ok(());
    }
    let what = "first bytes of the header".to_owned();
    Err(DeltaError::wrong(
        what,
        "the metadata with the digest",
        "others".to_owned(),
    ))
}

fn check_digest(file: &OpenFile, container: &Header) -> Result<(), CoreError> {
    let refused = CoreError::file(file.path());
    let opening = file.range(8, OPENING.len() as u64)?;
    check_opening(&opening).map_err(&refused)?;
    let found = digest::file_digest(file, DIGEST_AT, DIGEST_BYTES)?;
    match container.metadata.get("digest") {
        Some(told) if *told == found => Ok(()),
        told => Err(refused(DeltaError::Damaged {
            told: told.cloned().unwrap_or_default(),
            found,
        })),
    }
}

#[cfg(test)]
mod tests;
