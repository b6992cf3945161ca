//! The Python face: borrow the buffers, release the GIL, call, map the error.
//!
//! Arrays cross without a copy. float16 and bfloat16 travel as unsigned 16-bit integers; matrices are
//! row-major and given with the number of their columns. This room alone knows Python.
#![allow(unsafe_code)]
#![allow(clippy::needless_pass_by_value)] // pyo3 hands arguments over by value

mod aggregate;
mod buffers;
mod codes;
mod errors;
mod identity;
mod limits;
mod machine;
mod product;
mod readers;
mod signs;

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use pyo3::{exceptions::PyValueError, prelude::*};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::CoreError;

/// Runs `work` without the GIL.
fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, CoreError> + Send) -> PyResult<T> {
    py.detach(work)
        .map_err(|error| errors::to_python(py, error))
}

/// As `run`, on a number of threads of its own; on all of the machine's where none is named.
fn run_on<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    work: impl FnOnce() -> Result<T, CoreError> + Send,
) -> PyResult<T> {
    let Some(threads) = threads else {
        return run(py, work);
    };
    let pool = pool(threads)?;
    run(py, || pool.install(work))
}

/// The threads of that number, started once.
fn pool(threads: usize) -> PyResult<Arc<ThreadPool>> {
    static POOLS: LazyLock<Mutex<BTreeMap<usize, Arc<ThreadPool>>>> = LazyLock::new(Mutex::default);
    if threads == 0 {
        return Err(PyValueError::new_err(
            "no threads: expected at least 1, got 0",
        ));
    }
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = pools.get(&threads) {
        return Ok(Arc::clone(pool));
    }
    let built = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = Arc::new(built.map_err(|error| PyValueError::new_err(error.to_string()))?);
    pools.insert(threads, Arc::clone(&pool));
    Ok(pool)
}

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::aggregate::{
        add_hamming, count_votes, majority, popcount_registers, sign_mean, sign_trimmed_mean,
        trimmed_mean,
    };
    #[pymodule_export]
    use super::codes::{add_product, apply_groups, pack_codes2, pack_groups, unpack_codes2};
    #[pymodule_export]
    use super::identity::PyIdentityHasher;
    #[pymodule_export]
    use super::limits::{limit_in_place, limit_read};
    #[pymodule_export]
    use super::machine::available_isas;
    #[pymodule_export]
    use super::product::{dense_product, sign_product};
    #[pymodule_export]
    use super::readers::{base_identity, file_digest, read_delta, read_gguf_header, read_header};
    #[pymodule_export]
    use super::signs::{apply_signs, pack_signs, unpack_signs};

    #[pymodule_init]
    fn version(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
