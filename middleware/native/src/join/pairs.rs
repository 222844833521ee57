//! Two sides of tuples by key and time: what comes or goes on one side meets what is near it in time on the other.
//! `tests.oracles.pairs` says what it means.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::block::python::blocks::Block;
use crate::block::python::results::{Stamping, StampingSpec};
use crate::event::fields::Stamps;
use crate::event::wholes::whole;
use crate::expr::program::{Projector, Spec};
use crate::expr::tuples::Tuple;
use crate::join::arrivals::{Entering, Pair, Pairing, Part, Reading, ReadingSpec};

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

/// Multiplies by an odd constant and folds: hashes and numbers of keys are spread already, or small and dense.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_i64(i64::from(byte));
        }
    }

    fn write_i64(&mut self, number: i64) {
        let product = u128::from(self.0 ^ number as u64) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_isize(&mut self, number: isize) {
        self.write_i64(number as i64);
    }
}

/// A tuple, when it is, and its mark.
pub struct Held {
    pub ts: i64,
    pub mark: u64,
    pub tuple: Tuple,
}

impl Held {
    fn again(&self, py: Python<'_>) -> Self {
        Self { ts: self.ts, mark: self.mark, tuple: self.tuple.again(py) }
    }
}

/// Tuples of one key in order of time.
type Run = Vec<Held>;

/// By key those of the left, and of the right side: to insert one and to meet the others takes one look.
type Runs = HashMap<Key, [Run; 2], BuildHasherDefault<Multiply>>;

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

struct Side {
    size: i64,
    marks: Marks,
    /// How columns of this side are read; None: they are not.
    reading: Option<Reading>,
}

fn insert(run: &mut Run, held: Held) {
    if run.last().is_none_or(|last| last.ts <= held.ts) {
        run.push(held);
    } else {
        let at = run.partition_point(|there| there.ts <= held.ts);
        run.insert(at, held);
    }
}

/// Results as columns, and pairs for Python.
type Fed<'py> = (Option<Block>, Option<Columns<'py>>);

#[pyclass]
pub struct Pairs {
    left: Side,
    right: Side,
    runs: Runs,
    #[pyo3(get)]
    held: usize,
    /// Make results of tuples in columns.
    making: Option<(Projector, Stamping)>,
}

