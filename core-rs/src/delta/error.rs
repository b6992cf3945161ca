//! The errors of a delta file, as messages.

use crate::{
    error::{Reason, quote},
    safetensors::HeaderError,
};

/// Characters of a message of the JSON reader that are kept.
const REASON_CHARS: usize = 400;

/// Why a file is not a delta.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// No well-formed safetensors file.
    #[error(transparent)]
    Container(HeaderError),

    /// A file in which a bit is another than when it was written.
    #[error("damaged file: digest: expected {}, got {}", quote(told), quote(found))]
    Damaged {
        /// The digest in the file.
        told: String,
        /// What its bytes give.
        found: String,
    },

    /// A header that is not of the expected form.
    #[error("header: {reason}")]
    Header {
        /// What is wrong and where.
        reason: String,
    },

    /// Anything else that is another than it should be.
    #[error("{what}: expected {expected}, got {got}")]
    Wrong {
        /// Where.
        what: String,
        /// What should be there.
        expected: String,
        /// What is there.
        got: String,
    },
}

impl Reason for DeltaError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Container(reason) => reason.hint(),
            Self::Damaged { .. } => Some("copy or download the file again"),
            Self::Wrong { what, .. } if what == "metadata version" => {
                Some("a newer zoo-gym may read it")
            }
            _ => None,
        }
    }
}

impl DeltaError {
    pub(super) fn wrong(what: String, expected: &str, got: String) -> Self {
        let expected = expected.to_owned();
        Self::Wrong {
            what,
            expected,
            got,
        }
    }

    pub(super) fn json(error: &serde_json::Error) -> Self {
        let harmless = |c: char| if c.is_control() { '?' } else { c };
        let reason = error.to_string();
        Self::Header {
            reason: reason.chars().map(harmless).take(REASON_CHARS).collect(),
        }
    }
}
