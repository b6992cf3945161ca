//! The instruction sets of the machine.

use pyo3::{exceptions::PyValueError, prelude::*};

use crate::isa::Isa;

/// The instruction sets that this machine has, the fastest first.
#[pyfunction]
pub(super) fn available_isas() -> Vec<&'static str> {
    Isa::available().into_iter().map(Isa::name).collect()
}

/// The instruction set that a caller names, or the fastest.
pub(super) fn chosen(name: Option<&str>) -> PyResult<Isa> {
    let Some(name) = name else {
        return Ok(Isa::best());
    };
    Isa::named(name).ok_or_else(|| {
        let known = available_isas().join("', '");
        PyValueError::new_err(format!(
            "unknown instruction set: expected one that this machine has ('{known}'), got '{name}'"
        ))
    })
}
