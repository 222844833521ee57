//! The error people meet, which Python declares.

use pyo3::prelude::*;

/// A `middleware.model.errors.WindowError`.
pub fn window_error(message: String) -> PyErr {
    Python::attach(|py| {
        let error = py.import("middleware.model.errors").and_then(|errors| errors.getattr("WindowError")?.call1((message,)));
        error.map_or_else(|error| error, PyErr::from_value)
    })
}

pub fn same_length(one: usize, other: usize) -> PyResult<()> {
    if one == other { Ok(()) } else { Err(window_error(format!("the columns differ in length: {one} and {other}"))) }
}
