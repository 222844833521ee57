//! The Python functions and classes that the core calls, so that their meaning is written down once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString};

pub struct Twins {
    /// The total order of events, as a key.
    pub order: Py<PyAny>,
    pub event_type: Py<PyAny>,
    pub derivation: Py<PyAny>,
    pub recipe: Py<PyAny>,
    pub fresh: Py<PyAny>,
    pub blank: Py<PyAny>,
    pub published: Py<PyAny>,
    left_out: Py<PyAny>,
    pub arranged: Py<PyAny>,
    pub full_retraction: Py<PyAny>,
    pub inserted: Py<PyAny>,
    pub withdrawn: Py<PyAny>,
    pub difference: Py<PyAny>,
    pub combined: Py<PyAny>,
    same_state: Py<PyAny>,
    format_exception: Py<PyAny>,
    ending: Py<PyAny>,
}

impl Twins {
    /// Imported when first needed: `middleware.ordering` imports the core, not the other way round.
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static TWINS: PyOnceLock<Twins> = PyOnceLock::new();
        TWINS.get_or_try_init(py, || Self::import(py))
    }

    fn import(py: Python<'_>) -> PyResult<Self> {
        let of = |module: &str, name: &str| Ok::<_, PyErr>(py.import(module)?.getattr(name)?.unbind());
        let retraction = |name: &str| of("middleware.ordering.retraction", name);
        Ok(Self {
            order: of("middleware.model.event", "ORDER")?,
            event_type: of("middleware.model.event", "Event")?,
            derivation: of("middleware.model.identity", "Derivation")?,
            recipe: of("middleware.model.making", "recipe")?,
            fresh: of("middleware.model.detector", "fresh")?,
            blank: of("middleware.model.detector", "blank")?,
            published: retraction("Published")?,
            left_out: retraction("left_out")?,
            arranged: of("middleware.ordering.buffer", "arranged")?,
            full_retraction: retraction("Retraction")?.getattr(py, "FULL")?,
            inserted: retraction("inserted")?,
            withdrawn: retraction("withdrawn")?,
            difference: retraction("difference")?,
            combined: of("middleware.model.change", "combined")?,
            same_state: of("middleware.model.state", "same_state")?,
            format_exception: of("traceback", "format_exception")?,
            ending: of("middleware.model.errors", "ENDING")?,
        })
    }

    /// Whether no detector could tell the states apart.
    pub fn same_state(&self, one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.same_state.bind(one.py()).call1((one, other))?.extract()
    }

    /// Whether an error that user code raised is a failure of that code. Others, such as KeyboardInterrupt, end the run.
    pub fn is_failure(&self, py: Python<'_>, error: &PyErr) -> bool {
        !error.matches(py, &self.ending).unwrap_or(false)
    }

    /// The text of an error, where it was raised and by whose call.
    pub fn traceback(&self, py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        let limit = PyDict::new(py);
        limit.set_item("limit", -8)?;
        let lines = self.format_exception.bind(py).call((error.into_value(py),), Some(&limit))?;
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
