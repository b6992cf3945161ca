//! Files: headers and digests.

use std::{collections::BTreeMap, path::PathBuf};

use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    types::{PyBytes, PyList},
};

use super::threads::run_on;
use crate::{
    delta, digest,
    gguf::{self, Array, Number, Value},
    identity, safetensors,
};

/// Name, dtype, shape, first byte, one past the last byte.
type PyTensor = (String, &'static str, Vec<u64>, u64, u64);

/// The tensors of a safetensors file in the order of their bytes, and its metadata; where `finite`, also
/// reads the tensors and refuses NaN and infinities.
#[pyfunction]
pub(super) fn read_header(
    py: Python<'_>,
    path: PathBuf,
    finite: bool,
) -> PyResult<(Vec<PyTensor>, BTreeMap<String, String>)> {
    let header = if finite {
        run_on(py, None, || safetensors::finite::read_finite(&path))
    } else {
        run_on(py, Some(1), || safetensors::read_header(&path))
    }?;
    Ok((py_tensors(header.tensors), header.metadata))
}

fn py_tensors(tensors: Vec<safetensors::TensorInfo>) -> Vec<PyTensor> {
    let tensors = tensors.into_iter();
    let tensors = tensors.map(|t| (t.name, t.dtype.name, t.shape, t.start, t.stop));
    tensors.collect()
}

/// The digest of a delta file, its header as JSON, and its parts in the order of their bytes.
#[pyfunction]
pub(super) fn read_delta(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(String, String, Vec<PyTensor>)> {
    let delta = run_on(py, None, || delta::read_delta(&path))?;
    Ok((
        delta.digest,
        delta.text,
        py_tensors(delta.container.tensors),
    ))
}

/// BLAKE3 over the named tensors, as 64 hexadecimal digits.
#[pyfunction]
pub(super) fn base_identity(
    py: Python<'_>,
    files: Vec<PathBuf>,
    names: Vec<String>,
) -> PyResult<String> {
    run_on(py, None, || identity::base_identity(&files, &names))
}

/// BLAKE3 of a file with some bytes read as ASCII `0`, as 64 hexadecimal digits.
#[pyfunction]
pub(super) fn file_digest(
    py: Python<'_>,
    path: PathBuf,
    zero_at: u64,
    zero_len: u64,
) -> PyResult<String> {
    run_on(py, None, || digest::file_digest(&path, zero_at, zero_len))
}

/// Name, type, dimensions (innermost first), first byte, one past the last byte.
type PyGgufTensor = (String, &'static str, Vec<u64>, u64, u64);

/// Version, alignment, pairs in the order of the file, tensors in the order of their bytes. A number is a
/// pair of its `NumPy` type and its bytes, an array of numbers the same in a list of one.
#[pyfunction]
#[allow(clippy::type_complexity)] // unpacked at once on the other side
pub(super) fn read_gguf_header(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(u32, u64, Vec<(String, Py<PyAny>)>, Vec<PyGgufTensor>)> {
    let header = run_on(py, Some(1), || gguf::read_header(&path))?;
    let metadata = header.metadata.into_iter();
    let metadata = metadata.map(|(key, value)| Ok((key, gguf_value(py, value)?)));
    let tensors = header.tensors.into_iter();
    let tensors = tensors.map(|t| (t.name, t.kind.name, t.dimensions, t.start, t.stop));
    Ok((
        header.version,
        header.alignment,
        metadata.collect::<PyResult<_>>()?,
        tensors.collect(),
    ))
}

fn gguf_value(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Number(number, bytes) => gguf_numbers(py, number, &bytes),
        Value::Text(text) => text.into_py_any(py),
        Value::Array(array) => gguf_array(py, array),
    }
}

fn gguf_array(py: Python<'_>, array: Array) -> PyResult<Py<PyAny>> {
    match array {
        Array::Numbers(number, bytes) => [gguf_numbers(py, number, &bytes)?].into_py_any(py),
        Array::Texts(texts) => {
            let list = PyList::empty(py);
            texts.iter().try_for_each(|text| list.append(text))?;
            list.into_py_any(py)
        }
        Array::Arrays(arrays) => {
            let inner = arrays.into_iter().map(|array| gguf_array(py, array));
            inner.collect::<PyResult<Vec<_>>>()?.into_py_any(py)
        }
    }
}

/// Numbers as bytes beside the name that `NumPy` gives to their type.
fn gguf_numbers(py: Python<'_>, number: Number, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    let name = match number {
        Number::U8 => "|u1",
        Number::I8 => "|i1",
        Number::U16 => "<u2",
        Number::I16 => "<i2",
        Number::U32 => "<u4",
        Number::I32 => "<i4",
        Number::F32 => "<f4",
        Number::Bool => "|b1",
        Number::U64 => "<u8",
        Number::I64 => "<i8",
        Number::F64 => "<f8",
    };
    (name, PyBytes::new(py, bytes)).into_py_any(py)
}