#[pymethods]
impl Pairs {
    #[new]
    fn new(left: i64, right: i64, of_left: (u64, Py<PyAny>), of_right: (u64, Py<PyAny>)) -> Self {
        Self {
            left: Side { size: left, marks: Marks::new(of_left), reading: None },
            right: Side { size: right, marks: Marks::new(of_right), reading: None },
            runs: HashMap::default(),
            held: 0,
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
    fn feed<'py>(&mut self, py: Python<'py>, parts: Vec<Part<'py>>) -> PyResult<Option<Fed<'py>>> {
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
        for part in &entering {
            for (arrived, key) in part.tuples.iter().zip(&part.keys) {
                insert(&mut self.runs.entry(key.again(py)).or_default()[usize::from(!part.is_left)], arrived.again(py));
            }
            self.held += part.tuples.len();
        }
        let mut pairs = Vec::new();
        for (number, part) in entering.iter().enumerate() {
            let (own, other) = if part.is_left { (&self.left, &self.right) } else { (&self.right, &self.left) };
            let earlier = &entering[..number]; // whose tuples have met those of this part
            let met = |there: &Held| earlier.iter().any(|each| there.tuple.is_of(&each.table));
            for (arrived, key) in part.tuples.iter().zip(&part.keys) {
                let Some(runs) = self.runs.get(key) else { continue };
                let near =
                    near(&runs[usize::from(part.is_left)], arrived.ts, own.size, other.size).iter().filter(|there| !met(there));
                pairs.extend(near.map(|there| Pair(if part.is_left { [arrived, there] } else { [there, arrived] })));
            }
        }
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
    fn keys(&self) -> usize {
        self.runs.values().flatten().filter(|run| !run.is_empty()).count()
    }

    fn insert<'py>(
        &mut self,
        py: Python<'py>,
        is_left: bool,
        keys: &Bound<'py, PyList>,
        events: &Bound<'py, PyList>,
    ) -> PyResult<Columns<'py>> {
        let mut met = Met::default();
        for (key, event) in keys.iter().zip(events.iter()) {
            let mark = self.side(is_left).marks.of(&event)?;
            let ts = Stamps::get(py)?.ts(&event)?;
            let key = Key::new(&key)?;
            self.meet(is_left, &key, &event, ts, mark, &mut met)?;
            let held = Held { ts, mark, tuple: Tuple::Event(event.unbind()) };
            insert(&mut self.runs.entry(key).or_default()[usize::from(!is_left)], held);
        }
        self.held += events.len();
        met.columns(py)
    }

    fn remove<'py>(
        &mut self,
        py: Python<'py>,
        is_left: bool,
        keys: &Bound<'py, PyList>,
        events: &Bound<'py, PyList>,
    ) -> PyResult<Columns<'py>> {
        let mut met = Met::default();
        for (key, event) in keys.iter().zip(events.iter()) {
            let mark = self.side(is_left).marks.of(&event)?;
            let ts = Stamps::get(py)?.ts(&event)?;
            let key = Key::new(&key)?;
            self.take_out(is_left, &key, ts, mark)?;
            self.meet(is_left, &key, &event, ts, mark, &mut met)?;
        }
        self.held -= events.len();
        met.columns(py)
    }

    fn forget(&mut self, until: i64) {
        let until = [until.saturating_sub(self.left.size), until.saturating_sub(self.right.size)];
        let mut held = 0;
        self.runs.retain(|_, runs| {
            for (run, until) in runs.iter_mut().zip(until) {
                run.drain(..run.partition_point(|there| there.ts <= until));
            }
            let left = runs.iter().map(Vec::len).sum::<usize>();
            held += left;
            left > 0
        });
        self.held = held;
    }

    fn content<'py>(&self, py: Python<'py>, is_left: bool) -> PyResult<Bound<'py, PyList>> {
        let content = PyList::empty(py);
        for (key, runs) in &self.runs {
            let run = &runs[usize::from(!is_left)];
            if run.is_empty() {
                continue;
            }
            let events = run.iter().map(|there| there.tuple.event(py)).collect::<PyResult<Vec<_>>>()?;
            let events = PyList::new(py, events)?;
            content.append((key.object(py)?, events))?;
        }
        Ok(content)
    }
}

impl Pairs {
    fn side(&mut self, is_left: bool) -> &mut Side {
        if is_left { &mut self.left } else { &mut self.right }
    }

    /// Takes out a tuple. A key that has none left goes when the next are forgotten.
    fn take_out(&mut self, is_left: bool, key: &Key, ts: i64, mark: u64) -> PyResult<()> {
        let Some(runs) = self.runs.get_mut(key) else {
            return Err(PyKeyError::new_err("no tuple with this key is there"));
        };
        let run = &mut runs[usize::from(!is_left)];
        let start = run.partition_point(|there| there.ts < ts);
        let Some(at) = run[start..].iter().position(|there| there.mark == mark) else {
            return Err(PyKeyError::new_err("this tuple is not there"));
        };
        run.remove(start + at);
        Ok(())
    }

    /// Adds the pairs that a tuple makes with the other side.
    fn meet<'py>(
        &self,
        is_left: bool,
        key: &Key,
        event: &Bound<'py, PyAny>,
        ts: i64,
        mark: u64,
        met: &mut Met<'py>,
    ) -> PyResult<()> {
        let (own, other) = if is_left { (&self.left, &self.right) } else { (&self.right, &self.left) };
        let Some(runs) = self.runs.get(key) else { return Ok(()) };
        for there in near(&runs[usize::from(is_left)], ts, own.size, other.size) {
            met.add(is_left, event.clone(), there.tuple.event(event.py())?, identity(mark, there.mark));
        }
        Ok(())
    }
}

/// The tuples of a run that one of the other side meets; sizes of its own side, and of theirs.
fn near(run: &Run, ts: i64, own: i64, theirs: i64) -> &[Held] {
    let start = run.partition_point(|there| there.ts <= ts.saturating_sub(theirs));
    let count = run[start..].iter().take_while(|there| there.ts < ts.saturating_add(own)).count();
    &run[start..start + count]
}

pub fn identity(one: u64, other: u64) -> i64 {
    (one.wrapping_add(other) ^ (1 << 63)) as i64
}

/// Pairs as columns: left tuples, right tuples, and identities.
#[derive(Default)]
pub struct Met<'py>(Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Vec<i64>);

impl<'py> Met<'py> {
    /// Of a tuple of one side and one of the other.
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
