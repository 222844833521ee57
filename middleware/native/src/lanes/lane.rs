//! A lane: one detector with the events it was given, what it published, and snapshots to go back to.
//!
//! Positions count in the history, which is in strict total order. The causes of records are events of the history, in its
//! order. That holds at all times, whatever a detector raises.

use std::cmp::Ordering;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::event::order::{TotalOrder, place_of};
use crate::event::python::entry::{Entry, NEVER};
use crate::event::python::fields::Stamps;
use crate::event::search::partition;
use crate::lanes::detector::{Detector, State};
use crate::lanes::shared::Shared;
use crate::lanes::snapshots::Snapshots;

/// In order, a lane looks after so many events whether it may forget some.
const FEW: usize = 16;

/// What the detector derived from one event, or the failure at it.
pub struct Record {
    pub cause: Entry,
    pub published: Py<PyAny>,
    pub is_failure: bool,
}

/// What `middleware.ordering.lanes.lane.LaneState` holds: history, published, snapshots, live, broken.
pub type LaneState<'py> =
    (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Vec<(usize, Bound<'py, PyTuple>)>, Bound<'py, PyTuple>, Option<Py<PyAny>>);

pub struct Lane {
    pub key: Py<PyAny>,
    pub detector: Detector,
    pub history: Vec<Entry>,
    pub records: Vec<Record>,
    pub snapshots: Snapshots<State>,
    /// Why the detector's state could not be copied.
    broken: Option<Py<PyAny>>,
    /// Later events are in order: the time stamp of the last event, or the end of time where work is pending.
    pub last: i64,
    /// The number of the work that waits for this lane in the present call.
    pub pending: Option<usize>,
    /// The number of the call in which it last published in order.
    pub published_in: u64,
}

impl Lane {
    pub fn new(key: Py<PyAny>, detector: Detector, initial: State) -> Self {
        Self {
            key,
            detector,
            history: Vec::new(),
            records: Vec::new(),
            snapshots: Snapshots::new(initial),
            broken: None,
            last: NEVER,
            pending: None,
            published_in: 0,
        }
    }

    /// Looks at what the next event needs, so that it is in the caches by then.
    #[inline]
    pub fn look(&self, py: Python<'_>) -> (i64, Option<i64>, usize) {
        (self.last, self.history.last().map(|entry| entry.ts), self.detector.look(py))
    }

    /// Take the next event in order; returns what is published, if anything is.
    #[inline]
    pub fn advance(&mut self, py: Python<'_>, entry: Entry, settled: i64, shared: &mut Shared) -> PyResult<Option<Py<PyAny>>> {
        let since = self.history.len() - self.snapshots.newest().position;
        if self.last <= settled && !self.history.is_empty() && self.snapshots.newest().state.is_plain() {
            self.restart(py, settled, shared)?;
        } else if since >= shared.spacing || (since.is_multiple_of(FEW) && self.is_outdated(settled)) {
            self.renew(py, settled, shared)?;
        }
        let at = self.history.len();
        self.last = entry.ts;
        self.history.push(entry);
        self.execute(py, at, shared).or_else(|error| self.fail(py, at, error, shared).map(|()| None))
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
            self.history.push(Entry::new(event)?);
            let outcome = self.fail(event.py(), 0, error, shared);
            return self.forget_all(event.py(), shared).and(outcome);
        }
        for at in known..results.len() {
            shared.newest = shared.newest.max(Stamps::get(event.py())?.ts(&results.get_item(at)?)?);
        }
        Ok(())
    }

    /// Take an event that is final as it comes, where the detector has stopped or a former life of the lane left events.
    #[cold]
    fn end_history(&mut self, event: &Bound<'_, PyAny>, results: &Bound<'_, PyList>, shared: &mut Shared) -> PyResult<()> {
        let (py, at) = (event.py(), self.history.len());
        self.history.push(Entry::new(event)?);
        let outcome = self.execute(py, at, shared).or_else(|error| self.fail(py, at, error, shared).map(|()| None));
        self.forget_all(py, shared)?;
        if let Some(published) = outcome? {
            published.bind(py).get_item(1)?.try_iter()?.try_for_each(|derived| results.append(derived?))?;
        }
        Ok(())
    }

    /// Forget all, without a snapshot: the one that is left says nothing any more.
    fn forget_all(&mut self, py: Python<'_>, shared: &mut Shared) -> PyResult<()> {
        self.report_broken(py, shared)?;
        self.snapshots.begin();
        self.history.clear();
        self.drop_records(py, self.records.len(), shared)
    }

    /// Forget all, which is final: a plain state is noted in less time than it takes to fetch from memory what was kept for long.
    #[inline]
    fn restart(&mut self, py: Python<'_>, settled: i64, shared: &mut Shared) -> PyResult<()> {
        let is_bare = self.records.is_empty() && self.broken.is_none();
        if is_bare
            && let Some(state) = self.snapshots.only()
            && self.detector.note_again(py, state, shared)?
        {
            shared.counts.get().snapshots.add(1);
            self.history.clear();
            self.snapshots.begin();
            return Ok(());
        }
        self.purge(py, settled, shared)
    }

    /// Whether an event behind the newest snapshot is final. A lane that waited for `spacing` events to take the next one would
    /// keep up to twice as many, however long they have been final: ten times as much as may be disturbed, for 10,000 keys. A plain
    /// state is copied in no time.
    #[inline]
    fn is_outdated(&self, settled: i64) -> bool {
        let newest = self.snapshots.newest();
        newest.state.is_plain() && self.history.get(newest.position).is_some_and(|entry| entry.ts <= settled)
    }

    /// Take a snapshot at the end, and forget what is final where it is much.
    #[cold]
    fn renew(&mut self, py: Python<'_>, settled: i64, shared: &mut Shared) -> PyResult<()> {
        let is_outdated = self.is_outdated(settled);
        self.snapshot(py, self.history.len(), shared)?;
        if is_outdated || self.history.len() >= 2 * shared.spacing {
            self.purge(py, settled, shared)?;
        }
        Ok(())
    }

    /// Forget what is final where it is much: for lanes that are corrected all the time, and so seldom take a snapshot in order.
    pub fn trim(&mut self, py: Python<'_>, settled: i64, shared: &mut Shared) -> PyResult<()> {
        let is_much = self.history.len() >= 2 * shared.spacing && self.history[shared.spacing].ts <= settled;
        if is_much { self.purge(py, settled, shared) } else { Ok(()) }
    }

    /// Run the events from `start` to `end`, with a snapshot before every so-manieth of them.
    pub fn run(&mut self, py: Python<'_>, start: usize, end: usize, shared: &mut Shared) -> PyResult<()> {
        for at in start..end {
            if at - self.snapshots.newest().position >= shared.spacing {
                self.snapshot(py, at, shared)?;
            }
            if let Err(error) = self.execute(py, at, shared) {
                self.fail(py, at, error, shared)?;
            }
        }
        Ok(())
    }

    /// Run the event at `at`; returns what is published, if anything is.
    #[inline]
    fn execute(&mut self, py: Python<'_>, at: usize, shared: &mut Shared) -> PyResult<Option<Py<PyAny>>> {
        if self.detector.is_stopped() {
            let left_out = shared.calls.get().left_out(py, &self.history[at].event)?;
            shared.counts.get().left_out.add(1);
            self.record(py, at, left_out, true);
            return Ok(None);
        }
        let event = self.history[at].event.bind(py);
        let Some(derived) = self.detector.run(event, shared)? else {
            return Ok(None);
        };
        let published = shared.calls.get().published.call1(py, (event, derived))?;
        self.record(py, at, published.clone_ref(py), false);
        Ok(Some(published))
    }

    fn record(&mut self, py: Python<'_>, at: usize, published: Py<PyAny>, is_failure: bool) {
        let Entry { ts, event } = &self.history[at];
        let cause = Entry { ts: *ts, event: event.clone_ref(py) };
        self.records.push(Record { cause, published, is_failure });
    }

    /// Quarantine the event at `at`, at which the detector just raised: go on from the state before it.
    #[cold]
    fn fail(&mut self, py: Python<'_>, at: usize, error: PyErr, shared: &mut Shared) -> PyResult<()> {
        if !shared.calls.get().is_failure(py, &error) {
            return Err(error); // such as KeyboardInterrupt
        }
        let traceback = shared.calls.get().traceback(py, error)?;
        let failure = shared.calls.get().failure(py, &self.history[at].event, &traceback)?;
        shared.counts.get().failures.add(1);
        self.record(py, at, failure, true);
        if shared.stop_on_error {
            self.detector.stop();
        } else {
            let mut odd = Vec::new();
            while let Err((place, error)) = self.rehearse_without(py, at, &odd, shared)? {
                if !shared.calls.get().is_failure(py, &error) {
                    return Err(error);
                }
                odd.push(place); // it did not fail here before: no pure function of its input
                shared.counts.get().failures.add(1);
            }
        }
        self.snapshot(py, at + 1, shared) // so that no stretch between snapshots ever holds an event that failed
    }

    /// Bring the detector to the state before the event at `position`, which is not before the newest snapshot.
    pub fn rewind(&mut self, py: Python<'_>, position: usize, shared: &mut Shared) -> PyResult<()> {
        let mut start = self.restore_newest(py, shared)?;
        while let Err((at, error)) = self.rehearse(py, start, position, shared) {
            self.fail(py, at, error, shared)?; // it did not fail here before: no pure function of its input
            self.records.pop();
            start = at + 1;
        }
        Ok(())
    }

    /// Run events again whose results are known and stand. An error comes with the position of its event.
    fn rehearse(&self, py: Python<'_>, start: usize, end: usize, shared: &mut Shared) -> Result<(), (usize, PyErr)> {
        (start..end).try_for_each(|at| self.detector.rehearse(py, &self.history[at], shared).map_err(|error| (at, error)))
    }

    /// Bring the detector from the newest snapshot to the state before the event at `end`, leaving out some events.
    #[cold]
    fn rehearse_without(
        &mut self,
        py: Python<'_>,
        end: usize,
        odd: &[usize],
        shared: &mut Shared,
    ) -> PyResult<Result<(), (usize, PyErr)>> {
        let mut start = self.restore_newest(py, shared)?;
        let mut odd = odd.to_vec();
        odd.sort_unstable();
        for place in odd.into_iter().chain([end]) {
            if let Err(failed) = self.rehearse(py, start, place, shared) {
                return Ok(Err(failed));
            }
            start = place + 1;
        }
        Ok(Ok(()))
    }

    /// Note the state before `position`; an unchanged state is stored once.
    fn snapshot(&mut self, py: Python<'_>, position: usize, shared: &mut Shared) -> PyResult<()> {
        let mut state = self.state(py, shared)?;
        shared.counts.get().snapshots.add(1);
        let before = &self.snapshots.newest().state;
        if state.is_same(py, before, shared)? {
            state = before.clone_ref(py);
        }
        self.snapshots.add(position, state);
        Ok(())
    }

    /// Whether the detector is in a state: a plain one is not copied for that.
    pub fn is_at(&mut self, py: Python<'_>, state: &State, shared: &mut Shared) -> PyResult<bool> {
        match self.detector.is_plainly_at(py, state, shared)? {
            Some(same) => Ok(same),
            None => self.state(py, shared)?.is_same(py, state, shared),
        }
    }

    /// The state of the detector. One whose state cannot be copied can never go back: it stops, and says so.
    pub fn state(&mut self, py: Python<'_>, shared: &mut Shared) -> PyResult<State> {
        match self.detector.state(py, shared) {
            Err(error) if shared.calls.get().is_failure(py, &error) => {
                shared.counts.get().failures.add(1);
                self.broken = Some(shared.calls.get().traceback(py, error)?);
                self.detector.stop();
                Ok(State::Stopped)
            }
            outcome => outcome,
        }
    }

    /// Go back to the newest snapshot; returns its position.
    fn restore_newest(&mut self, py: Python<'_>, shared: &Shared) -> PyResult<usize> {
        let newest = self.snapshots.newest();
        self.detector.restore(py, &newest.state, shared)?;
        Ok(newest.position)
    }

    /// How many records have causes before `position`.
    pub fn records_before(&self, py: Python<'_>, position: usize) -> PyResult<usize> {
        let Some(before) = position.checked_sub(1) else {
            return Ok(0);
        };
        partition(self.records.len(), |at| Ok(py.compare(&self.records[at].cause, &self.history[before])? != Ordering::Greater))
    }

    /// Forget what lies at or below `settled`, as far as a snapshot allows. Failures among it are final.
    pub fn purge(&mut self, py: Python<'_>, settled: i64, shared: &mut Shared) -> PyResult<()> {
        let count = self.history.partition_point(|entry| entry.ts <= settled);
        if count > self.snapshots.newest().position && (count == self.history.len() || self.detector.is_stopped()) {
            self.snapshot(py, count, shared)?;
        }
        self.report_broken(py, shared)?;
        let position = self.snapshots.last_until(count).position;
        let cut = self.records_before(py, position)?;
        self.snapshots.forget(position);
        self.history.drain(..position);
        self.drop_records(py, cut, shared)
    }

    /// Report that the detector's state could not be copied, as a failure of the last event.
    fn report_broken(&mut self, py: Python<'_>, shared: &mut Shared) -> PyResult<()> {
        if let Some(event) = self.history.last().map(|entry| &entry.event)
            && let Some(traceback) = self.broken.take()
        {
            if self.records.last().is_some_and(|record| record.is_failure && record.cause.event.is(event)) {
                self.records.pop(); // it was left out; this is why
            }
            shared.failures.push(shared.calls.get().failure(py, event, &traceback)?);
        }
        Ok(())
    }

    /// Forget the first records, which are final; report the failures among them.
    fn drop_records(&mut self, py: Python<'_>, cut: usize, shared: &mut Shared) -> PyResult<()> {
        for record in self.records.drain(..cut) {
            if record.is_failure {
                shared.failures.push(record.published);
                continue;
            }
            for event in record.published.bind(py).get_item(1)?.try_iter()? {
                shared.newest = shared.newest.max(Stamps::get(py)?.ts(&event?)?);
            }
        }
        Ok(())
    }

    /// All that the lane needs to go on in another process, without what is final, unless there are failures among it.
    pub fn whole_state<'py>(&mut self, py: Python<'py>, settled: i64, shared: &mut Shared) -> PyResult<Bound<'py, PyTuple>> {
        if !shared.keeps_history {
            self.snapshots = Snapshots::new(self.state(py, shared)?);
        }
        let is_sound = self.broken.is_none() && !self.records.iter().any(|record| record.is_failure);
        if is_sound && self.history.first().is_some_and(|entry| entry.ts <= settled) {
            self.purge(py, settled, shared)?;
        }
        let newest = self.snapshots.newest();
        let live = if newest.position == self.history.len() { newest.state.clone_ref(py) } else { self.state(py, shared)? };
        let live = live.boxed(py)?;
        let history = PyList::new(py, self.history.iter().map(|entry| &entry.event))?;
        let published = PyList::new(py, self.records.iter().map(|record| &record.published))?;
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

    /// Have later events wait for the pending work of this number.
    pub fn wait_for(&mut self, pending: usize) {
        self.pending = Some(pending);
        self.last = i64::MAX;
    }

    /// Nothing is pending any more.
    pub fn settle(&mut self) {
        self.pending = None;
        self.last = self.history.last().map_or(NEVER, |entry| entry.ts);
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.key)?;
        self.detector.traverse(visit)?;
        self.snapshots.iter().try_for_each(|snapshot| snapshot.state.traverse(visit))?;
        self.records.iter().try_for_each(|record| visit.call(&record.published))
    }

    /// Every invariant of a lane; returns what is wrong, if anything is.
    pub fn fault(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        for pair in self.history.windows(2) {
            if py.compare(&pair[0], &pair[1])? != Ordering::Less {
                return Ok(Some("history out of order"));
            }
        }
        let mut free = 0;
        for record in &self.records {
            match place_of(py, &self.history[free..], &record.cause)? {
                Ok(offset) => free += offset + 1,
                Err(_) => return Ok(Some("results out of order, or of events that are gone")),
            }
        }
        if self.pending.is_some() || self.history.last().is_some_and(|entry| entry.ts != self.last) {
            return Ok(Some("last is not the last"));
        }
        Ok(self.snapshots.fault(self.history.len()))
    }
}
