//! Signs of a difference.

use pyo3::{buffer::PyBuffer, prelude::*};

use super::{
    buffers::{Held, addresses, borrow, borrow_mut},
    run,
};
use crate::signs;

/// Packs the signs of `tuned - base`; one scale for each row, or one where `scales` has one entry.
#[pyfunction]
pub(super) fn pack_signs(
    py: Python<'_>,
    base: (Bound<'_, PyAny>, String),
    tuned: (Bound<'_, PyAny>, String),
    cols: usize,
    mut bits: PyBuffer<u8>,
    mut scales: PyBuffer<f32>,
) -> PyResult<()> {
    let (base, tuned) = (Held::new(&base.0, &base.1)?, Held::new(&tuned.0, &tuned.1)?);
    let read = [base.addresses(), tuned.addresses(), addresses(&scales)];
    let bits = borrow_mut(&mut bits, &read)?;
    let scales = borrow_mut(&mut scales, &read[..2])?;
    let (base, tuned) = (base.weights()?, tuned.weights()?);
    run(py, || signs::pack_signs(base, tuned, cols, bits, scales))
}

/// Writes +1 and -1 for the bits.
#[pyfunction]
pub(super) fn unpack_signs(
    py: Python<'_>,
    bits: PyBuffer<u8>,
    cols: usize,
    mut signs: PyBuffer<f32>,
) -> PyResult<()> {
    let signs = borrow_mut(&mut signs, &[addresses(&bits)])?;
    let bits = borrow(&bits)?;
    run(py, || signs::unpack_signs(bits, cols, signs))
}

/// Adds sign times scale to the weights, in place.
#[pyfunction]
pub(super) fn apply_signs(
    py: Python<'_>,
    weights: (Bound<'_, PyAny>, String),
    cols: usize,
    bits: PyBuffer<u8>,
    scales: PyBuffer<f32>,
) -> PyResult<()> {
    let mut weights = Held::new(&weights.0, &weights.1)?;
    let weights = weights.weights_mut(&[addresses(&bits), addresses(&scales)])?;
    let (bits, scales) = (borrow(&bits)?, borrow(&scales)?);
    run(py, || signs::apply_signs(weights, cols, bits, scales))
}
