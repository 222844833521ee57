//! `middleware.native.KeyedWindows`: contents by key, what a change touches, and what is due when time passes.
//!
//! What was published is never stored: it follows from what the windows held, and is calculated again where a change touches
//! it. `detectors.window.running` is the twin, for all kinds of windows and all monoids.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::aggregate::{Value, What};
use super::key::{Key, Keys};
use super::lane::{Lane, NEVER};
use super::made::Made;
use super::plan::{Column, Plan, Row};
use super::taken::Given;
use crate::fields::{Field, Maker, Stamps};

/// Watermark of a stream that has promised nothing.
const NOTHING: i64 = -(1 << 62);
const END: i64 = 1 << 62;

/// Changes of one key that touch windows which are published.
pub(super) struct Late {
    lane: usize,
    come: Vec<(i64, Row)>,
    gone: Vec<(i64, Row)>,
}

/// Changes of results: rows of values in the order of the result's fields.
struct Out<'py> {
    inserted: Bound<'py, PyList>,
    /// New results as columns, if they are asked for; `inserted` then has those that do not fit.
    made: Option<RefCell<Made>>,
    old: Bound<'py, PyList>,
    new: Bound<'py, PyList>,
    withdrawn: Bound<'py, PyList>,
    /// Whether a whole number among them is beyond 64 bits.
    beyond: Cell<bool>,
}

impl<'py> Out<'py> {
    fn new(py: Python<'py>) -> Self {
        let list = || PyList::empty(py);
        Self { inserted: list(), made: None, old: list(), new: list(), withdrawn: list(), beyond: Cell::new(false) }
    }

    /// A new result.
    #[inline]
    fn insert(&self, windows: &KeyedWindows, number: usize, window: &Window<'py>, values: &[Value]) -> PyResult<()> {
        if let Some(made) = &self.made {
            let lane = &windows.lanes[number];
            if made.borrow_mut().push(number, lane, (window.start, window.end), values) {
                return Ok(());
            }
        }
        self.note(values);
        self.inserted.append(windows.row(number, window, values)?)
    }

    #[inline]
    fn note(&self, values: &[Value]) {
        if values.iter().any(|value| value.is_beyond()) {
            self.beyond.set(true);
        }
    }
}

/// A window, and its bounds as Python objects, which all keys share.
struct Window<'py> {
    start: i64,
    end: i64,
    bounds: [Bound<'py, PyAny>; 2],
}

impl<'py> Window<'py> {
    fn new(py: Python<'py>, start: i64, end: i64) -> PyResult<Self> {
        Ok(Self { start, end, bounds: [start.into_bound_py_any(py)?, end.into_bound_py_any(py)?] })
    }
}

#[pyclass(module = "middleware.native")]
pub struct KeyedWindows {
    pub(super) plan: Plan,
    pub(super) keys: Keys,
    lanes: Vec<Lane>,
    free: Vec<usize>,
    /// Lanes by the end of the window that is next in them. Ends are few, since windows are in step.
    due: BTreeMap<i64, Vec<usize>>,
    /// Windows that end until here are published.
    upto: i64,
    swept: i64,
    held: usize,
    encode: Py<PyAny>,
    seed: u64,
    source: Py<PyAny>,
    level: Py<PyAny>,
    /// For each field of a result: which of key fields, start, end, values, ts, id, source, level.
    layout: Vec<usize>,
    /// Whether the fields are in just that order.
    is_plain: bool,
    pub(super) key_fields: usize,
    /// Makes results of `apply`, if not rows are asked for.
    maker: Option<Maker>,
    makes: bool,
}

