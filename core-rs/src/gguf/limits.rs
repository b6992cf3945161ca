//! Limits on the content of a file.

/// The longest header that is read; a vocabulary of 262,144 pieces takes some 16 million.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The most pairs of the metadata.
pub const MAX_PAIRS: u64 = 1 << 14;

/// The most tensors.
pub const MAX_TENSORS: u64 = 1 << 16;

/// The most strings in arrays, all arrays together.
pub const MAX_STRINGS: u64 = 1 << 21;

/// The maximum number of nested arrays.
pub const MAX_ARRAYS: u64 = 1 << 14;

/// The maximum nesting depth of arrays.
pub const MAX_DEPTH: usize = 4;

/// The format's limit to a key.
pub const MAX_KEY_BYTES: u64 = 65_535;

/// The format's limit to a tensor's name.
pub const MAX_NAME_BYTES: u64 = 64;

/// ggml's limit to a tensor's dimensions.
pub const MAX_DIMENSIONS: u32 = 4;
