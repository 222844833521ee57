//! Values of events that are objects of Python.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

use crate::block::cells::Scalar;

impl Scalar for Bound<'_, PyAny> {
    #[inline]
    fn is_missing(&self) -> bool {
        self.is_none()
    }

    #[inline]
    fn whole(&self) -> Option<i64> {
        self.cast_exact::<PyInt>().ok()?.extract().ok()
    }

    #[inline]
    fn float(&self) -> Option<f64> {
        Some(self.cast_exact::<PyFloat>().ok()?.value())
    }

    #[inline]
    fn flag(&self) -> Option<bool> {
        Some(self.cast_exact::<PyBool>().ok()?.is_true())
    }

    #[inline]
    fn text(&self) -> Option<&str> {
        self.cast_exact::<PyString>().ok()?.to_str().ok()
    }
}
