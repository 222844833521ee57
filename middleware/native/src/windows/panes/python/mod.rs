//! `middleware.native.KeyedWindows`: windows over events, with keys of any type, and their results as Python has them.

mod given;
mod key;
mod named;
mod taken;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use self::given::object;
use self::key::{Key, Keys};
use self::named::Named;
use super::aggregate::{Value, What};
use super::correcting::{Corrected, Late, WindowResult};
use super::identity::Bounds;
use super::plan::{Plan, Row};
use super::windows::Windows;
use crate::block::python::event_batch::EventBatch;
use crate::event::python::fields::{Field, Maker, Stamps};
use crate::event::python::model::Model;

#[pyclass(module = "middleware.native")]
pub struct KeyedWindows {
    windows: Windows,
    /// The fields that are read of an event.
    fields: Vec<Field>,
    keys: Keys,
    /// By lane.
    named: Vec<Named>,
    encode: Py<PyAny>,
    seed: u64,
    source: Py<PyAny>,
    level: Py<PyAny>,
    /// For each field of a result: which of key fields, start, end, values, ts, id, source, level.
    layout: Vec<usize>,
    /// Whether the fields are in just that order.
    is_plain: bool,
    key_fields: usize,
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
        let unknown = |name| PyValueError::new_err(format!("windows in the native core know no aggregate {name}"));
        let what = |name: String| What::named(&name).ok_or_else(|| unknown(name));
        let aggregates = aggregates.into_iter().map(|(name, column)| Ok((what(name)?, column)));
        let key_fields = key.len();
        let plan = Plan {
            longest: sizes.iter().copied().max().unwrap_or(0),
            sizes,
            every,
            offset,
            floats: columns.iter().map(|(_, is_float)| *is_float).collect(),
            aggregates: aggregates.collect::<PyResult<_>>()?,
        };
        Ok(Self {
            windows: Windows::new(plan, at_once),
            fields: columns.iter().map(|(field, _)| Field::new(py, field)).collect(),
            keys: Keys::new(py, &key, show, canonical),
            named: Vec::new(),
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
        let is_beyond = self.windows.results.is_beyond() || corrected.is_beyond();
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
        let is_beyond = self.windows.results.is_beyond() || corrected.is_beyond();
        let [old, new, gone] = self.corrections(py, &corrected)?;
        let (inserted, made) = if as_columns && !self.windows.results.is_beyond() {
            (PyList::empty(py), given::columns(py, &mut self.windows.results, &self.named, self.seed)?)
        } else {
            (self.rows(py)?, None)
        };
        self.purge(py, r#final)?;
        (inserted, old, new, gone, is_beyond, made).into_pyobject(py)
    }

    #[getter]
    fn held(&self) -> usize {
        self.windows.held
    }

    #[getter]
    fn keys(&self, py: Python<'_>) -> usize {
        self.keys.len(py)
    }

    /// (upto, swept, [(key, its fields as results show them, rows as bytes)]).
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let contents = PyList::empty(py);
        let width = self.windows.plan.width();
        for (lane, named) in self.windows.lanes.iter().zip(&self.named).filter(|(lane, _)| lane.len(width) > 0) {
            let bytes: Vec<u8> = lane.content(width).iter().flat_map(|number| number.to_le_bytes()).collect();
            contents.append((&named.key, &named.shown, PyBytes::new(py, &bytes)))?;
        }
        (self.windows.upto, self.windows.swept, contents).into_pyobject(py)
    }

    fn restore(
        &mut self,
        upto: i64,
        swept: i64,
        contents: Vec<(Bound<'_, PyAny>, Bound<'_, PyTuple>, Vec<u8>)>,
    ) -> PyResult<()> {
        self.windows.restart(upto, swept);
        for (key, shown, bytes) in contents {
            let number = self.new_lane(&key, shown.unbind())?;
            let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
            self.windows.refill(number, words.collect());
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
            self.windows.put(lane, ts, &row, late);
        }
        Ok(())
    }

    /// Withdraw events.
    fn take_back(&mut self, retracts: &Bound<'_, PyList>, late: &mut Vec<Late>) -> PyResult<()> {
        let mut row = Row::new();
        for event in retracts {
            let (lane, ts) = self.read(&event, &mut row)?;
            self.windows.take_back(lane, ts, &row, late);
        }
        Ok(())
    }

    /// Once all has been taken: correct results, and publish new ones.
    fn changed(&mut self, late: Vec<Late>, outcome: PyResult<()>, upto: i64) -> PyResult<Corrected> {
        self.windows.close(&late);
        outcome?;
        Ok(self.windows.publish(late, upto))
    }

    /// Forget what no window needs any more, and the keys that hold nothing.
    fn purge(&mut self, py: Python<'_>, r#final: i64) -> PyResult<()> {
        let (keys, named) = (&mut self.keys, &self.named);
        self.windows.purge(r#final, |number| keys.remove(named[number].key.bind(py)))
    }

    /// The lane of an event, and its time; the rest of it in `row`.
    #[inline]
    fn read(&mut self, event: &Bound<'_, PyAny>, row: &mut Row) -> PyResult<(usize, i64)> {
        let ts = self.read_row(event, row)?;
        let key = self.keys.of(event)?;
        Ok((self.lane_of(&key)?, ts))
    }

    /// Read an event into a row; its time. A value of None is not there.
    #[inline]
    fn read_row(&self, event: &Bound<'_, PyAny>, row: &mut Row) -> PyResult<i64> {
        let time = Stamps::get(event.py())?.ts(event)?;
        row.clear();
        row.push(time.cast_unsigned());
        row.push(0);
        for (number, (field, is_float)) in self.fields.iter().zip(&self.windows.plan.floats).enumerate() {
            let value = field.of(event)?;
            let bits = if value.is_none() {
                0
            } else if *is_float {
                row[1] |= 1 << number;
                value.extract::<f64>()?.to_bits()
            } else {
                row[1] |= 1 << number;
                value.extract::<i64>()?.cast_unsigned()
            };
            row.push(bits);
        }
        Ok(time)
    }

    #[inline]
    fn lane_of(&mut self, key: &Key<'_>) -> PyResult<usize> {
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
        self.keys.add(key, u32::try_from(self.windows.next_lane()).expect("fewer than 2^32 keys"))?;
        let number = self.windows.open();
        if number < self.named.len() {
            self.named[number] = named;
        } else {
            self.named.push(named);
        }
        Ok(number)
    }

    /// New results, as events or as their fields' values.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (rows, mut parts, mut shown) = (PyList::empty(py), Vec::new(), None);
        for place in 0..self.windows.results.len() {
            let (lane, window, values) = self.windows.results.get(place);
            let bounds = match shown {
                Some((known, bounds)) if known == window => bounds, // all keys share them
                _ => bounds(py, window)?,
            };
            rows.append(self.row(&mut parts, lane, window, &bounds, values)?)?;
            shown = Some((window, bounds));
        }
        Ok(rows)
    }

    /// The changes of former results: rows as they were, as they are, and those that are withdrawn.
    fn corrections<'py>(&self, py: Python<'py>, corrected: &Corrected) -> PyResult<[Bound<'py, PyList>; 3]> {
        let row = |(lane, window, values): &WindowResult| {
            self.row(&mut Vec::new(), *lane, *window, &bounds(py, *window)?, values.iter().copied())
        };
        let rows = |results: &[WindowResult]| PyList::new(py, results.iter().map(row).collect::<PyResult<Vec<_>>>()?);
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
            parts.push(object(py, value)?);
        }
        parts.push(bounds[1].clone());
        parts.push(named.prefix.id(self.seed, &Bounds::new(window)).into_bound_py_any(py)?);
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
