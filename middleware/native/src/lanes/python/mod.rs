//! Keyed lanes: the class that Python sees, and how it gives each event to the lane of its key.

pub mod calls;
pub mod counts;
mod detector;
mod emission;
mod keyless;
mod keys;
mod lane;
mod running;
mod shared;
mod stamp;
mod state;
mod writing;

use std::hint::black_box;

use pyo3::exceptions::PyAssertionError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use self::calls::LaneCalls;
use self::counts::Counts;
use self::detector::{Detector, State};
use self::emission::{Emission, combined, inserted};
use self::keyless::Keyless;
use self::keys::{Key, Numbers};
use self::lane::LaneState;
use self::running::{Objects, Running};
use self::shared::{Settings, Shared};
use self::stamp::Stamp;
use self::writing::Writing;
use crate::event::order::place_of;
use crate::event::python::entry::Entry;
use crate::event::python::fields::Stamps;
use crate::lanes::emission::{Early, Pending, Rounds};
use crate::lanes::lane::Lane;

/// The fields of `middleware.ordering.lanes.lanes.LanesState`: lanes by key (in parts), events without a lane, failures.
type LanesState<'py> = (Vec<KeyedLane<'py>>, Bound<'py, PyDict>, Vec<Py<PyAny>>);
type KeyedLane<'py> = (Bound<'py, PyAny>, LaneState<'py>);

/// The input of a detector in one step: `middleware.ordering.lanes.ready_events.ReadyEvents`.
#[derive(FromPyObject)]
struct Ready<'py> {
    ahead: Bound<'py, PyList>,
    behind: Bound<'py, PyList>,
}

/// All events lie at or below this time.
const END: i64 = 1 << 62;

/// How many lanes one purge looks at: a unit purges after 1,024 events, so silent lanes keep some four events a key.
const SWEEP: usize = 256;

/// Fewer lanes than this stay in the caches.
const MANY: usize = 512;

/// Holds a mutable borrow of itself while Python runs: a detector or a key that came back in would get a `RuntimeError`.
#[pyclass(module = "middleware.native")]
pub struct KeyedLanes {
    name: Py<PyAny>,
    level: Py<PyAny>,
    key: Key,
    /// In the initial state; each lane gets a copy.
    detector: Py<PyAny>,
    initial: State,
    /// The number of each key's lane.
    numbers: Numbers,
    lanes: Vec<Lane<Objects>>,
    shared: Shared,
    keyless: Keyless,
    /// The lane at which the next purge begins.
    sweep: usize,
    calls: u64,
    /// The lanes whose state is being written down, a few at a time.
    writing: Writing,
}

#[pymethods]
impl KeyedLanes {
    /// `recipes`: of the types that the detector publishes (see `Maker`). `is_timed`: identities of results rest on their times.
    /// `is_plain`: the detector leaves snapshots to the middleware, and its `__dict__` is all its state.
    #[new]
    #[pyo3(signature = (detector, settings, calls, *, name, level, key, recipes, backdate, is_timed, is_plain))]
    #[expect(clippy::too_many_arguments, reason = "one record, given once")]
    fn new(
        detector: Bound<'_, PyAny>,
        settings: Settings,
        calls: Py<LaneCalls>,
        name: Bound<'_, PyAny>,
        level: Bound<'_, PyAny>,
        key: Bound<'_, PyAny>,
        recipes: Vec<Bound<'_, PyAny>>,
        backdate: i64,
        is_timed: bool,
        is_plain: bool,
    ) -> PyResult<Self> {
        let py = name.py();
        let stamp = Stamp::new(&name, &level, &recipes, backdate, is_timed)?;
        let shared = Shared::new(py, &settings, calls, stamp, !key.is_none(), is_plain)?;
        Ok(Self {
            name: name.unbind(),
            level: level.unbind(),
            key: Key::new(key)?,
            detector: shared.calls.get().fresh.call1(py, (&detector,))?,
            initial: State::of(detector.call_method0("snapshot")?, &shared),
            numbers: Numbers::new(py),
            lanes: Vec::new(),
            keyless: Keyless::new(py),
            shared,
            sweep: 0,
            calls: 0,
            writing: Writing::default(),
        })
    }