#[pymethods]
impl KeyedWindows {
    #[new]
    #[pyo3(signature = (*, sizes, every, offset, key, columns, aggregates, layout, source, level, seed, encode, show, at_once))]
    #[expect(clippy::too_many_arguments, reason = "one plan, given once")]
    fn new(
        py: Python<'_>,
        sizes: Vec<i64>,
        every: i64,
        offset: i64,
        key: Vec<String>,
        columns: Vec<(String, bool)>,
        aggregates: Vec<(String, Option<usize>)>,
        layout: Vec<usize>,
        source: Py<PyAny>,
        level: Py<PyAny>,
        seed: u64,
        encode: Py<PyAny>,
        show: Py<PyAny>,
        at_once: bool,
    ) -> PyResult<Self> {
        let column = |(field, is_float): (String, bool)| Column { field: Field::new(py, &field), is_float };
        let aggregates = aggregates.into_iter().map(|(name, column)| Ok((What::new(&name)?, column)));
        let key_fields = key.len();
        Ok(Self {
            plan: Plan {
                longest: sizes.iter().copied().max().unwrap_or(0),
                sizes,
                every,
                offset,
                columns: columns.into_iter().map(column).collect(),
                aggregates: aggregates.collect::<PyResult<_>>()?,
            },
            keys: Keys::new(py, key, show)?,
            lanes: Vec::new(),
            free: Vec::new(),
            due: BTreeMap::new(),
            upto: if at_once { END } else { NOTHING },
            swept: NOTHING,
            held: 0,
            encode,
            seed,
            source,
            level,
            is_plain: layout.iter().enumerate().all(|(number, &place)| number == place),
            layout,
            key_fields,
            maker: None,
            makes: false,
        })
    }

    /// From now on `apply` gives results as events where it can; `recipe`: see `Maker`.
    fn make(&mut self, recipe: &Bound<'_, PyAny>) -> PyResult<()> {
        self.maker = Maker::new(recipe)?;
        Ok(())
    }

    /// Take changes and time. Gives rows: inserted, revised (old and new), withdrawn; and whether a whole number among them is
    /// beyond 64 bits. `fail(event, error)` is called for events that cannot be read.
    fn apply<'py>(
        &mut self,
        inserts: Bound<'py, PyList>,
        retracts: Bound<'py, PyList>,
        upto: i64,
        r#final: i64,
        fail: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = inserts.py();
        self.makes = self.maker.is_some();
        let mut late = Vec::new();
        let outcome = self.take(&inserts, &retracts, &mut late, &fail);
        self.settle(py, late, outcome, (upto, r#final))
    }

    /// As `apply`, with columns of what comes: times, keys, and one for each that is read. No object an event.
    ///
    /// `keys`: one column, or a pair of codes and what they stand for. `columns`: values, and which of them are there (None:
    /// all). `as_columns`: give new results as columns, too (`Made::columns`); rows only for those that do not fit. Raises, with
    /// nothing taken, for a key of which no result can be made.
    #[pyo3(signature = (times, keys, columns, upto, r#final, retracts=None, as_columns=false))]
    #[expect(clippy::too_many_arguments, reason = "all that comes in one step")]
    fn feed<'py>(
        &mut self,
        times: Bound<'py, PyAny>,
        keys: Bound<'py, PyAny>,
        columns: Vec<Given<'py>>,
        upto: i64,
        r#final: i64,
        retracts: Option<Bound<'py, PyList>>,
        as_columns: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = times.py();
        self.makes = false;
        let mut late = Vec::new();
        let outcome = self.take_columns(&times, &keys, &columns, retracts.as_ref(), &mut late);
        let out = self.changed(py, late, outcome, upto, as_columns)?;
        let made = out.made.as_ref().map(|made| made.borrow().columns(py, &self.lanes, self.seed)).transpose()?;
        self.purge(py, r#final)?;
        (out.inserted, out.old, out.new, out.withdrawn, out.beyond.get(), made).into_pyobject(py)
    }

    #[getter]
    fn held(&self) -> usize {
        self.held
    }

    #[getter]
    fn keys(&self, py: Python<'_>) -> usize {
        self.keys.len(py)
    }

    /// (upto, swept, [(key, its fields as results show them, rows as bytes)]).
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let contents = PyList::empty(py);
        for lane in self.lanes.iter().filter(|lane| lane.len() > 0) {
            let bytes: Vec<u8> = lane.content().iter().flat_map(|number| number.to_le_bytes()).collect();
            contents.append((&lane.key, &lane.shown, PyBytes::new(py, &bytes)))?;
        }
        (self.upto, self.swept, contents).into_pyobject(py)
    }

