//! Views of Python's buffers.

use std::{ops::Range, slice};

use half::{bf16, f16, slice::HalfBitsSliceExt};
use pyo3::{
    buffer::{Element, PyBuffer},
    exceptions::PyValueError,
    prelude::*,
};

use crate::weights::{Weights, WeightsMut};

fn check_contiguous<T: Element>(buffer: &PyBuffer<T>) -> PyResult<()> {
    if buffer.is_c_contiguous() {
        return Ok(());
    }
    Err(PyValueError::new_err(
        "buffer is not contiguous: expected contiguous memory, got strides",
    ))
}

/// A view of the buffer's values. Who writes to the array from another thread meanwhile gets an
/// undefined result, as with any array function.
pub(super) fn borrow<T: Element>(buffer: &PyBuffer<T>) -> PyResult<&[T]> {
    check_contiguous(buffer)?;
    if buffer.item_count() == 0 {
        return Ok(&[]);
    }
    // SAFETY: contiguous; PyBuffer checked type and alignment; the memory lives while `buffer` does.
    Ok(unsafe { slice::from_raw_parts(buffer.buf_ptr().cast::<T>(), buffer.item_count()) })
}

/// As `borrow`, to write; `others` are the addresses borrowed for the same call.
pub(super) fn borrow_mut<'a, T: Element>(
    buffer: &'a mut PyBuffer<T>,
    others: &[Range<usize>],
) -> PyResult<&'a mut [T]> {
    check_contiguous(buffer)?;
    if buffer.readonly() {
        return Err(PyValueError::new_err(
            "buffer cannot be written: expected a writable one, got a read-only one",
        ));
    }
    if buffer.item_count() == 0 {
        return Ok(&mut []);
    }
    let own = addresses(buffer);
    if others
        .iter()
        .any(|other| own.start < other.end && other.start < own.end)
    {
        return Err(PyValueError::new_err(
            "buffers overlap: expected the written one apart from the others, got shared memory",
        ));
    }
    // SAFETY: as in `borrow`; writable, and apart from every other slice of the same call.
    Ok(unsafe { slice::from_raw_parts_mut(buffer.buf_ptr().cast::<T>(), buffer.item_count()) })
}

/// The address of the buffer.
pub(super) fn addresses<T: Element>(buffer: &PyBuffer<T>) -> Range<usize> {
    let start = buffer.buf_ptr() as usize;
    start..start + buffer.len_bytes()
}

/// The buffer of a matrix whose type is given by name.
pub(super) enum Held {
    F32(PyBuffer<f32>),
    F16(PyBuffer<u16>),
    Bf16(PyBuffer<u16>),
}

impl Held {
    pub(super) fn new(array: &Bound<'_, PyAny>, dtype: &str) -> PyResult<Self> {
        match dtype {
            "f32" => Ok(Self::F32(PyBuffer::get(array)?)),
            "f16" => Ok(Self::F16(PyBuffer::get(array)?)),
            "bf16" => Ok(Self::Bf16(PyBuffer::get(array)?)),
            other => Err(PyValueError::new_err(format!(
                "unknown dtype: expected 'f32', 'f16' or 'bf16', got '{other}'"
            ))),
        }
    }

    pub(super) fn addresses(&self) -> Range<usize> {
        match self {
            Self::F32(buffer) => addresses(buffer),
            Self::F16(buffer) | Self::Bf16(buffer) => addresses(buffer),
        }
    }

    pub(super) fn weights(&self) -> PyResult<Weights<'_>> {
        Ok(match self {
            Self::F32(buffer) => Weights::F32(borrow(buffer)?),
            Self::F16(buffer) => Weights::F16(borrow(buffer)?.reinterpret_cast::<f16>()),
            Self::Bf16(buffer) => Weights::Bf16(borrow(buffer)?.reinterpret_cast::<bf16>()),
        })
    }

    pub(super) fn weights_mut(&mut self, others: &[Range<usize>]) -> PyResult<WeightsMut<'_>> {
        Ok(match self {
            Self::F32(buffer) => WeightsMut::F32(borrow_mut(buffer, others)?),
            Self::F16(buffer) => {
                WeightsMut::F16(borrow_mut(buffer, others)?.reinterpret_cast_mut::<f16>())
            }
            Self::Bf16(buffer) => {
                WeightsMut::Bf16(borrow_mut(buffer, others)?.reinterpret_cast_mut::<bf16>())
            }
        })
    }
}
