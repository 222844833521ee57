//! Lanes whose events, detectors and states are objects of Python.

use pyo3::prelude::*;

use super::calls::LaneCalls;
use super::detector::{Detector, State};
use super::shared::Shared;
use crate::event::python::entry::Entry;
use crate::event::python::fields::Stamps;
use crate::lanes::runs::{Counted, Kind, Runs};

pub struct Objects;

impl Kind for Objects {
    type Entry = Entry;
    type Detector = Detector;
    type State = State;
    type Published = Py<PyAny>;
    type Reason = Py<PyAny>;
    type Failure = PyErr;

    #[inline]
    fn ts(entry: &Entry) -> i64 {
        entry.ts
    }

    fn same_event(one: &Entry, other: &Entry) -> bool {
        one.event.is(&other.event)
    }
}

/// Runs detectors.
pub struct Running<'a, 'py> {
    pub py: Python<'py>,
    pub shared: &'a mut Shared,
}

impl Running<'_, '_> {
    #[inline]
    fn calls(&self) -> &LaneCalls {
        self.shared.calls.get()
    }
}

impl<'py> Runs<Objects> for Running<'_, 'py> {
    type Order = Python<'py>;

    #[inline]
    fn order(&self) -> Python<'py> {
        self.py
    }

    #[inline]
    fn spacing(&self) -> usize {
        self.shared.spacing
    }

    fn stops_on_error(&self) -> bool {
        self.shared.stop_on_error
    }

    fn retracts_all(&self) -> bool {
        self.shared.full_retraction
    }

    #[inline]
    fn count(&self, what: Counted, number: u64) {
        let counts = self.shared.counts.get();
        let count = match what {
            Counted::Rollbacks => &counts.rollbacks,
            Counted::Stops => &counts.stops,
            Counted::Snapshots => &counts.snapshots,
            Counted::Failures => &counts.failures,
            Counted::LeftOut => &counts.left_out,
            Counted::Duplicates => &counts.duplicates,
            Counted::Unknown => &counts.unknown,
        };
        count.add(number);
    }

    #[inline]
    fn entry_again(&self, entry: &Entry) -> Entry {
        Entry { ts: entry.ts, event: entry.event.clone_ref(self.py) }
    }

    #[inline]
    fn published_again(&self, published: &Py<PyAny>) -> Py<PyAny> {
        published.clone_ref(self.py)
    }

    fn state_again(&self, state: &State) -> State {
        state.clone_ref(self.py)
    }

    #[inline]
    fn run(&mut self, detector: &Detector, entry: &Entry) -> PyResult<Option<Py<PyAny>>> {
        let event = entry.event.bind(self.py);
        let Some(derived) = detector.run(event, self.shared)? else { return Ok(None) };
        self.calls().published.call1(self.py, (event, derived)).map(Some)
    }

    fn rehearse(&mut self, detector: &Detector, entry: &Entry) -> PyResult<()> {
        detector.rehearse(self.py, entry, self.shared)
    }

    #[inline]
    fn is_stopped(&self, detector: &Detector) -> bool {
        detector.is_stopped()
    }

    fn stop(&self, detector: &mut Detector) {
        detector.stop();
    }

    fn state(&self, detector: &Detector) -> PyResult<State> {
        detector.state(self.py, self.shared)
    }

    fn stopped(&self) -> State {
        State::Stopped
    }

    fn restore(&self, detector: &mut Detector, state: &State) -> PyResult<()> {
        detector.restore(self.py, state, self.shared)
    }

    fn same_state(&self, one: &State, other: &State) -> PyResult<bool> {
        one.is_same(self.py, other, self.shared)
    }

    #[inline]
    fn is_plain(&self, state: &State) -> bool {
        state.is_plain()
    }

    #[inline]
    fn note_again(&self, detector: &Detector, state: &mut State) -> PyResult<bool> {
        detector.note_again(self.py, state, self.shared)
    }

    fn is_plainly_at(&self, detector: &Detector, state: &State) -> PyResult<Option<bool>> {
        detector.is_plainly_at(self.py, state, self.shared)
    }

    fn is_failure(&self, error: &PyErr) -> bool {
        self.calls().is_failure(self.py, error)
    }

    fn reason(&self, error: PyErr) -> PyResult<Py<PyAny>> {
        self.calls().traceback(self.py, error)
    }

    fn failure(&self, entry: &Entry, reason: &Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.calls().failure(self.py, &entry.event, reason)
    }

    fn left_out(&self, entry: &Entry) -> PyResult<Py<PyAny>> {
        self.calls().left_out(self.py, &entry.event)
    }

    fn report(&mut self, failure: Py<PyAny>) {
        self.shared.failures.push(failure);
    }

    fn forget(&mut self, published: Py<PyAny>) -> PyResult<()> {
        for event in published.bind(self.py).get_item(1)?.try_iter()? {
            self.shared.newest = self.shared.newest.max(Stamps::get(self.py)?.ts(&event?)?);
        }
        Ok(())
    }
}
