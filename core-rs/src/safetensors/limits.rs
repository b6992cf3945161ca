//! Limits on the content of a file.

/// The longest header that is read; the format's own library has the same limit.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The most tensors of one file; published checkpoints have some thousands.
pub const MAX_TENSORS: usize = 1 << 18;

/// The longest metadata, as written.
pub const MAX_METADATA_BYTES: usize = 16_000_000;

/// The most entries of the metadata.
pub const MAX_METADATA_ENTRIES: usize = 1 << 14;

/// The longest name of a tensor or of a key of the metadata, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// The most dimensions of a tensor, as of a `NumPy` array.
pub const MAX_DIMENSIONS: usize = 64;
