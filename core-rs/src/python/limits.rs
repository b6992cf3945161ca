//! The memory bandwidth of the machine.

use pyo3::{buffer::PyBuffer, prelude::*};

use super::{
    buffers::{borrow, borrow_mut},
    machine::chosen,
    threads::run_on,
};
use crate::limits;

/// Reads two streams and returns the exclusive or of their words.
#[pyfunction]
#[pyo3(signature = (first, second, isa, threads))]
pub(super) fn limit_read(
    py: Python<'_>,
    first: PyBuffer<u8>,
    second: PyBuffer<u8>,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<u64> {
    let isa = chosen(isa)?;
    let (first, second) = (borrow(&first)?, borrow(&second)?);
    run_on(py, threads, || limits::read(first, second, isa))
}

/// Flips every bit, in place.
#[pyfunction]
#[pyo3(signature = (data, isa, threads))]
pub(super) fn limit_in_place(
    py: Python<'_>,
    mut data: PyBuffer<u8>,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let isa = chosen(isa)?;
    let data = borrow_mut(&mut data, &[])?;
    run_on(py, threads, || limits::in_place(data, isa))
}