    fn __len__(&self) -> usize {
        self.lanes.len()
    }

    /// The counts of work that the lanes have done.
    #[getter]
    fn counts(&self, py: Python<'_>) -> Py<Counts> {
        self.shared.counts.clone_ref(py)
    }

    /// Whether an emitted event stands here, and is kept.
    fn holds(&mut self, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self.key.of(event).and_then(|key| self.numbers.get(&key)) {
            Ok(Some(number)) => {
                let entry = Entry::new(event)?;
                Ok(place_of(event.py(), &self.lanes[number].history, &entry)?.is_ok())
            }
            Ok(None) => Ok(false),
            Err(error) if !self.shared.calls.get().is_failure(event.py(), &error) => Err(error),
            Err(_) => self.keyless.holds(event),
        }
    }

    /// Take changed settings.
    fn configure(&mut self, settings: Settings) {
        self.shared.configure(&settings);
    }

    /// How many emitted events are kept, because they may still be disturbed or lie behind the last snapshot. O(keys).
    #[getter]
    fn held(&self) -> usize {
        self.lanes.iter().map(|lane| lane.history.len()).sum()
    }

    /// The latest time of the results that were forgotten, as they are final.
    #[getter]
    fn newest(&self) -> i64 {
        self.shared.newest
    }

    /// Take a snapshot of some lane and forget it, to see what it costs. If that fails, the lane will say so by itself.
    fn snapshot(&self, py: Python<'_>) -> PyResult<()> {
        match self.lanes.first().map(|lane| lane.detector.state(py, &self.shared)) {
            Some(Err(error)) if !self.shared.calls.get().is_failure(py, &error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Give each event to the lane of its key; then correct the lanes with something out of order.
    ///
    /// A lane that published in this call and is corrected by it does so in two deltas, in sequence.
    fn emit<'py>(
        &mut self,
        ready: Ready<'py>,
        removed: Bound<'py, PyList>,
        clk: Bound<'py, PyAny>,
        k: Bound<'py, PyAny>,
        settled: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        let results = PyList::empty(removed.py());
        let mut emission = Emission { clk, k, settled, results, pending: Vec::new() };
        self.calls += 1;
        let outcome = self.emit_all(&ready, &removed, &mut emission);
        for work in emission.pending {
            self.lanes[work.lane].settle(); // an error came before its turn
        }
        outcome
    }

    /// Give events to the lanes of their keys, which keep no history: all come in total order, and are final as they come.
    ///
    /// `runs`: lists of events; each is made as it is taken, so that few events at a time are in the processor's caches.
    fn emit_final<'py>(
        &mut self,
        runs: &Bound<'py, PyAny>,
        removed: &Bound<'py, PyList>,
        clk: i64,
        k: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = removed.py();
        for event in removed {
            if !self.keyless.withdraw(&event)? {
                self.shared.counts.get().unknown.add(1); // no lane has it any more
            }
        }
        let (results, mut early) = (PyList::empty(py), Early::since(clk.saturating_sub(k)));
        for run in runs.try_iter()? {
            let run = run?;
            let events = run.cast::<PyList>()?;
            let numbers = self.look_up(events)?;
            for (at, event) in events.iter().enumerate() {
                let before = results.len();
                if let Some(ts) = self.give_final(&event, numbers.get(at).copied().flatten(), &results)? {
                    early.note(ts, before, results.len());
                }
            }
        }
        let published = if results.is_empty() { vec![] } else { vec![inserted(early, &results, &self.shared)?] };
        PyList::new(py, published)
    }

    /// Run events in total order, before which no others will come, so nothing is kept to go back to; their results are added to
    /// `results`. What is raised at one of them ends it: then these lanes are of no use.
    fn run(&mut self, events: &Bound<'_, PyList>, results: &Bound<'_, PyList>) -> PyResult<()> {
        for event in events {
            let number = self.lane_of(&event)?;
            self.lanes[number].detector.run_into(&event, results, &mut self.shared)?;
        }
        Ok(())
    }

    /// Run events in total order, lane after lane: at each of the places `starts` the next lane begins, and no more comes of those
    /// before. Returns how many events were run, and the state of the last lane (see `LaneState`), to go back to. If a detector
    /// raises at one of them, or its state cannot be copied, these are the events before its lane, `results` are those of them, and
    /// there is no state.
    fn run_lanes<'py>(
        &mut self,
        events: &Bound<'py, PyList>,
        starts: Vec<usize>,
        results: &Bound<'py, PyList>,
    ) -> PyResult<(usize, Option<Bound<'py, PyTuple>>)> {
        let (py, mut starts) = (events.py(), starts.into_iter().peekable());
        let mut began = (0, results.len());
        let mut outcome = Ok(());
        for (at, event) in events.iter().enumerate() {
            if starts.next_if_eq(&at).is_some() {
                began = (at, results.len());
                self.lanes.clear();
                self.numbers.clear(py);
                outcome = self.key.of(&event).and_then(|key| self.new_lane(key, false)).map(|_| ());
            }
            outcome = outcome.and_then(|()| self.lanes[0].detector.run_into(&event, results, &mut self.shared));
            if outcome.is_err() {
                break;
            }
        }
        match outcome.and_then(|()| self.lanes[0].detector.state(py, &self.shared)?.boxed(py)) {
            Ok(state) => Ok((events.len(), Some(state))),
            Err(error) if self.shared.calls.get().is_failure(py, &error) => {
                results.del_slice(began.1, results.len())?;
                Ok((began.0, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Copy the state of each lane, and drop it: raises what a state that cannot be copied raises. O(states).
    fn copy_states(&self, py: Python<'_>) -> PyResult<()> {
        self.lanes.iter().try_for_each(|lane| lane.detector.state(py, &self.shared).map(|_| ()))
    }

    /// Forget what is final, in the next few lanes; in all of them at the end. Returns failures that became final.
    ///
    /// Busy lanes purge themselves as they run; this sweep is for those that fell silent. `everywhere`: in all lanes now.
    #[pyo3(name = "purge", signature = (r#final, everywhere=false))]
    fn purge_some(&mut self, py: Python<'_>, r#final: i64, everywhere: bool) -> PyResult<Vec<Py<PyAny>>> {
        let count = if everywhere || r#final == END { self.lanes.len() } else { SWEEP.min(self.lanes.len()) };
        for _ in 0..count {
            self.sweep = if self.sweep + 1 < self.lanes.len() { self.sweep + 1 } else { 0 };
            let lane = &mut self.lanes[self.sweep];
            if !lane.history.is_empty() && (everywhere || lane.last <= r#final) {
                self.writing.before(py, self.sweep, lane, &mut self.shared)?;
                lane.purge(r#final, &mut Running { py, shared: &mut self.shared })?;
            }
        }
        self.keyless.settle(py, r#final, &mut self.shared)?;
        Ok(std::mem::take(&mut self.shared.failures))
    }

    /// Results later than `promised`, of all lanes. O(what is kept).
    fn provisional<'py>(&self, py: Python<'py>, promised: i64) -> PyResult<Bound<'py, PyList>> {
        let found = PyList::empty(py);
        for record in self.lanes.iter().flat_map(|lane| &lane.records) {
            for event in record.published.bind(py).get_item(1)?.try_iter()? {
                let event = event?;
                if Stamps::get(py)?.ts(&event)? > promised {
                    found.append(event)?;
                }
            }
        }
        Ok(found)
    }

    /// All that the lanes need to continue in another process, but for the lanes themselves, which `part` gives as they are now.
    /// O(1). `final`: how far the unit has got. A copy that was begun before and is not complete is dropped.
    #[pyo3(signature = (r#final))]
    fn state<'py>(&mut self, py: Python<'py>, r#final: i64) -> PyResult<Bound<'py, PyTuple>> {
        self.writing = Writing::of(self.lanes.len(), r#final);
        let failures = PyList::new(py, &self.shared.failures)?;
        PyTuple::new(py, [PyList::empty(py).as_any(), self.keyless.all(py).copy()?.as_any(), failures.as_any()])
    }

    /// The next lanes, at most `count`, as they were when `state` was called: (key, lane); none if that was all.
    fn part<'py>(&mut self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let part = PyList::empty(py);
        for number in self.writing.next(count) {
            let lane = &mut self.lanes[number];
            let state = self.writing.state_of(py, number, lane, &mut self.shared)?;
            part.append((&lane.detector.key, state))?;
        }
        Ok(part)
    }

    /// Become the lanes that gave `state`, here or in the twin.
    fn restore(&mut self, py: Python<'_>, state: LanesState<'_>) -> PyResult<()> {
        let (lanes, keyless, failures) = state;
        self.keyless.restore(py, &keyless)?;
        self.shared.failures = failures;
        self.restore_part(py, lanes)
    }

    /// Add lanes that `part` gave.
    fn restore_part(&mut self, py: Python<'_>, lanes: Vec<KeyedLane<'_>>) -> PyResult<()> {
        for (key, lane) in lanes {
            let number = self.new_lane(key, true)?;
            self.lanes[number].restore(py, lane, &mut self.shared)?;
        }
        Ok(())
    }

    /// Raise `AssertionError` if an invariant does not hold.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        for lane in &self.lanes {
            if let Some(fault) = lane.fault(py)? {
                return Err(PyAssertionError::new_err(fault));
            }
        }
        Ok(())
    }

    /// Events are skipped: they are leaves to the collector, which never sees inside them (`gc=False`).
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.key.traverse(&visit)?;
        visit.call(&self.detector)?;
        self.initial.traverse(&visit)?;
        self.numbers.traverse(&visit)?;
        self.writing.traverse(&visit)?;
        self.lanes.iter().try_for_each(|lane| lane.traverse(&visit))
    }

    /// Every cycle of references leads through a detector or a key function, and a function clears itself.
    fn __clear__(&mut self, py: Python<'_>) {
        self.numbers.clear(py);
        self.writing = Writing::default();
        self.lanes.clear();
    }
}

impl KeyedLanes {
    fn emit_all<'py>(
        &mut self,
        ready: &Ready<'py>,
        removed: &Bound<'py, PyList>,
        emission: &mut Emission<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = removed.py();
        for event in removed {
            self.withdraw(&event, emission)?;
        }
        for events in [&ready.behind, &ready.ahead] {
            let numbers = self.look_up(events)?;
            for (at, event) in events.iter().enumerate() {
                self.give(&event, numbers.get(at).copied().flatten(), emission)?;
            }
        }
        let mut rounds = Rounds::default();
        if let Some(inserted) = emission.inserted(&emission.results, &self.shared)? {
            rounds.add(0, inserted);
        }
        let pending = std::mem::take(&mut emission.pending);
        for work in &pending {
            self.lanes[work.lane].settle();
        }
        for work in pending {
            let lane = &mut self.lanes[work.lane];
            let first = usize::from(lane.published_in == self.calls);
            for (index, delta) in lane.corrections(emission, work, &mut self.shared)?.into_iter().enumerate() {
                rounds.add(first + index, delta);
            }
            lane.trim(emission.settled, &mut Running { py, shared: &mut self.shared })?;
        }
        combined(py, rounds, &self.shared)
    }