    fn restore(
        &mut self,
        upto: i64,
        swept: i64,
        contents: Vec<(Bound<'_, PyAny>, Bound<'_, PyTuple>, Vec<u8>)>,
    ) -> PyResult<()> {
        (self.upto, self.swept, self.held) = (upto, swept, 0);
        self.due.clear();
        for (key, shown, bytes) in contents {
            let number = self.new_lane(&key, shown.unbind())?;
            let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
            self.lanes[number].refill(words.collect());
            self.held += self.lanes[number].len();
            let end = self.next(number, self.plan.end(upto.saturating_add(1)));
            self.list(number, end);
        }
        Ok(())
    }
}

impl KeyedWindows {
    /// Sort changes: what touches no published window is done at once, the rest waits, by key.
    fn take(
        &mut self,
        inserts: &Bound<'_, PyList>,
        retracts: &Bound<'_, PyList>,
        late: &mut Vec<Late>,
        fail: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = inserts.py();
        self.take_back(retracts, late)?;
        let mut row = Row::new();
        for event in inserts {
            let (lane, ts) = match self.read(&event, &mut row) {
                Ok(found) => found,
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    fail.call1((&event, error))?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.put(lane, ts, &row, late);
        }
        Ok(())
    }

    /// Withdraw events.
    pub(super) fn take_back(&mut self, retracts: &Bound<'_, PyList>, late: &mut Vec<Late>) -> PyResult<()> {
        let mut row = Row::new();
        for event in retracts {
            let (lane, ts) = self.read(&event, &mut row)?;
            if ts > self.upto {
                self.held -= usize::from(self.lanes[lane].remove(ts, &row));
            } else {
                self.pending(lane, late).gone.push((ts, row.clone()));
            }
        }
        Ok(())
    }

    /// A row for a lane: at once, or, if it touches published windows, when all has been taken.
    #[inline]
    pub(super) fn put(&mut self, lane: usize, ts: i64, row: &[u64], late: &mut Vec<Late>) {
        if ts > self.upto {
            self.lanes[lane].insert(ts, row);
            self.held += 1;
            self.schedule(lane, ts);
        } else {
            self.pending(lane, late).come.push((ts, row.to_vec()));
        }
    }

    /// Once all has been taken: correct, publish, forget.
    fn settle<'py>(
        &mut self,
        py: Python<'py>,
        late: Vec<Late>,
        outcome: PyResult<()>,
        (upto, r#final): (i64, i64),
    ) -> PyResult<Bound<'py, PyTuple>> {
        let out = self.changed(py, late, outcome, upto, false)?;
        self.purge(py, r#final)?;
        (out.inserted, out.old, out.new, out.withdrawn, out.beyond.get()).into_pyobject(py)
    }

    /// Correct results, and publish new ones.
    fn changed<'py>(
        &mut self,
        py: Python<'py>,
        late: Vec<Late>,
        outcome: PyResult<()>,
        upto: i64,
        as_columns: bool,
    ) -> PyResult<Out<'py>> {
        for work in &late {
            self.lanes[work.lane].pending = None;
        }
        outcome?;
        let mut out = Out::new(py);
        out.made = as_columns.then(|| RefCell::new(Made::new(&self.plan)));
        for work in late {
            self.correct(py, work, &out)?;
        }
        self.pass(py, upto, &out)?;
        Ok(out)
    }

    /// The lane of an event, and its time; the rest of it in `row`.
    #[inline]
    fn read(&mut self, event: &Bound<'_, PyAny>, row: &mut Row) -> PyResult<(usize, i64)> {
        let ts = self.plan.read(event, Stamps::get(event.py())?, row)?;
        let key = self.keys.of(event)?;
        Ok((self.lane_of(&key)?, ts))
    }

    #[inline]
    pub(super) fn lane_of(&mut self, key: &Key<'_>) -> PyResult<usize> {
        match self.keys.get(&key.known)? {
            Some(number) => Ok(number as usize),
            None => self.new_lane(&key.known, self.keys.shown(key)?),
        }
    }

    /// Raises for a key of which no identity can be made.
    fn new_lane(&mut self, key: &Bound<'_, PyAny>, shown: Py<PyTuple>) -> PyResult<usize> {
        let mut prefix: Vec<u8> = self.encode.bind(key.py()).call1(((key, 0, 0),))?.extract()?;
        prefix.truncate(prefix.len() - 2);
        let lane = Lane::new(key.clone().unbind(), shown.bind(key.py()), &prefix, self.plan.width());
        let number = self.free.pop().unwrap_or(self.lanes.len());
        self.keys.add(key, u32::try_from(number).expect("fewer than 2^32 keys"))?;
        if number == self.lanes.len() {
            self.lanes.push(lane);
        } else {
            self.lanes[number] = lane;
        }
        Ok(number)
    }

    fn pending<'a>(&mut self, lane: usize, late: &'a mut Vec<Late>) -> &'a mut Late {
        let at = *self.lanes[lane].pending.get_or_insert_with(|| {
            late.push(Late { lane, come: Vec::new(), gone: Vec::new() });
            late.len() - 1
        });
        &mut late[at]
    }

    /// An event came at `ts`: its first window that is not published is due at its end.
    #[inline]
    fn schedule(&mut self, number: usize, ts: i64) {
        let (next, ts_or_later) = (self.lanes[number].next, ts.max(self.upto.saturating_add(1)));
        if ts_or_later > next.saturating_sub(self.plan.every) {
            return; // its end is not before the next one
        }
        let end = self.plan.end(ts_or_later);
        if end < next && end - self.plan.longest < ts {
            self.list(number, end);
        }
    }

    /// The end of the first window that is not empty, from the one that ends at `end`.
    #[inline]
    fn next(&self, number: usize, mut end: i64) -> i64 {
        let lane = &self.lanes[number];
        while let Some(first) = lane.first_after(end - self.plan.longest) {
            if first <= end {
                return end;
            }
            end = self.plan.end(first); // and look again: it may lie between windows
        }
        NEVER
    }

    /// See to it that a lane is looked at when this window ends.
    #[inline]
    fn list(&mut self, number: usize, end: i64) {
        self.lanes[number].next = end;
        if end != NEVER {
            self.due.entry(end).or_default().push(number);
        }
    }

    /// Results of published windows change: calculate them as they were, and as they are.
    fn correct(&mut self, py: Python<'_>, work: Late, out: &Out<'_>) -> PyResult<()> {
        let mut ends: Vec<i64> = Vec::new();
        for &(ts, _) in work.gone.iter().chain(&work.come) {
            let first = self.plan.end(ts);
            let last = (ts + self.plan.longest - 1).min(self.upto);
            ends.extend((first..=last).step_by(usize::try_from(self.plan.every).expect("positive")));
        }
        ends.sort_unstable();
        ends.dedup();
        let windows: Vec<(i64, i64)> =
            ends.iter().flat_map(|&end| self.plan.sizes.iter().map(move |&size| (end - size, end))).collect();
        let results =
            |lane: &Lane| -> Vec<_> { windows.iter().map(|&(start, end)| lane.results(&self.plan, start, end)).collect() };
        let lane = &mut self.lanes[work.lane];
        let before = results(lane);
        let held = lane.len();
        for (ts, row) in &work.gone {
            lane.remove(*ts, row);
        }
        for (ts, row) in &work.come {
            lane.insert(*ts, row);
        }
        let after = results(lane);
        self.held = self.held + lane.len() - held;
        for (&(start, end), (old, new)) in windows.iter().zip(before.iter().zip(&after)) {
            let window = Window::new(py, start, end)?;
            let row = |values: &[Value]| {
                out.note(values);
                self.row(work.lane, &window, values)
            };
            match (old, new) {
                (None, Some(new)) => out.insert(self, work.lane, &window, new)?,
                (Some(old), None) => out.withdrawn.append(row(old)?)?,
                (Some(old), Some(new)) if !old.iter().zip(new).all(|(old, new)| old.same(*new)) => {
                    out.old.append(row(old)?)?;
                    out.new.append(row(new)?)?;
                }
                _ => {}
            }
        }
        for (ts, _) in work.come {
            self.schedule(work.lane, ts);
        }
        Ok(())
    }

    /// Publish the windows that end until `upto`.
    fn pass(&mut self, py: Python<'_>, upto: i64, out: &Out<'_>) -> PyResult<()> {
        if upto <= self.upto {
            return Ok(());
        }
        let mut values = Vec::new();
        while let Some(entry) = self.due.first_entry()
            && *entry.key() <= upto
        {
            let (end, mut lanes) = entry.remove_entry();
            lanes.sort_unstable(); // as they lie in memory
            let mut following = Vec::with_capacity(lanes.len());
            let windows = self.plan.sizes.iter().map(|&size| Window::new(py, end - size, end));
            let windows = windows.collect::<PyResult<Vec<_>>>()?;
            for number in lanes {
                if self.lanes[number].next != end {
                    continue; // listed elsewhere since
                }
                for window in &windows {
                    if self.lanes[number].next_results(&self.plan, window.start, end, &mut values) {
                        out.insert(self, number, window, &values)?;
                    }
                }
                let next = self.next(number, end + self.plan.every);
                if next == end + self.plan.every {
                    self.lanes[number].next = next;
                    following.push(number);
                } else {
                    self.list(number, next);
                }
            }
            if !following.is_empty() {
                self.due.entry(end + self.plan.every).or_default().append(&mut following);
            }
        }
        self.upto = upto;
        Ok(())
    }

    /// A result, as an event or as its fields' values.
    fn row<'py>(&self, number: usize, window: &Window<'py>, values: &[Value]) -> PyResult<Bound<'py, PyAny>> {
        let [start, end] = &window.bounds;
        let (lane, py) = (&self.lanes[number], start.py());
        let mut parts: Vec<Bound<'py, PyAny>> = Vec::with_capacity(self.layout.len());
        parts.extend(lane.shown.bind(py).iter());
        parts.extend([start.clone(), end.clone()]);
        for value in values {
            parts.push(value.give(py)?);
        }
        parts.push(end.clone());
        parts.push(lane.id(self.seed, window.start, window.end).into_bound_py_any(py)?);
        parts.push(self.source.bind(py).clone());
        parts.push(self.level.bind(py).clone());
        if !self.is_plain {
            parts = self.layout.iter().map(|&place| parts[place].clone()).collect();
        }
        if let Some(maker) = self.maker.as_ref().filter(|_| self.makes)
            && let Some(made) = maker.make(py, &parts)?
        {
            return Ok(made);
        }
        Ok(PyTuple::new(py, parts)?.into_any())
    }

    /// Forget what no window needs any more; now and then, since each key is looked at.
    fn purge(&mut self, py: Python<'_>, r#final: i64) -> PyResult<()> {
        if r#final <= self.swept || (r#final != END && r#final - self.swept < self.plan.longest / 4) {
            return Ok(());
        }
        self.swept = r#final;
        let last = self.plan.end(r#final + 1) - self.plan.longest;
        for number in 0..self.lanes.len() {
            let lane = &mut self.lanes[number];
            self.held -= lane.drop_until(last);
            if lane.len() == 0 && !lane.is_free {
                lane.is_free = true;
                lane.next = NEVER;
                let key = lane.key.clone_ref(py);
                self.keys.remove(key.bind(py))?;
                self.free.push(number);
            }
        }
        Ok(())
    }
}
