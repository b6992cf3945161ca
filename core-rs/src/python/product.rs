//! A matrix of signs, or of bf16 weights, times tokens.

use half::slice::HalfBitsSliceExt;
use pyo3::{buffer::PyBuffer, prelude::*};

use super::{
    buffers::{addresses, borrow, borrow_mut},
    machine::chosen,
    threads::{if_worth, run_on},
};
use crate::product::{How, Method, Signs, dense, multiply, registers};

/// Bytes of bits, once for each token, from which threads share a product: it takes 0.2 ms of one.
const SHARED_BITS: usize = 1 << 20;
/// The same, of bf16 weights.
const SHARED_WEIGHTS: usize = 4 << 20;

/// Writes, or adds, the product of every token with every row of signs.
#[pyfunction]
#[pyo3(signature = (x, bits, scales, cols, y, *, exact, add, isa=None, threads=None))]
#[allow(clippy::too_many_arguments)] // as Python's face needs them
pub(super) fn sign_product(
    py: Python<'_>,
    x: PyBuffer<f32>,
    bits: PyBuffer<u8>,
    scales: PyBuffer<f32>,
    cols: usize,
    mut y: PyBuffer<f32>,
    exact: bool,
    add: bool,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let method = if exact { Method::Exact } else { Method::Int8 };
    let isa = chosen(isa)?;
    let how = How { isa, method, add };
    let used = [addresses(&x), addresses(&bits), addresses(&scales)];
    let y = borrow_mut(&mut y, &used)?;
    let (x, bits, scales) = (borrow(&x)?, borrow(&bits)?, borrow(&scales)?);
    let signs = Signs { bits, scales, cols };
    let tokens = x.len().div_ceil(cols.max(1));
    let threads = if_worth(threads, bits.len().saturating_mul(tokens), SHARED_BITS)?;
    run_on(py, threads, || multiply(how, x, signs, y))
}

/// Writes the product of each token with every row of bf16 weights, given as unsigned integers.
#[pyfunction]
#[pyo3(signature = (x, weights, y, tokens, *, isa=None, threads=None))]
pub(super) fn dense_product(
    py: Python<'_>,
    x: PyBuffer<f32>,
    weights: PyBuffer<u16>,
    mut y: PyBuffer<f32>,
    tokens: usize,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let isa = chosen(isa)?;
    let y = borrow_mut(&mut y, &[addresses(&x), addresses(&weights)])?;
    let (x, weights) = (borrow(&x)?, borrow(&weights)?.reinterpret_cast());
    let read = size_of_val(weights).saturating_mul(tokens);
    let threads = if_worth(threads, read, SHARED_WEIGHTS)?;
    run_on(py, threads, || {
        dense::multiply_dense(isa, weights, x, y, tokens)
    })
}

/// Multiplies signs that stay in the first cache, `steps` blocks of them; returns how many signs.
#[pyfunction]
#[pyo3(signature = (steps, *, exact, isa))]
pub(super) fn product_registers(
    py: Python<'_>,
    steps: usize,
    exact: bool,
    isa: Option<&str>,
) -> PyResult<usize> {
    let isa = chosen(isa)?;
    let method = if exact { Method::Exact } else { Method::Int8 };
    run_on(py, Some(1), || Ok(registers(isa, method, steps)))
}
