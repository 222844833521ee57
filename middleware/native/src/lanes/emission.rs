//! What one call of `emit` gathers on its way: results, and what came out of order.

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::event::python::entry::Entry;
use crate::lanes::shared::Shared;

/// What came out of order for one lane, and what was withdrawn from it.
pub struct Pending {
    pub lane: usize,
    pub behind: Vec<Entry>,
    pub gone: Vec<Entry>,
}

pub struct Emission<'py> {
    pub clk: Bound<'py, PyAny>,
    pub k: Bound<'py, PyAny>,
    /// What lies at or below it is final.
    pub settled: i64,
    /// The results in order, with their causes.
    pub results: Bound<'py, PyList>,
    pub pending: Vec<Pending>,
}

/// K+ of results that no lane keeps, as `middleware.ordering.lanes.retraction.k_plus` has it: how far causes lie above a time.
pub struct Early {
    since: i64,
    /// Of the results up to the last that is early.
    k_plus: Vec<i64>,
}

impl Early {
    pub fn since(since: i64) -> Self {
        Self { since, k_plus: Vec::new() }
    }

    /// Note the time of the cause of results `before..count`.
    #[inline]
    pub fn note(&mut self, cause: i64, before: usize, count: usize) {
        if cause > self.since && count > before {
            self.k_plus.resize(before, 0);
            self.k_plus.resize(count, cause.saturating_sub(self.since));
        }
    }

    /// The change that publishes some results.
    pub fn inserted<'py>(mut self, results: &Bound<'py, PyList>, shared: &Shared) -> PyResult<Bound<'py, PyAny>> {
        let is_early = !self.k_plus.is_empty();
        self.k_plus.resize(results.len(), 0);
        let k_plus = is_early.then_some(self.k_plus);
        shared.calls.get().delta.bind(results.py()).call1((results, None::<()>, None::<()>, k_plus))
    }
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

/// Changes by the round in which they must come: one lane's in sequence, different lanes' together.
#[derive(Default)]
pub struct Rounds<'py>(Vec<Vec<Bound<'py, PyAny>>>);

impl<'py> Rounds<'py> {
    pub fn add(&mut self, round: usize, delta: Bound<'py, PyAny>) {
        if self.0.len() <= round {
            self.0.resize_with(round + 1, Vec::new);
        }
        self.0[round].push(delta);
    }

    /// One change for each round in which there is any.
    pub fn combined(self, py: Python<'py>, shared: &Shared) -> PyResult<Bound<'py, PyList>> {
        let whole = PyList::empty(py);
        for deltas in self.0.into_iter().filter(|deltas| !deltas.is_empty()) {
            whole.append(shared.calls.get().combined.bind(py).call1((deltas,))?)?;
        }
        Ok(whole)
    }
}
