//! Discrete Gaussian noise.

use pyo3::{buffer::PyBuffer, exceptions::PyValueError, prelude::*};

use super::{buffers::borrow_mut, threads::run_on};
use crate::noise::{self, KEY_BYTES, MOST_SIGMA};

/// Fills an array with noise of a key.
#[pyfunction]
#[pyo3(signature = (values, sigma, key, threads))]
pub(super) fn discrete_gaussian(
    py: Python<'_>,
    mut values: PyBuffer<i64>,
    sigma: u64,
    key: [u8; KEY_BYTES],
    threads: Option<usize>,
) -> PyResult<()> {
    if !(1..=MOST_SIGMA).contains(&sigma) {
        let said = format!("sigma: expected 1 to {MOST_SIGMA}, got {sigma}");
        return Err(PyValueError::new_err(said));
    }
    let values = borrow_mut(&mut values, &[])?;
    run_on(py, threads, || {
        noise::discrete_gaussian(values, sigma, &key)
    })
}
