//! The error people meet, which Python declares.

use pyo3::prelude::*;

use crate::event::python::model::Model;

/// A `WindowError` of the model.
pub fn window_error(message: String) -> PyErr {
    Python::attach(|py| match Model::get(py) {
        Ok(model) => PyErr::from_type(model.window_error.bind(py).clone(), message),
        Err(error) => error,
    })
}

pub fn same_length(one: usize, other: usize) -> PyResult<()> {
    if one == other { Ok(()) } else { Err(window_error(format!("the columns differ in length: {one} and {other}"))) }
}
