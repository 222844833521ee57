//! `middleware.native.KeyedWindows`: contents by key, what a change touches, and what is due when time passes.
//!
//! What was published is never stored: it follows from what the windows held, and is calculated again where a change touches
//! it. `detectors.window.windows_operation` is the twin, for all kinds of windows and all monoids.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::aggregate::{Value, What};
use super::correcting::{Corrected, Late, Told};
use super::key::{Key, Keys};
use super::lane::{Lane, append};
use super::named::{Bounds, Named};
use super::pane::{Panes, head};
use super::plan::{Column, Plan, Row};
use super::results::Results;
use super::sliding::Sliding;
use crate::block::event_batch::EventBatch;
use crate::event::fields::{Field, Maker, Stamps};
use crate::event::model::Model;

/// Watermark of a stream that has promised nothing.
const NOTHING: i64 = -(1 << 62);
pub(super) const END: i64 = 1 << 62;

#[pyclass(module = "middleware.native")]
pub struct KeyedWindows {
    pub(super) plan: Plan,
    pub(super) keys: Keys,
    pub(super) named: Vec<Named>,
    pub(super) lanes: Vec<Lane>,
    pub(super) free: Vec<usize>,
    /// What was published last, by size.
    pub(super) sliding: Vec<Sliding>,
    /// What is in it, and what comes after.
    pub(super) panes: Panes,
    /// Windows that end until here are published.
    pub(super) upto: i64,
    pub(super) swept: i64,
    pub(super) held: usize,
    /// New ones, until Python is given them; kept for their memory.
    pub(super) results: Results,
    encode: Py<PyAny>,
    seed: u64,
    source: Py<PyAny>,
    level: Py<PyAny>,
    /// For each field of a result: which of key fields, start, end, values, ts, id, source, level.
    layout: Vec<usize>,
    /// Whether the fields are in just that order.
    is_plain: bool,
    pub(super) key_fields: usize,
    /// Makes results, where rows are not asked for.
    maker: Option<Maker>,
}

