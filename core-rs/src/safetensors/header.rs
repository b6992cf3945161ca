//! The header of a file and its tensors.

use std::collections::BTreeMap;

use super::dtype::DType;

/// A tensor according to the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub dtype: DType,
    /// Its shape; empty for a scalar.
    pub shape: Vec<u64>,
    /// Its first byte, counted from the start of the file.
    pub start: u64,
    /// One past its last byte.
    pub stop: u64,
}

/// The header of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The tensors in the order of their bytes; those without bytes by name.
    pub tensors: Vec<TensorInfo>,
    /// Free text by key.
    pub metadata: BTreeMap<String, String>,
}
