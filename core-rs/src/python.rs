//! Python bindings: borrow the buffers, release the GIL, call, map the error.
//!
//! Arrays are passed without a copy. float16 and bfloat16 are passed as unsigned 16-bit integers; matrices are
//! row-major and given with the number of their columns. Only this module depends on Python.
#![allow(unsafe_code)]
#![allow(clippy::needless_pass_by_value)] // pyo3 passes arguments by value

mod aggregate;
mod buffers;
mod codes;
mod errors;
mod gram;
mod identity;
mod limits;
mod machine;
mod noise;
mod product;
mod readers;
mod signs;
mod threads;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::aggregate::{
        add_hamming, majority, near_median, popcount_registers, sign_mean, trimmed_mean,
        weighted_mean,
    };
    #[pymodule_export]
    use super::codes::{add_product, apply_groups, pack_codes2, pack_groups, unpack_codes2};
    #[pymodule_export]
    use super::gram::{
        add_float_gram, add_lowrank_gram, add_sign_gram, krum_order, mix_gram, nearest, whole_gram,
    };
    #[pymodule_export]
    use super::identity::{PyIdentityHasher, digest};
    #[pymodule_export]
    use super::limits::{limit_in_place, limit_read};
    #[pymodule_export]
    use super::machine::available_isas;
    #[pymodule_export]
    use super::noise::discrete_gaussian;
    #[pymodule_export]
    use super::product::{dense_product, product_registers, sign_product};
    #[pymodule_export]
    use super::readers::{
        PyOpenFile, base_identity, file_digest, read_delta, read_gguf_header, read_header,
    };
    #[pymodule_export]
    use super::signs::{apply_signs, pack_signs, unpack_signs};
    #[pymodule_export]
    use super::threads::use_threads;

    #[pymodule_init]
    fn version(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
