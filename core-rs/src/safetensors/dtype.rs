//! The types that a tensor's values can have.

/// The type of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DType {
    /// Its name in the header.
    pub name: &'static str,
    /// The size of one value.
    pub bits: u64,
}

/// Every type that the format's own library (0.8) knows.
const TABLE: [DType; 22] = [
    DType {
        name: "BOOL",
        bits: 8,
    },
    DType {
        name: "F4",
        bits: 4,
    },
    DType {
        name: "F6_E2M3",
        bits: 6,
    },
    DType {
        name: "F6_E3M2",
        bits: 6,
    },
    DType {
        name: "U8",
        bits: 8,
    },
    DType {
        name: "I8",
        bits: 8,
    },
    DType {
        name: "F8_E5M2",
        bits: 8,
    },
    DType {
        name: "F8_E4M3",
        bits: 8,
    },
    DType {
        name: "F8_E8M0",
        bits: 8,
    },
    DType {
        name: "F8_E4M3FNUZ",
        bits: 8,
    },
    DType {
        name: "F8_E5M2FNUZ",
        bits: 8,
    },
    DType {
        name: "I16",
        bits: 16,
    },
    DType {
        name: "U16",
        bits: 16,
    },
    DType {
        name: "F16",
        bits: 16,
    },
    DType {
        name: "BF16",
        bits: 16,
    },
    DType {
        name: "I32",
        bits: 32,
    },
    DType {
        name: "U32",
        bits: 32,
    },
    DType {
        name: "F32",
        bits: 32,
    },
    DType {
        name: "C64",
        bits: 64,
    },
    DType {
        name: "F64",
        bits: 64,
    },
    DType {
        name: "I64",
        bits: 64,
    },
    DType {
        name: "U64",
        bits: 64,
    },
];

impl DType {
    /// The type of this name, in the header's spelling.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.into_iter().find(|dtype| dtype.name == name)
    }

    /// Bytes of a tensor of this shape; none where they overflow or are no whole number.
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
