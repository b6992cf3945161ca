//! Names that are safe to display.

use super::error::GgufError;

/// Refuses an empty name and one that a terminal or a C program would not show as it is.
pub(super) fn plain(what: &'static str, name: String) -> Result<String, GgufError> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(GgufError::Name { what, name });
    }
    Ok(name)
}
