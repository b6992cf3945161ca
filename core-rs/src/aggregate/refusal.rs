//! Why contributions cannot be aggregated, as sentences that name the contributor.

use crate::error::{CoreError, Reason};

/// A round that the aggregators refuse. Contributors count from 0.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No contributor, or no column.
    #[error("nothing to aggregate: expected at least one {what}, got none")]
    Nothing {
        /// `contributor` or `column`.
        what: &'static str,
    },

    /// A contribution that is longer or shorter than its shard.
    #[error("contributor {row} has the wrong length: expected {expected} {unit}, got {got}")]
    Length {
        /// The contributor.
        row: usize,
        /// `bytes` or `values`.
        unit: &'static str,
        /// The length required by the number of columns.
        expected: usize,
        /// What was given.
        got: usize,
    },

    /// A value that no mean survives.
    #[error(
        "contributor {row} is not finite: expected a finite number, got {value} at index {index}"
    )]
    NotFinite {
        /// The contributor.
        row: usize,
        /// The column, from 0.
        index: usize,
        /// The value.
        value: f32,
    },

    /// A scale or weight that is none.
    #[error(
        "invalid {what} of contributor {row}: expected a finite number of at least 0, got {value}"
    )]
    Scale {
        /// `scale` or `weight`.
        what: &'static str,
        /// The contributor.
        row: usize,
        /// The value.
        value: f32,
    },

    /// A contribution whose products would leave the range of exact sums.
    #[error("contributor {row} is too large: expected a squared norm below 2^40, got more")]
    TooLarge {
        /// The contributor.
        row: usize,
    },

    /// A mean of no values, or of more than there are.
    #[error("wrong number of values to keep: expected 1 to {rows}, got {keep}")]
    Keep {
        /// The number of contributors.
        rows: usize,
        /// The requested number.
        keep: usize,
    },

    /// Weights that are all 0.
    #[error("weights add up to nothing: expected at least one above 0, got {rows} zeros")]
    NoWeight {
        /// The number of contributors.
        rows: usize,
    },

    /// A trim that keeps no value.
    #[error(
        "trim leaves nothing: expected at most {most} of {rows} contributors on each side, got {trim}"
    )]
    Trim {
        /// The number of contributors.
        rows: usize,
        /// The largest possible trim.
        most: usize,
        /// The requested trim.
        trim: usize,
    },
}

impl Reason for Refusal {}

impl From<Refusal> for CoreError {
    fn from(refusal: Refusal) -> Self {
        Self::Aggregate(Box::new(refusal))
    }
}
