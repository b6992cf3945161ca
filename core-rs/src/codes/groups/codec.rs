//! The codecs, and how many digits and scales each has.

use crate::weights::BLOCK;

/// Values along a row that share a scale.
pub const GROUP: usize = 128;

/// How a value becomes a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// One bit.
    Sign,
    /// Minus, nothing or plus.
    Ternary,
    /// Two bits, none of them for zero.
    Int2,
    /// Four bits.
    Int4,
    /// Eight bits.
    Int8,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Sign,
        Self::Ternary,
        Self::Int2,
        Self::Int4,
        Self::Int8,
    ];

    /// Its name: `sign`, `ternary`, `int2`, `int4`, `int8`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sign => "sign",
            Self::Ternary => "ternary",
            Self::Int2 => "int2",
            Self::Int4 => "int4",
            Self::Int8 => "int8",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Digits in a byte.
    #[must_use]
    pub fn per_byte(self) -> usize {
        match self {
            Self::Sign => 8,
            Self::Ternary => 5,
            Self::Int2 => 4,
            Self::Int4 => 2,
            Self::Int8 => 1,
        }
    }

    /// Bytes that a row of `cols` digits takes.
    #[must_use]
    pub fn row_bytes(self, cols: usize) -> usize {
        cols.div_ceil(self.per_byte())
    }

    /// Values handled at once: whole groups and whole bytes, within [`BLOCK`].
    pub(super) fn block(self) -> usize {
        let shared = GROUP * if self == Self::Ternary { 5 } else { 1 };
        BLOCK / shared * shared
    }
}
