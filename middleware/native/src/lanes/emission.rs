//! What one call of `emit` gathers on its way: results, and what came out of order.

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::event::entry::Entry;
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
    /// The results in order: with causes, or the events alone where no lane keeps a history.
    pub results: Bound<'py, PyList>,
    /// By how much each of the events came too early, where some may.
    pub early: Option<Early>,
    pub pending: Vec<Pending>,
}

/// K+ of results that no lane keeps, as `middleware.ordering.lanes.retraction.k_plus` has it.
pub struct Early {
    since: i64,
    k_plus: Vec<i64>,
}

impl Early {
    /// None if no event up to `newest` is early.
    pub fn of(newest: i64, clk: i64, k: i64) -> Option<Self> {
        let since = clk.saturating_sub(k);
        (newest > since).then(|| Self { since, k_plus: Vec::new() })
    }

    /// Note the time of the cause of the results since the last call; there are `count` results by now.
    pub fn note(&mut self, count: usize, cause: i64) {
        self.k_plus.resize(count, cause.saturating_sub(self.since).max(0));
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

    /// The change that publishes results without causes, which no lane keeps; None if there are none.
    pub fn inserted_for_good(&self, shared: &Shared) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.results.is_empty() {
            return Ok(None);
        }
        let k_plus = self.early.as_ref().map(|early| &early.k_plus).filter(|k_plus| k_plus.iter().any(|ahead| *ahead > 0));
        shared.calls.get().delta.bind(self.results.py()).call1((&self.results, None::<()>, None::<()>, k_plus)).map(Some)
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
