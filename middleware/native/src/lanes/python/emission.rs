//! The state of one call of `emit`, and the changes that it gives.

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::shared::Shared;
use crate::event::python::entry::Entry;
use crate::lanes::emission::{Early, Pending, Rounds};

pub struct Emission<'py> {
    pub clk: Bound<'py, PyAny>,
    pub k: Bound<'py, PyAny>,
    /// Events at or below this time are final.
    pub settled: i64,
    /// The results in order, with their causes.
    pub results: Bound<'py, PyList>,
    pub pending: Vec<Pending<Entry>>,
}

impl<'py> Emission<'py> {
    /// The change that publishes results for the first time; None if there are none.
    pub fn inserted(&self, results: &Bound<'py, PyList>, shared: &Shared) -> PyResult<Option<Bound<'py, PyAny>>> {
        if results.is_empty() {
            return Ok(None);
        }
        let inserted = shared.calls.get().inserted.bind(results.py());
        inserted.call1((results, &self.clk, &self.k)).map(Some)
    }
}

/// The change that publishes results that no lane keeps.
pub fn inserted<'py>(early: Early, results: &Bound<'py, PyList>, shared: &Shared) -> PyResult<Bound<'py, PyAny>> {
    let k_plus = early.k_plus(results.len());
    shared.calls.get().delta.bind(results.py()).call1((results, None::<()>, None::<()>, k_plus))
}

/// One change for each round in which there is any.
pub fn combined<'py>(py: Python<'py>, rounds: Rounds<Bound<'py, PyAny>>, shared: &Shared) -> PyResult<Bound<'py, PyList>> {
    let whole = PyList::empty(py);
    for deltas in rounds.each() {
        whole.append(shared.calls.get().combined.bind(py).call1((deltas,))?)?;
    }
    Ok(whole)
}
