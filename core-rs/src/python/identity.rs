//! The identity of a base, taken tensor by tensor.

use pyo3::{buffer::PyBuffer, prelude::*};

use super::{buffers::borrow, threads::run_on};
use crate::{digest::bytes_digest, identity::IdentityHasher};

/// BLAKE3 of bytes in memory, as 64 hexadecimal digits.
#[pyfunction]
pub(super) fn digest(py: Python<'_>, data: PyBuffer<u8>) -> PyResult<String> {
    let bytes = borrow(&data)?;
    run_on(py, None, || Ok(bytes_digest(bytes)))
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
        run_on(py, None, || self.0.add(name, dtype, &shape, bytes))
    }

    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        run_on(py, Some(1), || self.0.finish())
    }
}
