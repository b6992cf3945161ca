//! Values as codes of few bits.

use half::slice::HalfBitsSliceExt;
use pyo3::{buffer::PyBuffer, exceptions::PyValueError, prelude::*};

use super::{
    buffers::{Held, addresses, borrow, borrow_mut},
    machine::chosen,
    threads::run_on,
};
use crate::codes::{
    self, Codes, CodesMut,
    groups::{self, Codec},
    product,
};

/// Packs values into two-bit codes; `scales` contains float16 as unsigned integers.
#[pyfunction]
pub(super) fn pack_codes2(
    py: Python<'_>,
    values: PyBuffer<f32>,
    cols: usize,
    group: usize,
    mut codes: PyBuffer<u8>,
    mut scales: PyBuffer<u16>,
    mut zeros: PyBuffer<u8>,
) -> PyResult<()> {
    let used = [addresses(&values), addresses(&scales), addresses(&zeros)];
    let codes = borrow_mut(&mut codes, &used)?;
    let scales = borrow_mut(&mut scales, &[used[0].clone(), used[2].clone()])?;
    let out = CodesMut {
        codes,
        scales: scales.reinterpret_cast_mut(),
        zeros: borrow_mut(&mut zeros, &used[..1])?,
    };
    let values = borrow(&values)?;
    run_on(py, None, || codes::pack_codes2(values, cols, group, out))
}

/// Reads values back from two-bit codes.
#[pyfunction]
pub(super) fn unpack_codes2(
    py: Python<'_>,
    codes: PyBuffer<u8>,
    scales: PyBuffer<u16>,
    zeros: PyBuffer<u8>,
    cols: usize,
    group: usize,
    mut values: PyBuffer<f32>,
) -> PyResult<()> {
    let used = [addresses(&codes), addresses(&scales), addresses(&zeros)];
    let values = borrow_mut(&mut values, &used)?;
    let packed = Codes {
        codes: borrow(&codes)?,
        scales: borrow(&scales)?.reinterpret_cast(),
        zeros: borrow(&zeros)?,
    };
    run_on(py, None, || {
        codes::unpack_codes2(packed, cols, group, values)
    })
}

fn codec_named(name: &str) -> PyResult<Codec> {
    Codec::named(name).ok_or_else(|| {
        let known = Codec::ALL.map(Codec::name).join("', '");
        PyValueError::new_err(format!(
            "unknown codec: expected one of '{known}', got '{name}'"
        ))
    })
}

/// Packs a matrix, or its difference to a base, into digits; `scales` contains float16 as integers.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // one for each buffer
pub(super) fn pack_groups(
    py: Python<'_>,
    kind: &str,
    base: Option<(Bound<'_, PyAny>, String)>,
    tuned: (Bound<'_, PyAny>, String),
    cols: usize,
    mut codes: PyBuffer<u8>,
    mut scales: PyBuffer<u16>,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let (kind, isa) = (codec_named(kind)?, chosen(isa)?);
    let base = base
        .map(|(array, dtype)| Held::new(&array, &dtype))
        .transpose()?;
    let tuned = Held::new(&tuned.0, &tuned.1)?;
    let mut read = vec![tuned.addresses()];
    read.extend(base.as_ref().map(Held::addresses));
    let scales = borrow_mut(&mut scales, &read)?.reinterpret_cast_mut();
    let own = scales.as_ptr() as usize;
    read.push(own..own + size_of_val(scales));
    let codes = borrow_mut(&mut codes, &read)?;
    let base = base.as_ref().map(Held::weights).transpose()?;
    let tuned = tuned.weights()?;
    run_on(py, threads, || {
        groups::pack_groups(kind, base, tuned, cols, codes, scales, isa)
    })
}

/// Adds decoded digits to the weights, in place.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // one for each buffer
pub(super) fn apply_groups(
    py: Python<'_>,
    kind: &str,
    weights: (Bound<'_, PyAny>, String),
    cols: usize,
    codes: PyBuffer<u8>,
    scales: PyBuffer<u16>,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let (kind, isa) = (codec_named(kind)?, chosen(isa)?);
    let mut weights = Held::new(&weights.0, &weights.1)?;
    let weights = weights.weights_mut(&[addresses(&codes), addresses(&scales)])?;
    let (codes, scales) = (borrow(&codes)?, borrow(&scales)?.reinterpret_cast());
    run_on(py, threads, || {
        groups::apply_groups(kind, weights, cols, codes, scales, isa)
    })
}

/// Adds the product of two factors to a matrix, in place.
#[pyfunction]
pub(super) fn add_product(
    py: Python<'_>,
    a: PyBuffer<f32>,
    b: PyBuffer<f32>,
    cols: usize,
    mut total: PyBuffer<f32>,
    isa: Option<&str>,
    threads: Option<usize>,
) -> PyResult<()> {
    let isa = chosen(isa)?;
    let total = borrow_mut(&mut total, &[addresses(&a), addresses(&b)])?;
    let (a, b) = (borrow(&a)?, borrow(&b)?);
    run_on(py, threads, || product::add_product(a, b, cols, total, isa))
}