#[pymethods]
impl KeyedWindows {
    #[new]
    #[pyo3(signature = (*, sizes, every, offset, key, columns, aggregates, layout, source, level, seed, encode, canonical, show, at_once))]
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
        canonical: Py<PyAny>,
        show: Py<PyAny>,
        at_once: bool,
    ) -> PyResult<Self> {
        let column = |(field, is_float): (String, bool)| Column { field: Field::new(py, &field), is_float };
        let aggregates = aggregates.into_iter().map(|(name, column)| Ok((What::new(&name)?, column)));
        let key_fields = key.len();
        let plan = Plan {
            longest: sizes.iter().copied().max().unwrap_or(0),
            sizes,
            every,
            offset,
            columns: columns.into_iter().map(column).collect(),
            aggregates: aggregates.collect::<PyResult<_>>()?,
        };
        let floats = plan.aggregates.iter().map(|&(what, column)| what.gives_floats(plan.is_float(column)));
        let upto = if at_once { END } else { NOTHING };
        Ok(Self {
            keys: Keys::new(py, &key, show, canonical),
            named: Vec::new(),
            lanes: Vec::new(),
            free: Vec::new(),
            sliding: slidings(&plan, upto),
            panes: Panes::default(),
            results: Results::new(floats),
            plan,
            upto,
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
        })
    }

    /// From now on rows are events where they can be; `recipe`: see `Maker`.
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
        let mut late = Vec::new();
        let outcome = self.take(&inserts, &retracts, &mut late, &fail);
        let corrected = self.changed(late, outcome, upto)?;
        let is_beyond = self.results.is_beyond() || corrected.is_beyond();
        let (inserted, [old, new, gone]) = (self.rows(py)?, self.corrections(py, &corrected)?);
        self.purge(py, r#final)?;
        (inserted, old, new, gone, is_beyond).into_pyobject(py)
    }

    /// As `apply`, with what comes as a block, or nothing of it. No object an event.
    ///
    /// `columns`: which columns have what is read. `keys`: the same, of integers that are all there; or one
    /// array of them, or a pair of codes and what they stand for, or any objects. `as_columns`: give new results as columns,
    /// too (`Results::columns`); rows only if some do not fit. Raises, with nothing taken, for a key of which no result can be
    /// made.
    #[pyo3(signature = (batch, keys, columns, upto, r#final, retracts, as_columns))]
    #[expect(clippy::too_many_arguments, reason = "all that comes in one step")]
    fn feed<'py>(
        &mut self,
        batch: Option<Bound<'py, EventBatch>>,
        keys: Bound<'py, PyAny>,
        columns: Vec<usize>,
        upto: i64,
        r#final: i64,
        retracts: Bound<'py, PyList>,
        as_columns: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = retracts.py();
        let mut late = Vec::new();
        let outcome = match batch {
            Some(batch) => self.take_columns(batch.get(), &keys, &columns, &retracts, &mut late),
            None => self.take_back(&retracts, &mut late),
        };
        let corrected = self.changed(late, outcome, upto)?;
        let is_beyond = self.results.is_beyond() || corrected.is_beyond();
        let [old, new, gone] = self.corrections(py, &corrected)?;
        let (inserted, made) = if as_columns && !self.results.is_beyond() {
            (PyList::empty(py), self.results.columns(py, &self.named, self.seed)?)
        } else {
            (self.rows(py)?, None)
        };
        self.purge(py, r#final)?;
        (inserted, old, new, gone, is_beyond, made).into_pyobject(py)
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
        let width = self.plan.width();
        for (lane, named) in self.lanes.iter().zip(&self.named).filter(|(lane, _)| lane.len(width) > 0) {
            let bytes: Vec<u8> = lane.content(width).iter().flat_map(|number| number.to_le_bytes()).collect();
            contents.append((&named.key, &named.shown, PyBytes::new(py, &bytes)))?;
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
        self.sliding = slidings(&self.plan, upto);
        for (key, shown, bytes) in contents {
            let number = self.new_lane(&key, shown.unbind())?;
            let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
            self.lanes[number].refill(words.collect());
            self.held += self.lanes[number].len(self.plan.width());
            let rows = self.lanes[number].rows.clone();
            rows.chunks_exact(self.plan.width()).for_each(|row| self.note(number, row[0].cast_signed(), row, false));
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
                Err(error) if Model::get(py)?.is_failure(py, &error) => {
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
                self.remove(lane, ts, &row);
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
            self.insert(lane, ts, row);
        } else {
            self.pending(lane, late).come.push((ts, row.to_vec()));
        }
    }

    /// Add a row to a lane.
    #[inline]
    pub(super) fn insert(&mut self, lane: usize, ts: i64, row: &[u64]) {
        self.held += 1;
        self.lanes[lane].insert(ts, row);
        self.note(lane, ts, row, false);
    }

    /// Take a row of this content out of a lane, if there is one.
    pub(super) fn remove(&mut self, lane: usize, ts: i64, row: &[u64]) {
        if self.lanes[lane].remove(ts, row) {
            self.held -= 1;
            self.note(lane, ts, row, true);
        }
    }

    /// A row has come or gone: windows that were published last have it, or those to come will.
    #[inline]
    fn note(&mut self, lane: usize, ts: i64, row: &[u64], goes: bool) {
        if !self.sliding.iter().any(|sliding| sliding.reaches(ts)) {
            return;
        }
        let pane = self.panes.of(&self.plan, ts);
        let at = pane.len();
        append(pane, row);
        pane[at] = head(lane, goes);
        if ts <= self.upto {
            for sliding in &mut self.sliding {
                sliding.take(&self.plan, ts, &pane[at..], &self.lanes);
            }
        }
    }

    /// Once all has been taken: correct results, and publish new ones.
    fn changed(&mut self, late: Vec<Late>, outcome: PyResult<()>, upto: i64) -> PyResult<Corrected> {
        self.results.clear();
        for work in &late {
            self.lanes[work.lane].pending = None;
        }
        outcome?;
        let corrected = self.correct(late);
        self.pass(upto);
        Ok(corrected)
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
        let named = Named::new(key.clone().unbind(), shown.bind(key.py()), &prefix);
        let number = self.free.pop().unwrap_or(self.lanes.len());
        self.keys.add(key, u32::try_from(number).expect("fewer than 2^32 keys"))?;
        if number < self.lanes.len() {
            (self.named[number], self.lanes[number]) = (named, Lane::default());
            return Ok(number);
        }
        self.named.push(named);
        self.lanes.push(Lane::default());
        self.sliding.iter_mut().for_each(|sliding| sliding.resize(self.lanes.len()));
        Ok(number)
    }

    fn pending<'a>(&mut self, lane: usize, late: &'a mut Vec<Late>) -> &'a mut Late {
        let at = *self.lanes[lane].pending.get_or_insert_with(|| {
            late.push(Late::new(lane));
            u32::try_from(late.len() - 1).expect("fewer than 2^32 keys")
        });
        &mut late[at as usize]
    }

    /// New results, as events or as their fields' values.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (rows, mut parts, mut shown) = (PyList::empty(py), Vec::new(), None);
        for place in 0..self.results.len() {
            let (lane, window, values) = self.results.get(place);
            let bounds = match shown {
                Some((known, bounds)) if known == window => bounds, // all keys share them
                _ => bounds(py, window)?,
            };
            rows.append(self.row(&mut parts, lane, window, &bounds, values)?)?;
            shown = Some((window, bounds));
        }
        Ok(rows)
    }

    /// What became of former results: rows as they were, as they are, and those that were withdrawn.
    fn corrections<'py>(&self, py: Python<'py>, corrected: &Corrected) -> PyResult<[Bound<'py, PyList>; 3]> {
        let row = |(lane, window, values): &Told| {
            self.row(&mut Vec::new(), *lane, *window, &bounds(py, *window)?, values.iter().copied())
        };
        let rows = |told: &[Told]| PyList::new(py, told.iter().map(row).collect::<PyResult<Vec<_>>>()?);
        Ok([rows(&corrected.old)?, rows(&corrected.new)?, rows(&corrected.gone)?])
    }

    /// A result, as an event or as its fields' values. `parts` is room for these, whatever it holds.
    fn row<'py>(
        &self,
        parts: &mut Vec<Bound<'py, PyAny>>,
        lane: usize,
        window: (i64, i64),
        bounds: &[Bound<'py, PyAny>; 2],
        values: impl Iterator<Item = Value>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (named, py) = (&self.named[lane], bounds[0].py());
        parts.clear();
        parts.extend(named.shown.bind(py).iter_borrowed().map(|field| field.to_owned()));
        parts.extend(bounds.iter().cloned());
        for value in values {
            parts.push(value.give(py)?);
        }
        parts.push(bounds[1].clone());
        parts.push(named.id(self.seed, &Bounds::new(window)).into_bound_py_any(py)?);
        parts.push(self.source.bind(py).clone());
        parts.push(self.level.bind(py).clone());
        if !self.is_plain {
            *parts = self.layout.iter().map(|&place| parts[place].clone()).collect();
        }
        if let Some(maker) = &self.maker
            && let Some(made) = maker.make(py, parts)?
        {
            return Ok(made);
        }
        Ok(PyTuple::new(py, parts.iter())?.into_any())
    }
}

/// The bounds of a window as Python objects.
fn bounds(py: Python<'_>, (start, end): (i64, i64)) -> PyResult<[Bound<'_, PyAny>; 2]> {
    Ok([start.into_bound_py_any(py)?, end.into_bound_py_any(py)?])
}

/// What was published last, when all windows that end until `upto` were: nothing.
fn slidings(plan: &Plan, upto: i64) -> Vec<Sliding> {
    let end = plan.end(upto.saturating_add(1)) - plan.every;
    plan.sizes.iter().map(|&size| Sliding::new(plan, size, end)).collect()
}
