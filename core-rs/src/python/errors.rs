//! The core's errors as Python's exceptions.

use std::path::Path;

use pyo3::{exceptions::PyOSError, prelude::*, types::PyDict};

use crate::error::CoreError;

/// The exception for an error: an `OSError` with number and path, or else an `InputError`.
pub(super) fn to_python(py: Python<'_>, error: CoreError) -> PyErr {
    if let CoreError::Io { path, source } = &error {
        return os_error(path, source);
    }
    if let CoreError::Memory { .. } = &error {
        return does_not_fit(
            py,
            &error.to_string(),
            "close other programs, or raise ulimit -v",
        );
    }
    gym_error(py, "InputError", &error.to_string(), error.hint())
}

/// What does not fit into the machine.
pub(super) fn does_not_fit(py: Python<'_>, message: &str, hint: &str) -> PyErr {
    gym_error(py, "DoesNotFitError", message, Some(hint))
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

/// Rust ends the system's message with its number, which Python also shows.
fn without_code(source: &std::io::Error) -> String {
    let text = source.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

/// One of the classes of `zoo.core.errors`.
fn gym_error(py: Python<'_>, class: &str, message: &str, hint: Option<&str>) -> PyErr {
    let made = || {
        let options = PyDict::new(py);
        options.set_item("hint", hint)?;
        let class = py.import("zoo.core.errors")?.getattr(class)?;
        class.call((message,), Some(&options))
    };
    made().map_or_else(|failure| failure, PyErr::from_value)
}
