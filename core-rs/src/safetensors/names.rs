//! Names: plain and short.

use super::{error::HeaderError, json::Text, limits::MAX_NAME_BYTES};

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
