//! Signs of a difference.

use pyo3::{buffer::PyBuffer, exceptions::PyValueError, prelude::*};

use super::{
    buffers::{Held, addresses, borrow, borrow_mut},
    machine::chosen,
    threads::run_on,
};
use crate::signs::{self, Axis, Planes, PlanesMut};

/// A matrix of weights and the name of its type.
type PyWeights<'py> = (Bound<'py, PyAny>, String);

/// Which values share a scale, by its name and the size of a group.
fn axis(name: &str, group: usize) -> PyResult<Axis> {
    match name {
        "matrix" => Ok(Axis::Matrix),
        "row" => Ok(Axis::Row),
        "column" => Ok(Axis::Column),
        "group" => Ok(Axis::Group(group)),
        _ => Err(PyValueError::new_err(format!(
            "unknown scale: expected 'matrix', 'row', 'column' or 'group', got '{name}'"
        ))),
    }
}

/// Packs the signs of `tuned - base`, with a mask of the nonzero where there is room for one.
#[pyfunction]
#[pyo3(signature = (base, tuned, cols, scale, bits, scales, mask, isa, threads))]
#[allow(clippy::too_many_arguments)] // each is one of Python's
pub(super) fn pack_signs(
    py: Python<'_>,
    base: PyWeights<'_>,
    tuned: PyWeights<'_>,
    cols: usize,
    scale: (String, usize),
    mut bits: PyBuffer<u8>,
    mut scales: PyBuffer<f32>,
    mut mask: Option<PyBuffer<u8>>,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let (axis, isa) = (axis(&scale.0, scale.1)?, chosen(isa)?);
    let (base, tuned) = (Held::new(&base.0, &base.1)?, Held::new(&tuned.0, &tuned.1)?);
    let read = [
        base.addresses(),
        tuned.addresses(),
        addresses(&scales),
        addresses(&bits),
    ];
    let mask = mask
        .as_mut()
        .map(|mask| borrow_mut(mask, &read))
        .transpose()?;
    let bits = borrow_mut(&mut bits, &read[..3])?;
    let scales = borrow_mut(&mut scales, &read[..2])?;
    let (base, tuned) = (base.weights()?, tuned.weights()?);
    let planes = PlanesMut { bits, mask };
    run_on(py, threads, || {
        signs::pack_signs(base, tuned, cols, axis, planes, scales, isa)
    })
}

/// Writes +1 and -1 for the bits, 0 where the mask has a 0.
#[pyfunction]
#[pyo3(signature = (bits, mask, cols, signs, isa, threads))]
pub(super) fn unpack_signs(
    py: Python<'_>,
    bits: PyBuffer<u8>,
    mask: Option<PyBuffer<u8>>,
    cols: usize,
    mut signs: PyBuffer<f32>,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let isa = chosen(isa)?;
    let mut read = vec![addresses(&bits)];
    read.extend(mask.as_ref().map(addresses));
    let signs = borrow_mut(&mut signs, &read)?;
    let planes = planes(&bits, mask.as_ref())?;
    run_on(py, threads, || {
        signs::unpack_signs(planes, cols, signs, isa)
    })
}

/// Adds sign times scale to the weights, in place.
#[pyfunction]
#[pyo3(signature = (weights, cols, scale, bits, scales, mask, isa, threads))]
#[allow(clippy::too_many_arguments)] // each is one of Python's
pub(super) fn apply_signs(
    py: Python<'_>,
    weights: PyWeights<'_>,
    cols: usize,
    scale: (String, usize),
    bits: PyBuffer<u8>,
    scales: PyBuffer<f32>,
    mask: Option<PyBuffer<u8>>,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let (axis, isa) = (axis(&scale.0, scale.1)?, chosen(isa)?);
    let mut weights = Held::new(&weights.0, &weights.1)?;
    let mut read = vec![addresses(&bits), addresses(&scales)];
    read.extend(mask.as_ref().map(addresses));
    let weights = weights.weights_mut(&read)?;
    let (planes, scales) = (planes(&bits, mask.as_ref())?, borrow(&scales)?);
    run_on(py, threads, || {
        signs::apply_signs(weights, cols, axis, planes, scales, isa)
    })
}

fn planes<'a>(bits: &'a PyBuffer<u8>, mask: Option<&'a PyBuffer<u8>>) -> PyResult<Planes<'a>> {
    let mask = mask.map(borrow).transpose()?;
    Ok(Planes {
        bits: borrow(bits)?,
        mask,
    })
}
