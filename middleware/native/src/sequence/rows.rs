//! Results, or rows of their fields.

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::partitions::Scattered;

/// Results in the order in which they came, found by identity.
#[derive(Default)]
pub struct Rows {
    places: Scattered<i64, usize>,
    rows: Vec<Option<Py<PyAny>>>,
}

impl Rows {
    pub fn clear(&mut self) {
        self.places.clear();
        self.rows.clear();
    }

    pub fn set(&mut self, identity: i64, row: Py<PyAny>) {
        let at = *self.places.entry(identity).or_insert(self.rows.len());
        if at == self.rows.len() {
            self.rows.push(Some(row));
        } else {
            self.rows[at] = Some(row);
        }
    }

    /// Whether it was there.
    pub fn remove(&mut self, identity: i64) -> bool {
        self.places.remove(&identity).is_some_and(|at| self.rows[at].take().is_some())
    }

    pub fn list<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.rows.drain(..).flatten().collect::<Vec<_>>())
    }
}
