//! A lane as Python has it: what is final as it comes, its state to be moved elsewhere, and the changes of a correction.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::detector::State;
use super::emission::Emission;
use super::running::{Objects, Running};
use super::shared::Shared;
use crate::event::python::entry::Entry;
use crate::event::python::fields::Stamps;
use crate::lanes::emission::Pending;
use crate::lanes::lane::{Lane, Record};
use crate::lanes::replay::Corrected;
use crate::lanes::runs::Runs;
use crate::lanes::snapshots::Snapshots;

/// The fields of `middleware.ordering.lanes.lane.LaneState`: history, published, snapshots, live, broken.
pub type LaneState<'py> =
    (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Vec<(usize, Bound<'py, PyTuple>)>, Bound<'py, PyTuple>, Option<Py<PyAny>>);

impl Lane<Objects> {
    /// Looks at what the next event needs, so that it is in the caches by then.
    #[inline]
    pub fn look(&self, py: Python<'_>) -> (i64, Option<i64>, usize) {
        (self.last, self.history.last().map(|entry| entry.ts), self.detector.look(py))
    }

    /// Take the next event, which is final as it comes, and add its results to `results`. The lane keeps no history.
    #[inline]
    pub fn advance_final(
        &mut self,
        event: &Bound<'_, PyAny>,
        ts: i64,
        results: &Bound<'_, PyList>,
        shared: &mut Shared,
    ) -> PyResult<()> {
        self.last = ts;
        if self.detector.is_stopped() || !self.history.is_empty() {
            return self.end_history(event, results, shared);
        }
        let known = results.len();
        if let Err(error) = self.detector.run_into(event, results, shared) {
            let runs = &mut Running { py: event.py(), shared };
            self.history.push(Entry::new(event)?);
            let outcome = self.fail(0, error, runs);
            return self.forget_all(runs).and(outcome);
        }
        for at in known..results.len() {
            shared.newest = shared.newest.max(Stamps::get(event.py())?.ts(&results.get_item(at)?)?);
        }
        Ok(())
    }

    /// Take an event that is final as it comes, where the detector has stopped or a former life of the lane left events.
    #[cold]
    fn end_history(&mut self, event: &Bound<'_, PyAny>, results: &Bound<'_, PyList>, shared: &mut Shared) -> PyResult<()> {
        let runs = &mut Running { py: event.py(), shared };
        let outcome = self.take(Entry::new(event)?, runs);
        self.forget_all(runs)?;
        if let Some(published) = outcome? {
            published.bind(event.py()).get_item(1)?.try_iter()?.try_for_each(|derived| results.append(derived?))?;
        }
        Ok(())
    }

    /// Correct the lane; what changes downstream, in sequence.
    pub fn corrections<'py>(
        &mut self,
        emission: &Emission<'py>,
        pending: Pending<Entry>,
        shared: &mut Shared,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = emission.clk.py();
        match self.correct(pending, &mut Running { py, shared })? {
            Corrected::Added(known) => {
                let results = published(py, &self.records[known..])?;
                Ok(emission.inserted(&results, shared)?.into_iter().collect())
            }
            Corrected::Replaced(old, cut) => {
                changes(emission, &PyList::new(py, old)?, &published(py, &self.records[cut..])?, shared)
            }
        }
    }

    /// All that the lane needs to continue in another process, without what is final, unless there are failures among it.
    pub fn whole_state<'py>(&mut self, py: Python<'py>, settled: i64, shared: &mut Shared) -> PyResult<Bound<'py, PyTuple>> {
        let runs = &mut Running { py, shared };
        if !runs.shared.keeps_history {
            self.snapshots = Snapshots::new(self.state(runs)?);
        }
        let is_sound = self.broken.is_none() && !self.records.iter().any(|record| record.is_failure);
        if is_sound && self.history.first().is_some_and(|entry| entry.ts <= settled) {
            self.purge(settled, runs)?;
        }
        let newest = self.snapshots.newest();
        let live = if newest.position == self.history.len() { runs.state_again(&newest.state) } else { self.state(runs)? };
        let live = live.boxed(py)?;
        let history = PyList::new(py, self.history.iter().map(|entry| &entry.event))?;
        let published = published(py, &self.records)?;
        let snapshots = PyList::empty(py);
        for snapshot in self.snapshots.iter() {
            snapshots.append((snapshot.position, snapshot.state.boxed(py)?))?;
        }
        (history, published, snapshots, live, self.broken.as_ref()).into_pyobject(py)
    }

    /// Become the lane that gave `state`.
    pub fn restore(&mut self, py: Python<'_>, state: LaneState<'_>, shared: &mut Shared) -> PyResult<()> {
        let (history, published, snapshots, live, broken) = state;
        let entry = |event: Bound<'_, PyAny>| Entry::new(&event);
        self.history = history.into_iter().map(entry).collect::<PyResult<_>>()?;
        self.records.clear();
        for published in published {
            let cause = Entry::new(&published.get_item(0)?)?;
            let is_failure = !published.get_item(2)?.is_none();
            self.records.push(Record { cause, published: published.unbind(), is_failure });
        }
        for (position, state) in snapshots {
            self.snapshots.add(position, State::unboxed(&state, shared)?);
        }
        self.broken = broken;
        self.settle();
        self.detector.restore(py, &State::unboxed(&live, shared)?, shared)
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.detector.traverse(visit)?;
        self.snapshots.iter().try_for_each(|snapshot| snapshot.state.traverse(visit))?;
        self.records.iter().try_for_each(|record| visit.call(&record.published))
    }
}

fn published<'py>(py: Python<'py>, records: &[Record<Objects>]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, records.iter().map(|record| &record.published))
}

/// The changes from the old results to the new ones: the difference, or everything (4.3).
fn changes<'py>(
    emission: &Emission<'py>,
    old: &Bound<'py, PyList>,
    new: &Bound<'py, PyList>,
    shared: &Shared,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = old.py();
    if old.is_empty() && new.is_empty() {
        return Ok(Vec::new());
    }
    let deltas = if shared.full_retraction {
        let withdrawn = shared.calls.get().withdrawn.bind(py).call1((old,))?;
        let inserted = shared.calls.get().inserted.bind(py).call1((new, &emission.clk, &emission.k))?;
        vec![withdrawn, inserted]
    } else {
        vec![shared.calls.get().difference.bind(py).call1((old, new, &emission.clk, &emission.k))?]
    };
    let mut changes = Vec::with_capacity(deltas.len());
    for delta in deltas {
        if delta.is_truthy()? {
            changes.push(delta);
        }
    }
    Ok(changes)
}
