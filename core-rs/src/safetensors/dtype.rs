//! The types that a tensor's values can have.

/// The type of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DType {
    /// Its name in the header.
    pub name: &'static str,
    /// The size of one value.
    pub bits: u64,
}

const fn of(name: &'static str, bits: u64) -> DType {
    DType { name, bits }
}

/// Every type in the format's own library (0.8).
const TABLE: [DType; 22] = [
    of("BOOL", 8),
    of("F4", 4),
    of("F6_E2M3", 6),
    of("F6_E3M2", 6),
    of("U8", 8),
    of("I8", 8),
    of("F8_E5M2", 8),
    of("F8_E4M3", 8),
    of("F8_E8M0", 8),
    of("F8_E4M3FNUZ", 8),
    of("F8_E5M2FNUZ", 8),
    of("I16", 16),
    of("U16", 16),
    of("F16", 16),
    of("BF16", 16),
    of("I32", 32),
    of("U32", 32),
    of("F32", 32),
    of("C64", 64),
    of("F64", 64),
    of("I64", 64),
    of("U64", 64),
];

impl DType {
    /// The type of this name, in the header's spelling.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.into_iter().find(|dtype| dtype.name == name)
    }

    /// Its place in the table of types.
    pub(super) fn code(self) -> u8 {
        let place = TABLE.iter().position(|dtype| *dtype == self);
        place.and_then(|place| place.try_into().ok()).unwrap_or(0)
    }

    /// The type at a place in the table.
    pub(super) fn from_code(code: u8) -> Self {
        TABLE[usize::from(code).min(TABLE.len() - 1)]
    }

    /// Bytes of a tensor of this shape; none where they overflow or are no integer.
    #[must_use]
    pub fn bytes(self, shape: &[u64]) -> Option<u64> {
        // A zero first: the other dimensions may overflow without any harm.
        if shape.contains(&0) {
            return Some(0);
        }
        let bits = shape
            .iter()
            .try_fold(self.bits, |product, size| product.checked_mul(*size))?;
        (bits % 8 == 0).then_some(bits / 8)
    }
}
