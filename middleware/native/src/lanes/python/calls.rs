//! The Python functions that the lanes of a unit call, so that their meaning is stated once. Lanes are given them at construction.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString};

use crate::event::python::model::Model;

#[pyclass(frozen, module = "middleware.native")]
pub struct LaneCalls {
    model: &'static Model,
    pub derivation: Py<PyAny>,
    pub fresh: Py<PyAny>,
    pub blank: Py<PyAny>,
    pub published: Py<PyAny>,
    left_out: Py<PyAny>,
    /// Makes a change of new events, revisions, retractions and K+.
    pub delta: Py<PyAny>,
    pub inserted: Py<PyAny>,
    pub withdrawn: Py<PyAny>,
    pub difference: Py<PyAny>,
    pub combined: Py<PyAny>,
}

#[pymethods]
impl LaneCalls {
    #[new]
    #[pyo3(signature = (*, derivation, fresh, blank, published, left_out, delta, inserted, withdrawn, difference, combined))]
    #[expect(clippy::too_many_arguments, reason = "one record, given once")]
    fn new(
        py: Python<'_>,
        derivation: Py<PyAny>,
        fresh: Py<PyAny>,
        blank: Py<PyAny>,
        published: Py<PyAny>,
        left_out: Py<PyAny>,
        delta: Py<PyAny>,
        inserted: Py<PyAny>,
        withdrawn: Py<PyAny>,
        difference: Py<PyAny>,
        combined: Py<PyAny>,
    ) -> PyResult<Self> {
        let model = Model::get(py)?;
        Ok(Self { model, derivation, fresh, blank, published, left_out, delta, inserted, withdrawn, difference, combined })
    }
}

impl LaneCalls {
    /// See `Model::same_state`.
    pub fn same_state(&self, one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.model.same_state(one, other)
    }

    /// See `Model::is_failure`.
    pub fn is_failure(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.model.is_failure(py, error)
    }

    /// The text of an error, where it was raised and by whose call.
    pub fn traceback(&self, py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        static FORMAT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let limit = PyDict::new(py);
        limit.set_item("limit", -8)?;
        let lines = FORMAT.import(py, "traceback", "format_exception")?.call((error.into_value(py),), Some(&limit))?;
        PyString::new(py, "").call_method1("join", (lines,)).map(Bound::unbind)
    }

    /// The record of an event that came when the detector had stopped.
    pub fn left_out(&self, py: Python<'_>, event: &Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.left_out.call1(py, (event,))
    }

    /// The record of an event with a failure.
    pub fn failure(&self, py: Python<'_>, event: &Py<PyAny>, traceback: &Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.published.call1(py, (event, PyList::empty(py), traceback))
    }
}
