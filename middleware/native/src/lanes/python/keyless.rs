//! Events whose key cannot be found: failures, once they are final, for until then they may be withdrawn.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::event::python::model::Model;
use crate::lanes::python::shared::Shared;

/// The failures by the order of their events.
pub struct Keyless(Py<PyDict>);

impl Keyless {
    pub fn new(py: Python<'_>) -> Self {
        Self(PyDict::new(py).unbind())
    }

    /// Quarantine an event at which `error` was raised. One without a time stamp to wait for is final at once.
    #[cold]
    pub fn add(&self, event: &Bound<'_, PyAny>, error: PyErr, shared: &mut Shared) -> PyResult<()> {
        let py = event.py();
        if !shared.calls.get().is_failure(py, &error) {
            return Err(error); // such as KeyboardInterrupt
        }
        let traceback = shared.calls.get().traceback(py, error)?;
        let failure = shared.calls.get().failure(py, event.as_unbound(), &traceback)?;
        let order = Model::get(py)?.order.bind(py).call1((event,))?;
        if order.get_item(0)?.extract::<i64>().is_ok() {
            shared.counts.get().left_out.add(1);
            return self.0.bind(py).set_item(order, failure);
        }
        shared.counts.get().failures.add(1);
        shared.failures.push(failure);
        Ok(())
    }

    /// The failures by the order of their events.
    pub fn all<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.0.bind(py).clone()
    }

    /// Become what `all` gave.
    pub fn restore(&self, py: Python<'_>, all: &Bound<'_, PyDict>) -> PyResult<()> {
        self.0.bind(py).clear();
        self.0.bind(py).update(all.as_mapping())
    }

    /// Whether an event is here.
    pub fn holds(&self, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        let order = Model::get(event.py())?.order.bind(event.py()).call1((event,))?;
        self.0.bind(event.py()).contains(order)
    }

    /// Forget an event that is withdrawn; false if it is not here.
    pub fn withdraw(&self, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (all, order) = (self.0.bind(event.py()), Model::get(event.py())?.order.bind(event.py()).call1((event,))?);
        let here = all.contains(&order)?;
        if here {
            all.del_item(order)?;
        }
        Ok(here)
    }

    /// Those at or below `settled` are failures for good.
    pub fn settle(&self, py: Python<'_>, settled: i64, shared: &mut Shared) -> PyResult<()> {
        let all = self.0.bind(py);
        for (order, failure) in all.copy()? {
            if order.get_item(0)?.extract::<i64>()? <= settled {
                all.del_item(order)?;
                shared.counts.get().failures.add(1);
                shared.failures.push(failure.unbind());
            }
        }
        Ok(())
    }
}
