//! How ggml stores values: in blocks with a fixed number of values and bytes.

/// A storage type of ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgmlType {
    /// Its number in the file.
    pub code: u32,
    /// Its name.
    pub name: &'static str,
    /// Values of one block.
    pub block_values: u64,
    /// Bytes of one block.
    pub block_bytes: u64,
}

const fn of(code: u32, name: &'static str, block_values: u64, block_bytes: u64) -> GgmlType {
    GgmlType {
        code,
        name,
        block_values,
        block_bytes,
    }
}

/// Numbers, names and sizes as the `gguf` package 0.19.0 has them (`GGML_QUANT_SIZES`); a test compares
/// them. `Q8_1` (9) is omitted: no file contains it, and that package and ggml disagree about its size.
const TABLE: [GgmlType; 33] = [
    of(0, "F32", 1, 4),
    of(1, "F16", 1, 2),
    of(2, "Q4_0", 32, 18),
    of(3, "Q4_1", 32, 20),
    of(6, "Q5_0", 32, 22),
    of(7, "Q5_1", 32, 24),
    of(8, "Q8_0", 32, 34),
    of(10, "Q2_K", 256, 84),
    of(11, "Q3_K", 256, 110),
    of(12, "Q4_K", 256, 144),
    of(13, "Q5_K", 256, 176),
    of(14, "Q6_K", 256, 210),
    of(15, "Q8_K", 256, 292),
    of(16, "IQ2_XXS", 256, 66),
    of(17, "IQ2_XS", 256, 74),
    of(18, "IQ3_XXS", 256, 98),
    of(19, "IQ1_S", 256, 50),
    of(20, "IQ4_NL", 32, 18),
    of(21, "IQ3_S", 256, 110),
    of(22, "IQ2_S", 256, 82),
    of(23, "IQ4_XS", 256, 136),
    of(24, "I8", 1, 1),
    of(25, "I16", 1, 2),
    of(26, "I32", 1, 4),
    of(27, "I64", 1, 8),
    of(28, "F64", 1, 8),
    of(29, "IQ1_M", 256, 56),
    of(30, "BF16", 1, 2),
    of(34, "TQ1_0", 256, 54),
    of(35, "TQ2_0", 256, 66),
    of(39, "MXFP4", 32, 17),
    of(40, "NVFP4", 64, 36),
    of(41, "Q1_0", 128, 18),
];

impl GgmlType {
    /// The type of this number.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        TABLE.into_iter().find(|kind| kind.code == code)
    }

    /// Bytes of a tensor of these dimensions, the contiguous one first; `None` if they overflow or the
    /// first is not a multiple of the block size.
    #[must_use]
    pub fn bytes(self, dimensions: &[u64]) -> Option<u64> {
        let row = dimensions.first().copied().unwrap_or(1);
        if !row.is_multiple_of(self.block_values) {
            return None;
        }
        if dimensions.contains(&0) {
            return Some(0);
        }
        // As whole values first: ggml counts them in 63 bits.
        let values = dimensions.iter().try_fold(1u64, |product, size| {
            product
                .checked_mul(*size)
                .filter(|values| i64::try_from(*values).is_ok())
        })?;
        (values / self.block_values).checked_mul(self.block_bytes)
    }
}
