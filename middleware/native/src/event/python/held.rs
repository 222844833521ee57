//! `middleware.native.HeldEvents`: what a barrier holds back, as objects.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::event::held::{HeldBack, Identity};
use crate::event::python::fields::Stamps;

#[pyclass(module = "middleware.native")]
#[derive(Default)]
pub struct HeldEvents {
    held: HeldBack<Py<PyAny>>,
    /// The last name of a source, and its number.
    last: Option<(Py<PyString>, i64)>,
}

#[pymethods]
impl HeldEvents {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.held.len()
    }

    fn __contains__(&mut self, identity: (Bound<'_, PyString>, i64)) -> PyResult<bool> {
        let (source, id) = identity;
        let source = self.number(source)?;
        Ok(self.held.holds((source, id)))
    }

    #[getter]
    fn oldest(&self) -> Option<i64> {
        self.held.oldest()
    }

    fn hold(&mut self, events: &Bound<'_, PyList>, above: i64) -> PyResult<usize> {
        let stamps = Stamps::get(events.py())?;
        let mut refused = 0;
        for event in events {
            let ts = stamps.ts(&event)?;
            if ts <= above {
                refused += 1;
                continue;
            }
            let identity = self.identity(stamps, &event)?;
            self.held.hold(ts, stamps.level(&event)?, identity, event.unbind());
        }
        Ok(refused)
    }

    #[pyo3(signature = (event, of_any_type = false))]
    fn discard(&mut self, event: &Bound<'_, PyAny>, of_any_type: bool) -> PyResult<bool> {
        let identity = self.identity(Stamps::get(event.py())?, event)?;
        let is_it = |held: &Py<PyAny>| of_any_type || held.bind(event.py()).get_type().is(event.get_type());
        Ok(self.held.discard(identity, is_it))
    }

    fn release<'py>(&mut self, py: Python<'py>, until: i64) -> PyResult<Bound<'py, PyList>> {
        let events = self.held.release(until);
        if self.held.is_spent() {
            self.clear();
        }
        PyList::new(py, events)
    }

    fn clear(&mut self) {
        self.held.clear();
        self.last = None;
    }

    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.held.events().map(|event| event.bind(py)))
    }
}

impl HeldEvents {
    fn identity(&mut self, stamps: &Stamps, event: &Bound<'_, PyAny>) -> PyResult<Identity> {
        let id = stamps.id(event)?.extract()?;
        Ok((self.number(stamps.source(event)?)?, id))
    }

    fn number(&mut self, name: Bound<'_, PyString>) -> PyResult<i64> {
        if let Some((last, number)) = &self.last
            && last.is(&name)
        {
            return Ok(*number);
        }
        let number = self.held.number(name.to_str()?);
        self.last = Some((name.unbind(), number));
        Ok(number)
    }
}
