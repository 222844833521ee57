//! The model of events, which Python declares: `middleware.native` gives it when it is imported.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::event::python::fields::Stamps;

pub struct Model {
    /// The key of the total order of events.
    pub order: Py<PyAny>,
    pub event_type: Py<PyType>,
    pub stamps: Stamps,
    pub window_error: Py<PyType>,
    same_state: Py<PyAny>,
    ending: Py<PyAny>,
}

static MODEL: PyOnceLock<Model> = PyOnceLock::new();

/// Give the core the model, once.
#[pyfunction]
#[pyo3(signature = (*, event, order, same_state, ending, window_error))]
pub fn give_model(
    event: Bound<'_, PyType>,
    order: Py<PyAny>,
    same_state: Py<PyAny>,
    ending: Py<PyAny>,
    window_error: Py<PyType>,
) -> PyResult<()> {
    let py = event.py();
    let stamps = Stamps::of(&event);
    let model = Model { order, event_type: event.unbind(), stamps, window_error, same_state, ending };
    MODEL.set(py, model).map_err(|_| PyRuntimeError::new_err("the core has its model"))
}

impl Model {
    #[inline]
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        MODEL.get(py).ok_or_else(|| PyRuntimeError::new_err("the core has no model: import middleware.native"))
    }

    /// Whether no detector could tell the states apart.
    pub fn same_state(&self, one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.same_state.bind(one.py()).call1((one, other))?.extract()
    }

    /// Whether an error that user code raised is a failure of that code. Others, such as KeyboardInterrupt, end the run.
    pub fn is_failure(&self, py: Python<'_>, error: &PyErr) -> bool {
        !error.matches(py, &self.ending).unwrap_or(false)
    }
}