    /// The numbers of the lanes of events, where they are known without a call. Of many lanes, most are not in the caches, and to
    /// wait for one takes as long as for all of a batch: so all are looked at before the first runs.
    fn look_up(&mut self, events: &Bound<'_, PyList>) -> PyResult<Vec<Option<usize>>> {
        let Key::Attribute(field) = &self.key else { return Ok(Vec::new()) };
        if self.lanes.len() < MANY {
            return Ok(Vec::new());
        }
        let (py, mut numbers) = (events.py(), Vec::with_capacity(events.len()));
        for event in events {
            let number = match field.of(&event).and_then(|key| self.numbers.get(&key)) {
                Err(error) if !self.shared.calls.get().is_failure(py, &error) => return Err(error),
                found => found.unwrap_or(None), // what fails here will fail in its turn
            };
            if let Some(number) = number {
                black_box(self.lanes[number].look(py));
            }
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// Give an event to the lane of its key if it is in order there; else it waits until all others were given.
    #[inline]
    fn give<'py>(&mut self, event: &Bound<'py, PyAny>, known: Option<usize>, emission: &mut Emission<'py>) -> PyResult<()> {
        let py = event.py();
        let found = known.map_or_else(|| self.lane_of(event), Ok);
        let (number, entry) = match found.and_then(|number| Ok((number, Entry::new(event)?))) {
            Ok(found) => found,
            Err(error) => return self.keyless.add(event, error, &mut self.shared),
        };
        let lane = &mut self.lanes[number];
        self.writing.before(py, number, lane, &mut self.shared)?;
        if entry.ts > lane.last {
            if let Some(published) = lane.advance(entry, emission.settled, &mut Running { py, shared: &mut self.shared })? {
                emission.results.append(published)?;
                lane.published_in = self.calls;
            }
        } else {
            self.pending(number, emission).behind.push(entry);
        }
        Ok(())
    }

    /// Give an event that is final as it comes to the lane of its key; returns its time, or None if its key cannot be found.
    #[inline]
    fn give_final(
        &mut self,
        event: &Bound<'_, PyAny>,
        known: Option<usize>,
        results: &Bound<'_, PyList>,
    ) -> PyResult<Option<i64>> {
        let py = event.py();
        let found = known.map_or_else(|| self.lane_of(event), Ok);
        let (number, ts) = match found.and_then(|number| Ok((number, Stamps::get(py)?.ts(event)?))) {
            Ok(found) => found,
            Err(error) => return self.keyless.add(event, error, &mut self.shared).map(|()| None),
        };
        let lane = &mut self.lanes[number];
        self.writing.before(py, number, lane, &mut self.shared)?;
        lane.advance_final(event, ts, results, &mut self.shared)?;
        Ok(Some(ts))
    }

    /// The number of an event's lane. The first event of a key makes it, from the detector's initial state.
    #[inline]
    fn lane_of(&mut self, event: &Bound<'_, PyAny>) -> PyResult<usize> {
        if matches!(self.key, Key::Same) && !self.lanes.is_empty() {
            return Ok(0);
        }
        let key = self.key.of(event)?;
        match self.numbers.get(&key)? {
            Some(number) => Ok(number),
            None => self.new_lane(key, false),
        }
    }

    /// `is_blank`: its detector is about to be given its state.
    fn new_lane(&mut self, key: Bound<'_, PyAny>, is_blank: bool) -> PyResult<usize> {
        let py = key.py();
        let number = self.lanes.len();
        let calls = self.shared.calls.get();
        let (derive, origin) = calls.derivation.bind(py).call1((&self.name, &self.detector, &self.level, &key))?.extract()?;
        let made = if is_blank { &calls.blank } else { &calls.fresh };
        let instance = made.bind(py).call1((&self.detector,))?;
        let detector = Detector::new(key.clone().unbind(), instance, derive, origin)?;
        let lane = Lane::new(detector, self.initial.clone_ref(py));
        self.numbers.add(key, number)?;
        self.lanes.push(lane);
        Ok(number)
    }

    /// The work that waits for a lane. Whatever else comes for the lane in this call must wait for its turn.
    fn pending<'a>(&mut self, number: usize, emission: &'a mut Emission<'_>) -> &'a mut Pending<Entry> {
        let at = self.lanes[number].pending.unwrap_or_else(|| {
            emission.pending.push(Pending { lane: number, behind: Vec::new(), gone: Vec::new() });
            emission.pending.len() - 1
        });
        self.lanes[number].wait_for(at);
        &mut emission.pending[at]
    }

    /// Note that an emitted event is withdrawn. One whose key cannot be found never went to a lane.
    fn withdraw<'py>(&mut self, event: &Bound<'py, PyAny>, emission: &mut Emission<'py>) -> PyResult<()> {
        let found = self.key.of(event).and_then(|key| {
            let number = self.numbers.get(&key)?;
            Ok((number, Entry::new(event)?))
        });
        match found {
            Ok((Some(number), entry)) => {
                self.writing.before(event.py(), number, &mut self.lanes[number], &mut self.shared)?;
                self.pending(number, emission).gone.push(entry);
            }
            Err(error) if !self.shared.calls.get().is_failure(event.py(), &error) => return Err(error),
            _ if self.keyless.withdraw(event)? => {}
            _ => self.shared.counts.get().unknown.add(1),
        }
        Ok(())
    }
}
