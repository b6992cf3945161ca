//! Gram matrices and the rules on them. An exact sum is two numbers of 64 bits, the lower one first.

use pyo3::{buffer::PyBuffer, prelude::*};

use super::{
    aggregate::How,
    buffers::{Held, addresses, borrow, borrow_mut},
    machine::chosen,
    threads::run_on,
};
use crate::gram::{
    floats,
    lowrank::{self, Factors},
    mixing, selection, signs, whole,
};

/// Adds the scalar products of all pairs of rows of floats.
#[pyfunction]
pub(super) fn add_float_gram(
    py: Python<'_>,
    rows: Vec<Bound<'_, PyAny>>,
    dtype: &str,
    mut total: PyBuffer<u64>,
    how: How,
) -> PyResult<()> {
    let isa = chosen(how.0.as_deref())?;
    let held = rows.iter().map(|row| Held::new(row, dtype));
    let held = held.collect::<PyResult<Vec<_>>>()?;
    let used: Vec<_> = held.iter().map(Held::addresses).collect();
    let total = borrow_mut(&mut total, &used)?.as_chunks_mut().0;
    let rows = held.iter().map(Held::weights);
    let rows = rows.collect::<PyResult<Vec<_>>>()?;
    run_on(py, how.1, || floats::add_floats(isa, &rows, total))
}

/// Adds the scalar products of signs with scales, from their Hamming distances.
#[pyfunction]
pub(super) fn add_sign_gram(
    py: Python<'_>,
    hamming: PyBuffer<u64>,
    cols: u64,
    scales: PyBuffer<f32>,
    mut total: PyBuffer<u64>,
) -> PyResult<()> {
    let used = [addresses(&hamming), addresses(&scales)];
    let total = borrow_mut(&mut total, &used)?.as_chunks_mut().0;
    let (hamming, scales) = (borrow(&hamming)?, borrow(&scales)?.to_vec());
    run_on(py, Some(1), || {
        signs::add_signs(hamming, cols, &scales, total)
    })
}

/// Adds the scalar products of low-rank contributions.
#[pyfunction]
pub(super) fn add_lowrank_gram(
    py: Python<'_>,
    a: Vec<PyBuffer<f32>>,
    b: Vec<PyBuffer<f32>>,
    sides: (usize, usize),
    mut total: PyBuffer<u64>,
    threads: Option<usize>,
) -> PyResult<()> {
    let used: Vec<_> = a.iter().chain(&b).map(addresses).collect();
    let total = borrow_mut(&mut total, &used)?.as_chunks_mut().0;
    let a = a.iter().map(borrow).collect::<PyResult<Vec<_>>>()?;
    let b = b.iter().map(borrow).collect::<PyResult<Vec<_>>>()?;
    let rows: Vec<_> = a
        .into_iter()
        .zip(b)
        .map(|(a, b)| Factors { a, b })
        .collect();
    run_on(py, threads, || lowrank::add_lowrank(&rows, sides, total))
}

/// Rounds a Gram matrix to 64 bits; returns the power of two that it was divided by.
#[pyfunction]
pub(super) fn whole_gram(
    py: Python<'_>,
    exact: PyBuffer<u64>,
    count: usize,
    mut whole: PyBuffer<i64>,
) -> PyResult<u32> {
    let whole = borrow_mut(&mut whole, &[addresses(&exact)])?;
    let exact = borrow(&exact)?.as_chunks().0;
    run_on(py, Some(1), || whole::to_whole(exact, count, whole))
}

/// Writes which contributors are the nearest of each.
#[pyfunction]
pub(super) fn nearest(
    py: Python<'_>,
    gram: PyBuffer<i64>,
    sizes: (usize, usize),
    mut chosen: PyBuffer<u8>,
    threads: Option<usize>,
) -> PyResult<()> {
    let chosen = borrow_mut(&mut chosen, &[addresses(&gram)])?;
    let gram = borrow(&gram)?;
    run_on(py, threads, || {
        mixing::nearest(gram, sizes.0, sizes.1, chosen)
    })
}

/// Writes the Gram matrix of the mixed contributions.
#[pyfunction]
pub(super) fn mix_gram(
    py: Python<'_>,
    gram: PyBuffer<i64>,
    chosen: PyBuffer<u8>,
    count: usize,
    mut mixed: PyBuffer<i64>,
    how: How,
) -> PyResult<()> {
    let isa = super::machine::chosen(how.0.as_deref())?;
    let mixed = borrow_mut(&mut mixed, &[addresses(&gram), addresses(&chosen)])?;
    let (gram, chosen) = (borrow(&gram)?, borrow(&chosen)?);
    run_on(py, how.1, || mixing::mix(isa, gram, chosen, count, mixed))
}

/// Writes the order in which Krum, or with `one_by_one` Bulyan, prefers the contributors.
#[pyfunction]
#[pyo3(signature = (gram, sizes, order, threads, *, one_by_one))]
pub(super) fn krum_order(
    py: Python<'_>,
    gram: PyBuffer<i64>,
    sizes: (usize, usize),
    mut order: PyBuffer<u64>,
    threads: Option<usize>,
    one_by_one: bool,
) -> PyResult<()> {
    let order = borrow_mut(&mut order, &[addresses(&gram)])?;
    let (gram, (count, number)) = (borrow(&gram)?, sizes);
    run_on(py, threads, || {
        if one_by_one {
            selection::bulyan_order(gram, count, number, order)
        } else {
            selection::krum_order(gram, count, number, order)
        }
    })
}
