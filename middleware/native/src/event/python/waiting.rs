//! Events that wait, in strict total order, with their times at hand. `tests.oracles.waiting` says
//! what that means.

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::event::order::{arranged, insertions, place_of};
use crate::event::python::entry::Entry;
use crate::event::splice::splice;

#[pyclass(module = "middleware.native")]
#[derive(Default)]
pub struct Waiting(Vec<Entry>);

#[pymethods]
impl Waiting {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn add<'py>(&mut self, events: &Bound<'py, PyList>, after: i64) -> PyResult<(Bound<'py, PyList>, u64)> {
        let py = events.py();
        let (mut early, mut rest) = (Vec::with_capacity(events.len()), Vec::new());
        for event in events {
            let entry = Entry::new(&event)?;
            if entry.ts > after {
                early.push(entry);
            } else {
                rest.push(event);
            }
        }
        let (early, repeats) = arranged(py, early)?;
        let (found, known) = insertions(py, &self.0, early)?;
        splice(&mut self.0, found);
        Ok((PyList::new(py, rest)?, repeats + known))
    }

    fn take<'py>(&mut self, py: Python<'py>, until: i64) -> PyResult<Bound<'py, PyList>> {
        let count = self.0.partition_point(|entry| entry.ts <= until);
        PyList::new(py, self.0.drain(..count).map(|entry| entry.event))
    }

    fn remove<'py>(&mut self, events: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let py = events.py();
        let missing = PyList::empty(py);
        for event in events {
            match place_of(py, &self.0, &Entry::new(&event)?)? {
                Ok(at) => drop(self.0.remove(at)),
                Err(_) => missing.append(event)?,
            }
        }
        Ok(missing)
    }

    fn holds(&self, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(place_of(event.py(), &self.0, &Entry::new(event)?)?.is_ok())
    }

    fn first<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.0.first().map(|entry| entry.event.bind(py).clone())
    }

    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.iter().map(|entry| entry.event.bind(py)))
    }
}
