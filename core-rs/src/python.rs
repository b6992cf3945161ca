//! The Python face: borrow the buffers, release the GIL, call, map the error.
//!
//! Arrays cross without a copy. float16 and bfloat16 travel as unsigned 16-bit integers; matrices are
//! row-major and given with the number of their columns.
#![allow(unsafe_code)]
#![allow(clippy::needless_pass_by_value)] // pyo3 hands arguments over by value

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
    slice,
};

use half::{bf16, f16, slice::HalfBitsSliceExt};
use pyo3::{
    buffer::{Element, PyBuffer},
    exceptions::{PyOSError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::{
    codes::{self, Codes, CodesMut},
    digest,
    error::CoreError,
    identity, safetensors, signs,
    weights::{Weights, WeightsMut},
};

/// Name, dtype, shape, first byte, one past the last byte.
type PyTensor = (String, &'static str, Vec<u64>, u64, u64);

/// The exception for an error: an `OSError` with number and path, or else an `InputError`.
fn to_python(py: Python<'_>, error: CoreError) -> PyErr {
    if let CoreError::Io { path, source } = &error {
        return os_error(path, source);
    }
    input_error(py, &error).unwrap_or_else(|failure| failure)
}

/// With the arguments from which Python picks the subclass, `FileNotFoundError` and so on.
fn os_error(path: &Path, source: &std::io::Error) -> PyErr {
    let (text, name) = (without_code(source), path.as_os_str().to_owned());
    match source.raw_os_error() {
        Some(code) if cfg!(windows) => PyOSError::new_err((0, text, name, code)),
        Some(code) => PyOSError::new_err((code, text, name)),
        None => PyOSError::new_err(format!("{}: {text}", path.display())),
    }
}

/// Rust ends the system's message with its number, which Python shows by itself.
fn without_code(source: &std::io::Error) -> String {
    let text = source.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

fn input_error(py: Python<'_>, error: &CoreError) -> PyResult<PyErr> {
    let class = py.import("zoo.core.errors")?.getattr("InputError")?;
    let options = PyDict::new(py);
    options.set_item("hint", error.hint())?;
    Ok(PyErr::from_value(
        class.call((error.to_string(),), Some(&options))?,
    ))
}

/// Runs `work` without the GIL.
fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, CoreError> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| to_python(py, error))
}

fn check_contiguous<T: Element>(buffer: &PyBuffer<T>) -> PyResult<()> {
    if buffer.is_c_contiguous() {
        return Ok(());
    }
    Err(PyValueError::new_err(
        "buffer has gaps: expected a contiguous one, got one with strides",
    ))
}

/// A view of the buffer's values. Who writes to the array from another thread meanwhile gets an
/// undefined result, as with any array function.
fn borrow<T: Element>(buffer: &PyBuffer<T>) -> PyResult<&[T]> {
    check_contiguous(buffer)?;
    if buffer.item_count() == 0 {
        return Ok(&[]);
    }
    // SAFETY: contiguous; PyBuffer checked type and alignment; the memory lives while `buffer` does.
    Ok(unsafe { slice::from_raw_parts(buffer.buf_ptr().cast::<T>(), buffer.item_count()) })
}

/// As `borrow`, to write; `others` are the addresses borrowed for the same call.
fn borrow_mut<'a, T: Element>(
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

fn addresses<T: Element>(buffer: &PyBuffer<T>) -> Range<usize> {
    let start = buffer.buf_ptr() as usize;
    start..start + buffer.len_bytes()
}

/// The buffer of a matrix whose type is told by name.
enum Held {
    F32(PyBuffer<f32>),
    F16(PyBuffer<u16>),
    Bf16(PyBuffer<u16>),
}

impl Held {
    fn new(array: &Bound<'_, PyAny>, dtype: &str) -> PyResult<Self> {
        match dtype {
            "f32" => Ok(Self::F32(PyBuffer::get(array)?)),
            "f16" => Ok(Self::F16(PyBuffer::get(array)?)),
            "bf16" => Ok(Self::Bf16(PyBuffer::get(array)?)),
            other => Err(PyValueError::new_err(format!(
                "unknown dtype: expected 'f32', 'f16' or 'bf16', got '{other}'"
            ))),
        }
    }

    fn addresses(&self) -> Range<usize> {
        match self {
            Self::F32(buffer) => addresses(buffer),
            Self::F16(buffer) | Self::Bf16(buffer) => addresses(buffer),
        }
    }

    fn weights(&self) -> PyResult<Weights<'_>> {
        Ok(match self {
            Self::F32(buffer) => Weights::F32(borrow(buffer)?),
            Self::F16(buffer) => Weights::F16(borrow(buffer)?.reinterpret_cast::<f16>()),
            Self::Bf16(buffer) => Weights::Bf16(borrow(buffer)?.reinterpret_cast::<bf16>()),
        })
    }

    fn weights_mut(&mut self, others: &[Range<usize>]) -> PyResult<WeightsMut<'_>> {
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

/// Packs the signs of `tuned - base`; one scale for each row, or one where `scales` has one entry.
#[pyfunction]
fn pack_signs(
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
fn unpack_signs(
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
fn apply_signs(
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

/// Packs values into two-bit codes; `scales` holds float16 as unsigned integers.
#[pyfunction]
fn pack_codes2(
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
fn unpack_codes2(
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

/// The tensors of a safetensors file in the order of their bytes, and its metadata.
#[pyfunction]
fn read_header(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(Vec<PyTensor>, BTreeMap<String, String>)> {
    let header = run(py, || safetensors::read_header(&path))?;
    let tensors = header.tensors.into_iter();
    let tensors = tensors.map(|t| (t.name, t.dtype.name, t.shape, t.start, t.stop));
    Ok((tensors.collect(), header.metadata))
}

/// BLAKE3 over the named tensors, as 64 hexadecimal digits.
#[pyfunction]
fn base_identity(py: Python<'_>, files: Vec<PathBuf>, names: Vec<String>) -> PyResult<String> {
    run(py, || identity::base_identity(&files, &names))
}

/// BLAKE3 of a file with some bytes read as ASCII `0`, as 64 hexadecimal digits.
#[pyfunction]
fn file_digest(py: Python<'_>, path: PathBuf, zero_at: u64, zero_len: u64) -> PyResult<String> {
    run(py, || digest::file_digest(&path, zero_at, zero_len))
}

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::{
        apply_signs, base_identity, file_digest, pack_codes2, pack_signs, read_header,
        unpack_codes2, unpack_signs,
    };

    #[pymodule_init]
    fn version(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
