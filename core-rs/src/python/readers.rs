//! Files: headers and digests.

use std::{collections::BTreeMap, path::PathBuf};

use pyo3::{buffer::PyBuffer, prelude::*};

use super::{buffers::borrow, run};
use crate::{
    digest,
    identity::{self, IdentityHasher},
    safetensors,
};

/// Name, dtype, shape, first byte, one past the last byte.
type PyTensor = (String, &'static str, Vec<u64>, u64, u64);

/// The tensors of a safetensors file in the order of their bytes, and its metadata.
#[pyfunction]
pub(super) fn read_header(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(Vec<PyTensor>, BTreeMap<String, String>)> {
    let header = run(py, || safetensors::read_header(&path))?;
    let tensors = header.tensors.into_iter();
    let tensors = tensors.map(|t| (t.name, t.dtype.name, t.shape, t.start, t.stop));
    Ok((tensors.collect(), header.metadata))
}

/// BLAKE3 over the named tensors, as 64 hexadecimal digits.
#[pyfunction]
pub(super) fn base_identity(
    py: Python<'_>,
    files: Vec<PathBuf>,
    names: Vec<String>,
) -> PyResult<String> {
    run(py, || identity::base_identity(&files, &names))
}

/// BLAKE3 of a file with some bytes read as ASCII `0`, as 64 hexadecimal digits.
#[pyfunction]
pub(super) fn file_digest(
    py: Python<'_>,
    path: PathBuf,
    zero_at: u64,
    zero_len: u64,
) -> PyResult<String> {
    run(py, || digest::file_digest(&path, zero_at, zero_len))
}

/// `base_identity` over tensors that are given one by one.
#[pyclass(name = "IdentityHasher", module = "zoo.core._core")]
pub(super) struct PyIdentityHasher(IdentityHasher);

#[pymethods]
impl PyIdentityHasher {
    #[new]
    fn new() -> Self {
        Self(IdentityHasher::default())
    }

    fn add(
        &mut self,
        py: Python<'_>,
        name: &str,
        dtype: &str,
        shape: Vec<u64>,
        data: PyBuffer<u8>,
    ) -> PyResult<()> {
        let bytes = borrow(&data)?;
        run(py, || self.0.add(name, dtype, &shape, bytes))
    }

    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || self.0.finish())
    }
}
