//! Values as codes of few bits.

use half::slice::HalfBitsSliceExt;
use pyo3::{buffer::PyBuffer, prelude::*};

use super::{
    buffers::{addresses, borrow, borrow_mut},
    run,
};
use crate::codes::{self, Codes, CodesMut};

/// Packs values into two-bit codes; `scales` holds float16 as unsigned integers.
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
    run(py, || codes::pack_codes2(values, cols, group, out))
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
    run(py, || codes::unpack_codes2(packed, cols, group, values))
}
