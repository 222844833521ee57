//! The correction of a lane, a batch at a time (algorithms 1 and 2 of DEBS'13): merge all that came, go back once, replay once.

use std::cmp::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::event::order::{TotalOrder, arranged, insertions, place_of};
use crate::event::python::entry::Entry;
use crate::event::search::partition;
use crate::event::splice::splice;
use crate::lanes::detector::State;
use crate::lanes::disturbance::Disturbance;
use crate::lanes::emission::{Emission, Pending};
use crate::lanes::lane::{Lane, Record};
use crate::lanes::shared::Shared;
use crate::lanes::snapshots::Snapshot;

/// What the former run left behind the first disturbed event.
struct Former {
    records: Vec<Record>,
    /// Snapshots behind all that was disturbed: where the state is again what it was, the replay may stop.
    stops: Vec<Snapshot<State>>,
    /// The state at the end.
    live: State,
}

impl Lane {
    /// Take what came out of order, and forget what was withdrawn; returns what changes downstream, in sequence.
    pub fn correct<'py>(
        &mut self,
        emission: &Emission<'py>,
        pending: Pending,
        shared: &mut Shared,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = emission.clk.py();
        let gone = self.remove(py, pending.gone, shared)?;
        let run = self.history.len();
        let (behind, repeats) = arranged(py, pending.behind)?;
        let (came, known) = insertions(py, &self.history, behind)?; // what is in the history came first
        shared.counts.get().duplicates.add(repeats + known);
        let places: Vec<usize> = came.iter().map(|(place, _)| *place).collect();
        splice(&mut self.history, came);
        self.settle();
        if let Some(disturbance) = Disturbance::new(&gone, &places, run) {
            return self.roll_back(emission, disturbance, shared);
        }
        let known = self.records.len();
        self.run(py, run, self.history.len(), shared)?;
        let results = published(py, &self.records[known..])?;
        Ok(emission.inserted(&results, shared)?.into_iter().collect())
    }

    /// Take events out of the history; returns where they stood, all of them taken out.
    fn remove(&mut self, py: Python<'_>, gone: Vec<Entry>, shared: &mut Shared) -> PyResult<Vec<usize>> {
        let (gone, repeats) = arranged(py, gone)?;
        shared.counts.get().unknown.add(repeats);
        let mut places = Vec::with_capacity(gone.len());
        for entry in &gone {
            match place_of(py, &self.history, entry)? {
                Ok(at) => {
                    self.history.remove(at);
                    places.push(at);
                }
                Err(_) => shared.counts.get().unknown.add(1),
            }
        }
        Ok(places)
    }

    /// Go back to before what is disturbed, and replay.
    fn roll_back<'py>(
        &mut self,
        emission: &Emission<'py>,
        disturbance: Disturbance,
        shared: &mut Shared,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = emission.clk.py();
        shared.counts.get().rollbacks.add(1);
        let cut = self.records_before(py, disturbance.start)?;
        let records = self.records.split_off(cut);
        let later = self.snapshots.back_to(disturbance.start);
        let origin = self.snapshots.newest();
        let old = published(py, &records)?;
        let mut stops = Vec::new();
        if !shared.full_retraction {
            let moved = |snapshot: Snapshot<State>| {
                let position = disturbance.moved(snapshot.position)?;
                Some(Snapshot { position, state: snapshot.state })
            };
            // where only what came stands between it and its event, the snapshot to go back to is a stop, too
            let own = (origin.position == disturbance.start)
                .then(|| Snapshot { position: origin.position, state: origin.state.clone_ref(py) });
            stops.extend(own.into_iter().chain(later).filter_map(moved));
        }
        let live = if stops.is_empty() { State::Stopped } else { self.state(py, shared)? };
        self.rewind(py, disturbance.start, shared)?;
        let done = self.replay(py, disturbance, Former { records, stops, live }, shared)?;
        self.run(py, done, self.history.len(), shared)?;
        changes(emission, &old, &published(py, &self.records[cut..])?, shared)
    }

    /// Run what was run before, until the state is what it was at a former snapshot; returns where the detector stands then.
    fn replay(&mut self, py: Python<'_>, disturbance: Disturbance, former: Former, shared: &mut Shared) -> PyResult<usize> {
        let mut start = disturbance.start;
        for index in 0..former.stops.len() {
            let stop = &former.stops[index];
            self.run(py, start, stop.position, shared)?;
            start = stop.position;
            if self.is_at(py, &stop.state, shared)? {
                self.resume(py, index, disturbance.end, former, shared)?;
                return Ok(disturbance.end);
            }
        }
        self.run(py, start, disturbance.end, shared)?;
        Ok(disturbance.end)
    }

    /// From stop `index` up to `end`, the former snapshots, records and state are good again (4.3.2, property 1).
    fn resume(&mut self, py: Python<'_>, index: usize, end: usize, former: Former, shared: &mut Shared) -> PyResult<()> {
        shared.counts.get().stops.add(1);
        let Former { records, mut stops, live } = former;
        let event = &self.history[stops[index].position];
        let before = partition(records.len(), |at| Ok::<_, PyErr>(py.compare(&records[at].cause, event)? == Ordering::Less))?;
        self.records.extend(records.into_iter().skip(before));
        let newest = self.snapshots.newest().position;
        for stop in stops.drain(index..).filter(|stop| stop.position > newest) {
            self.snapshots.add(stop.position, stop.state);
        }
        self.detector.restore(py, &live, shared)?;
        if end > newest {
            self.snapshots.add(end, live);
        }
        Ok(())
    }
}

fn published<'py>(py: Python<'py>, records: &[Record]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, records.iter().map(|record| &record.published))
}

/// What turns the old results into the new ones: the difference, or everything (4.3).
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
