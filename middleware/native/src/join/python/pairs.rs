//! `middleware.native.Pairs`: the two sides of a join.

use std::hash::{Hash, Hasher};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::block::python::blocks::Block;
use crate::block::python::results::{Stamping, StampingSpec};
use crate::event::python::fields::Stamps;
use crate::event::python::wholes::whole;
use crate::expr::program::{Projector, Spec};
use crate::expr::python::tuples::Tuple;
use crate::join::python::arrivals::{Entering, Given, Pairing, Reading, ReadingSpec};
use crate::join::sides::{Absent, Held, Side, Sides, identity};

/// A key, equal to another where Python says so. Whole numbers need not ask it.
pub enum Key {
    Whole(i64),
    Other(isize, Py<PyAny>),
}

impl Key {
    pub fn new(key: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match whole(key) {
            Some(number) => Self::Whole(number),
            None => Self::Other(key.hash()?, key.clone().unbind()),
        })
    }

    fn again(&self, py: Python<'_>) -> Self {
        match self {
            Self::Whole(number) => Self::Whole(*number),
            Self::Other(hash, key) => Self::Other(*hash, key.clone_ref(py)),
        }
    }

    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Whole(number) => Ok(number.into_pyobject(py)?.into_any()),
            Self::Other(_, key) => Ok(key.bind(py).clone()),
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Whole(number) => state.write_i64(*number),
            Self::Other(hash, _) => state.write_isize(*hash),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one == other,
            (Self::Other(hash, one), Self::Other(other_hash, other)) => {
                hash == other_hash && (one.is(other) || Python::attach(|py| one.bind(py).eq(other).unwrap_or(false)))
            }
            _ => false,
        }
    }
}

impl Eq for Key {}

impl Held<Tuple> {
    fn again(&self, py: Python<'_>) -> Self {
        Self { ts: self.ts, mark: self.mark, tuple: self.tuple.again(py) }
    }
}

/// Left tuples, right tuples, identities.
type Columns<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);

/// Gives tuples their marks: the id times a factor, and the hash of the source.
pub struct Marks {
    factor: u64,
    /// By source; a mapping that knows what it is asked.
    pub hashes: Py<PyAny>,
    last: Option<(Py<PyAny>, u64)>,
}

impl Marks {
    fn new((factor, hashes): (u64, Py<PyAny>)) -> Self {
        Self { factor, hashes, last: None }
    }

    pub fn mark(&self, id: i64, hash: u64) -> u64 {
        (id as u64).wrapping_mul(self.factor).wrapping_add(hash)
    }

    fn of(&mut self, event: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (py, stamps) = (event.py(), Stamps::get(event.py())?);
        let id: i64 = stamps.id(event)?.extract()?;
        let source = stamps.source(event)?;
        let hash = match &self.last {
            Some((last, hash)) if source.is(last) => *hash,
            _ => {
                let hash = self.hashes.bind(py).get_item(&source)?.extract::<i64>()? as u64;
                self.last = Some((source.into_any().unbind(), hash));
                hash
            }
        };
        Ok(self.mark(id, hash))
    }
}

/// How tuples of a side are read.
struct Source {
    marks: Marks,
    /// As columns; None: they are not.
    reading: Option<Reading>,
}

/// Results as columns, and pairs for Python.
type Fed<'py> = (Option<Block>, Option<Columns<'py>>);

#[pyclass]
pub struct Pairs {
    left: Source,
    right: Source,
    sides: Sides<Key, Tuple>,
    /// Make results of tuples in columns.
    making: Option<(Projector, Stamping)>,
}

#[pymethods]
impl Pairs {
    #[new]
    fn new(left: i64, right: i64, of_left: (u64, Py<PyAny>), of_right: (u64, Py<PyAny>)) -> Self {
        Self {
            left: Source { marks: Marks::new(of_left), reading: None },
            right: Source { marks: Marks::new(of_right), reading: None },
            sides: Sides::new(left, right),
            making: None,
        }
    }

    /// From now on take columns: `test` is that on pairs, `fields` those of results, each side tells how it is read.
    fn project(
        &mut self,
        test: Option<Bound<'_, PyAny>>,
        fields: Vec<Spec<'_>>,
        left: Option<ReadingSpec<'_>>,
        right: Option<ReadingSpec<'_>>,
        results: StampingSpec<'_>,
    ) -> PyResult<()> {
        self.making = Some((Projector::new(test.as_ref(), fields)?, Stamping::new(results)));
        self.left.reading = left.map(Reading::parse).transpose()?;
        self.right.reading = right.map(Reading::parse).transpose()?;
        Ok(())
    }

