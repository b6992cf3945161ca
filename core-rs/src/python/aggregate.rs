//! Combines many contributions.

use pyo3::{buffer::PyBuffer, prelude::*};

use super::{
    buffers::{Held, addresses, borrow, borrow_mut},
    machine::chosen,
    threads::run_on,
};
use crate::{
    aggregate::{Packed, dense, hamming, signed, votes, weighted},
    error::CoreError,
};

/// How to run: instruction set and number of threads.
pub(super) type How = (Option<String>, Option<usize>);

/// Borrows the rows, and calls `work` with them.
fn with_rows<T: Send>(
    py: Python<'_>,
    rows: &[PyBuffer<u8>],
    cols: usize,
    threads: Option<usize>,
    work: impl FnOnce(Packed<'_>) -> Result<T, CoreError> + Send,
) -> PyResult<T> {
    let rows = rows.iter().map(borrow).collect::<PyResult<Vec<_>>>()?;
    run_on(py, threads, || work(Packed::new(&rows, cols)?))
}

/// Adds the Hamming distances of all pairs of rows to `total`.
#[pyfunction]
pub(super) fn add_hamming(
    py: Python<'_>,
    rows: Vec<PyBuffer<u8>>,
    cols: usize,
    mut total: PyBuffer<u64>,
    how: How,
) -> PyResult<()> {
    let isa = chosen(how.0.as_deref())?;
    let used: Vec<_> = rows.iter().map(addresses).collect();
    let total = borrow_mut(&mut total, &used)?;
    with_rows(py, &rows, cols, how.1, |packed| {
        hamming::add_hamming(isa, packed, total)
    })
}

/// Writes the bit that most rows have in each column.
#[pyfunction]
pub(super) fn majority(
    py: Python<'_>,
    rows: Vec<PyBuffer<u8>>,
    cols: usize,
    mut bits: PyBuffer<u8>,
    how: How,
) -> PyResult<()> {
    let isa = chosen(how.0.as_deref())?;
    let used: Vec<_> = rows.iter().map(addresses).collect();
    let bits = borrow_mut(&mut bits, &used)?;
    with_rows(py, &rows, cols, how.1, |packed| {
        votes::majority(isa, packed, bits)
    })
}

/// Writes the weighted mean of sign times scale.
#[pyfunction]
pub(super) fn sign_mean(
    py: Python<'_>,
    rows: Vec<PyBuffer<u8>>,
    cols: usize,
    scales: PyBuffer<f32>,
    weights: PyBuffer<f32>,
    mut means: PyBuffer<f32>,
    how: How,
) -> PyResult<()> {
    let isa = chosen(how.0.as_deref())?;
    let mut used: Vec<_> = rows.iter().map(addresses).collect();
    used.extend([addresses(&scales), addresses(&weights)]);
    let means = borrow_mut(&mut means, &used)?;
    let (scales, weights) = (borrow(&scales)?, borrow(&weights)?);
    with_rows(py, &rows, cols, how.1, |packed| {
        signed::mean(isa, packed, scales, weights, means)
    })
}

/// Writes the trimmed mean of rows of floats.
#[pyfunction]
pub(super) fn trimmed_mean(
    py: Python<'_>,
    rows: Vec<Bound<'_, PyAny>>,
    dtype: &str,
    trim: usize,
    mut means: PyBuffer<f32>,
    how: How,
) -> PyResult<()> {
    let isa = chosen(how.0.as_deref())?;
    let held = rows.iter().map(|row| Held::new(row, dtype));
    let held = held.collect::<PyResult<Vec<_>>>()?;
    let used: Vec<_> = held.iter().map(Held::addresses).collect();
    let means = borrow_mut(&mut means, &used)?;
    let rows = held
        .iter()
        .map(Held::weights)
        .collect::<PyResult<Vec<_>>>()?;
    run_on(py, how.1, || dense::trimmed_mean(isa, &rows, trim, means))
}

/// Writes the mean of the values around the median of rows of floats.
#[pyfunction]
pub(super) fn near_median(
    py: Python<'_>,
    rows: Vec<Bound<'_, PyAny>>,
    dtype: &str,
    keep: usize,
    mut means: PyBuffer<f32>,
    how: How,
) -> PyResult<()> {
    let isa = chosen(how.0.as_deref())?;
    let held = rows.iter().map(|row| Held::new(row, dtype));
    let held = held.collect::<PyResult<Vec<_>>>()?;
    let used: Vec<_> = held.iter().map(Held::addresses).collect();
    let means = borrow_mut(&mut means, &used)?;
    let rows = held.iter().map(Held::weights);
    let rows = rows.collect::<PyResult<Vec<_>>>()?;
    run_on(py, how.1, || dense::near_median(isa, &rows, keep, means))
}

/// Writes the weighted mean of rows of floats.
#[pyfunction]
pub(super) fn weighted_mean(
    py: Python<'_>,
    rows: Vec<Bound<'_, PyAny>>,
    dtype: &str,
    weights: PyBuffer<f32>,
    mut means: PyBuffer<f32>,
    how: How,
) -> PyResult<()> {
    let isa = chosen(how.0.as_deref())?;
    let held = rows.iter().map(|row| Held::new(row, dtype));
    let held = held.collect::<PyResult<Vec<_>>>()?;
    let mut used: Vec<_> = held.iter().map(Held::addresses).collect();
    used.push(addresses(&weights));
    let means = borrow_mut(&mut means, &used)?;
    let weights = borrow(&weights)?.to_vec();
    let rows = held.iter().map(Held::weights);
    let rows = rows.collect::<PyResult<Vec<_>>>()?;
    run_on(py, how.1, || weighted::mean(isa, &rows, &weights, means))
}

/// Compares pairs of bits on registers alone, `steps` times the kernel's step; returns how many.
#[pyfunction]
pub(super) fn popcount_registers(
    py: Python<'_>,
    steps: usize,
    isa: Option<&str>,
) -> PyResult<usize> {
    let isa = chosen(isa)?;
    run_on(py, Some(1), || Ok(hamming::registers(isa, steps)))
}
