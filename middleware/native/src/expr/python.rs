//! Values of Python as conditions read them, and patterns as Python sees them.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use regex::bytes::Regex;

use super::pattern::compiled;
use super::value::Value;

impl Value {
    pub fn of(object: &Bound<'_, PyAny>) -> Self {
        if let Ok(number) = object.cast_exact::<PyInt>() {
            number.extract().map_or(Self::Other, Self::Int)
        } else if let Ok(number) = object.cast_exact::<PyFloat>() {
            Self::Float(number.value())
        } else if let Ok(text) = object.cast_exact::<PyString>() {
            text.to_str().map_or(Self::Other, |text| Self::Text(text.into()))
        } else if let Ok(truth) = object.cast_exact::<PyBool>() {
            Self::Bool(truth.is_true())
        } else if object.is_none() {
            Self::Null
        } else {
            Self::Other
        }
    }
}

/// A compiled pattern that texts are searched for.
#[pyclass(frozen, module = "middleware.native")]
pub struct Pattern(Regex);

#[pymethods]
impl Pattern {
    /// Raises ValueError that says what is wrong with the pattern. `memory`: bytes that it may take, compiled.
    #[new]
    fn new(pattern: &str, memory: usize) -> PyResult<Self> {
        compiled(pattern, memory).map(Self).map_err(PyValueError::new_err)
    }

    /// Whether the pattern is somewhere in a text. Half of a surrogate pair, which is no character, counts as `?`. O(text).
    fn is_in(&self, text: &Bound<'_, PyString>) -> PyResult<bool> {
        if let Ok(text) = text.to_str() {
            return Ok(self.0.is_match(text.as_bytes()));
        }
        let replaced = text.call_method1("encode", ("utf-8", "replace"))?;
        Ok(self.0.is_match(replaced.extract::<Cow<'_, [u8]>>()?.as_ref()))
    }
}
