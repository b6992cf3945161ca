//! Files: headers and digests.

use std::{collections::BTreeMap, path::PathBuf};

use pyo3::{
    IntoPyObjectExt,
    buffer::PyBuffer,
    prelude::*,
    types::{PyBytes, PyList},
};

use super::{buffers::borrow_mut, threads::run_on};
use crate::{
    delta, digest,
    error::CoreError,
    files::OpenFile,
    gguf::{self, Array, Number, Value},
    identity, safetensors,
};

/// A regular file, opened once.
#[pyclass(name = "OpenFile", module = "zoo.core._core", frozen)]
pub(super) struct PyOpenFile(OpenFile);

#[pymethods]
impl PyOpenFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        run_on(py, Some(1), || OpenFile::open(&path)).map(Self)
    }

    fn length(&self, py: Python<'_>) -> PyResult<u64> {
        run_on(py, Some(1), || self.0.length())
    }

    fn read_at(&self, py: Python<'_>, mut room: PyBuffer<u8>, at: u64) -> PyResult<()> {
        let room = borrow_mut(&mut room, &[])?;
        run_on(py, Some(1), || self.0.read_at(room, at))
    }
}

/// A file that is open, or a path.
#[derive(FromPyObject)]
pub(super) enum Source<'py> {
    Open(PyRef<'py, PyOpenFile>),
    Path(PathBuf),
}

impl Source<'_> {
    /// Runs `work` on the file.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        work: impl FnOnce(&OpenFile) -> Result<T, CoreError> + Send,
    ) -> PyResult<T> {
        match self {
            Self::Open(file) => {
                let file = &file.0;
                run_on(py, threads, || work(file))
            }
            Self::Path(path) => run_on(py, threads, || work(&OpenFile::open(path)?)),
        }
    }
}

/// Name, dtype, shape, first byte, one past the last byte.
type PyTensor = (String, &'static str, Vec<u64>, u64, u64);

/// The tensors of a safetensors file in the order of their bytes, and its metadata; where `finite`, also
/// reads the tensors and refuses NaN and infinities.
#[pyfunction]
pub(super) fn read_header(
    py: Python<'_>,
    file: Source<'_>,
    finite: bool,
) -> PyResult<(Vec<PyTensor>, BTreeMap<String, String>)> {
    let threads = if finite { None } else { Some(1) };
    let header = file.with(py, threads, |file| {
        let header = safetensors::read_header(file)?;
        if finite {
            safetensors::check_finite(file, &header)?;
        }
        Ok(header)
    })?;
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
    file: Source<'_>,
) -> PyResult<(String, String, Vec<PyTensor>)> {
    let delta = file.with(py, None, delta::read_delta)?;
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
    file: Source<'_>,
    zero_at: u64,
    zero_len: u64,
) -> PyResult<String> {
    file.with(py, None, |file| {
        digest::file_digest(file, zero_at, zero_len)
    })
}

/// Name, type, dimensions (innermost first), first byte, one past the last byte.
type PyGgufTensor = (String, &'static str, Vec<u64>, u64, u64);

/// Version, alignment, pairs in the order of the file, tensors in the order of their bytes. A number is a
/// pair of its `NumPy` type and its bytes, an array of numbers the same in a list of one.
#[pyfunction]
#[allow(clippy::type_complexity)] // unpacked at once on the other side
pub(super) fn read_gguf_header(
    py: Python<'_>,
    file: Source<'_>,
) -> PyResult<(u32, u64, Vec<(String, Py<PyAny>)>, Vec<PyGgufTensor>)> {
    let header = file.with(py, Some(1), gguf::read_header)?;
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

/// Numbers as bytes, with the `NumPy` name of their type.
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