    /// Insert tuples of one side after those of another, or of the same. Gives results as columns, and pairs, where results are for
    /// Python to make. None, and nothing is inserted: ask Python for all of it.
    fn feed<'py>(&mut self, py: Python<'py>, parts: Vec<Given<'py>>) -> PyResult<Option<Fed<'py>>> {
        let (Some((projector, stamping)), Some(left), Some(right)) = (&self.making, &self.left.reading, &self.right.reading)
        else {
            return Ok(None);
        };
        let mut entering = Vec::with_capacity(parts.len());
        for part in parts {
            let (reading, marks) = if part.0 { (left, &self.left.marks) } else { (right, &self.right.marks) };
            let Some(some) = Entering::of(part, reading, marks)? else { return Ok(None) };
            entering.push(some);
        }
        for part in entering.iter().map(|entering| &entering.part) {
            for (arrived, key) in part.tuples.iter().zip(&part.keys) {
                self.sides.insert(part.side, key.again(py), arrived.again(py));
            }
        }
        let (parts, tables): (Vec<_>, Vec<_>) = entering.into_iter().map(|entering| (entering.part, entering.table)).unzip();
        let pairs = self.sides.pairs(&parts, |tuple, part| tuple.is_of(&tables[part]));
        if pairs.is_empty() {
            return Ok(Some((None, None)));
        }
        let view = Pairing { py, pairs: &pairs, sides: [left, right] };
        if let Some(results) = view.results(projector, stamping) {
            return Ok(Some((Some(results), None)));
        }
        Ok(Some((None, Some(view.met()?.columns(py)?))))
    }

    #[getter]
    fn held(&self) -> usize {
        self.sides.held()
    }

    #[getter]
    fn keys(&self) -> usize {
        self.sides.keys()
    }

    fn insert<'py>(
        &mut self,
        py: Python<'py>,
        is_left: bool,
        keys: &Bound<'py, PyList>,
        events: &Bound<'py, PyList>,
    ) -> PyResult<Columns<'py>> {
        let (side, mut met) = (Side::of(is_left), Met::default());
        for (key, event) in keys.iter().zip(events.iter()) {
            let (key, ts, mark) = self.read(side, &key, &event)?;
            self.meet(side, &key, &event, ts, mark, &mut met)?;
            self.sides.insert(side, key, Held { ts, mark, tuple: Tuple::Event(event.unbind()) });
        }
        met.columns(py)
    }

    fn remove<'py>(
        &mut self,
        py: Python<'py>,
        is_left: bool,
        keys: &Bound<'py, PyList>,
        events: &Bound<'py, PyList>,
    ) -> PyResult<Columns<'py>> {
        let (side, mut met) = (Side::of(is_left), Met::default());
        for (key, event) in keys.iter().zip(events.iter()) {
            let (key, ts, mark) = self.read(side, &key, &event)?;
            self.sides.take_out(side, &key, ts, mark).map_err(|absent| match absent {
                Absent::Key => PyKeyError::new_err("no tuple with this key is there"),
                Absent::Tuple => PyKeyError::new_err("this tuple is not there"),
            })?;
            self.meet(side, &key, &event, ts, mark, &mut met)?;
        }
        met.columns(py)
    }

    fn forget(&mut self, until: i64) {
        self.sides.forget(until);
    }

    fn content<'py>(&self, py: Python<'py>, is_left: bool) -> PyResult<Bound<'py, PyList>> {
        let content = PyList::empty(py);
        for (key, run) in self.sides.content(Side::of(is_left)) {
            let events = run.iter().map(|there| there.tuple.event(py)).collect::<PyResult<Vec<_>>>()?;
            let events = PyList::new(py, events)?;
            content.append((key.object(py)?, events))?;
        }
        Ok(content)
    }
}

impl Pairs {
    /// The key of a tuple, its time and its mark.
    fn read(&mut self, side: Side, key: &Bound<'_, PyAny>, event: &Bound<'_, PyAny>) -> PyResult<(Key, i64, u64)> {
        let source = if side == Side::Left { &mut self.left } else { &mut self.right };
        let mark = source.marks.of(event)?;
        let ts = Stamps::get(event.py())?.ts(event)?;
        Ok((Key::new(key)?, ts, mark))
    }

    /// Adds the pairs that a tuple makes with the other side.
    fn meet<'py>(
        &self,
        side: Side,
        key: &Key,
        event: &Bound<'py, PyAny>,
        ts: i64,
        mark: u64,
        met: &mut Met<'py>,
    ) -> PyResult<()> {
        for there in self.sides.near(side, key, ts) {
            met.add(side == Side::Left, event.clone(), there.tuple.event(event.py())?, identity(mark, there.mark));
        }
        Ok(())
    }
}

/// Pairs as columns: left tuples, right tuples, and identities.
#[derive(Default)]
pub struct Met<'py>(Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Vec<i64>);

impl<'py> Met<'py> {
    /// Add the pair of a tuple of one side and one of the other.
    pub fn add(&mut self, is_left: bool, own: Bound<'py, PyAny>, other: Bound<'py, PyAny>, identity: i64) {
        let (left, right) = if is_left { (own, other) } else { (other, own) };
        self.0.push(left);
        self.1.push(right);
        self.2.push(identity);
    }

    fn columns(self, py: Python<'py>) -> PyResult<Columns<'py>> {
        Ok((PyList::new(py, self.0)?, PyList::new(py, self.1)?, PyList::new(py, self.2)?))
    }
}
