//! Two sides of tuples by key and time: what comes or goes on one side meets what is near it in time on the other.
//! Twin of `detectors.cql.pairs.PlainPairs`, which says what it means.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList};

use crate::arrivals::{Arrived, Entering, Pair, Pairing, Reading, ReadingSpec, Results};
use crate::block::Block;
use crate::fields::Stamps;
use crate::program::{Projector, Spec};
use crate::tuples::Tuple;

/// A key, equal to another where Python says so. Whole numbers need not ask it.
pub enum Key {
    Whole(i64),
    Other(isize, Py<PyAny>),
}

impl Key {
    pub fn new(key: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(whole) = key.cast::<PyInt>() {
            if let Ok(number) = whole.extract::<i64>() {
                return Ok(Self::Whole(number)); // bool among them: True is 1
            }
        } else if let Ok(real) = key.cast::<PyFloat>() {
            let value = real.value();
            if value.fract() == 0.0 && value.abs() < 9e18 {
                return Ok(Self::Whole(value as i64));
            }
        }
        Ok(Self::Other(key.hash()?, key.clone().unbind()))
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

/// Tuples of one key in order of time.
type Run = Vec<Held>;

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
    runs: HashMap<Key, Run, BuildHasherDefault<Multiply>>,
    /// How columns of this side are read; None: they are not.
    reading: Option<Reading>,
}

impl Side {
    fn new(size: i64, marks: Marks) -> Self {
        Self { size, marks, runs: HashMap::default(), reading: None }
    }

    fn insert(&mut self, key: Key, held: Held) {
        let run = self.runs.entry(key).or_default();
        if run.last().is_none_or(|last| last.ts <= held.ts) {
            run.push(held);
        } else {
            let at = run.partition_point(|there| there.ts <= held.ts);
            run.insert(at, held);
        }
    }

    fn remove(&mut self, py: Python<'_>, key: Key, ts: i64, mark: u64) -> PyResult<Key> {
        let Entry::Occupied(mut entry) = self.runs.entry(key) else {
            return Err(PyKeyError::new_err("no tuple with this key is there"));
        };
        let run = entry.get_mut();
        let mut at = run.partition_point(|there| there.ts < ts);
        while at < run.len() {
            if run[at].mark == mark {
                run.remove(at);
                if run.is_empty() {
                    return Ok(entry.remove_entry().0);
                }
                let key = Key::new(&entry.key().object(py)?)?;
                return Ok(key);
            }
            at += 1;
        }
        Err(PyKeyError::new_err("this tuple is not there"))
    }

    /// Forgets what lies at or before a time; returns how many tuples are left.
    fn forget(&mut self, until: i64) -> usize {
        let mut left = 0;
        self.runs.retain(|_, run| {
            let count = run.partition_point(|there| there.ts <= until);
            run.drain(..count);
            left += run.len();
            !run.is_empty()
        });
        left
    }
}

#[pyclass]
pub struct Pairs {
    left: Side,
    right: Side,
    #[pyo3(get)]
    held: usize,
    /// Makes results of tuples in columns.
    projector: Option<Projector>,
}

#[pymethods]
impl Pairs {
    #[new]
    fn new(left: i64, right: i64, of_left: (u64, Py<PyAny>), of_right: (u64, Py<PyAny>)) -> Self {
        Self {
            left: Side::new(left, Marks::new(of_left)),
            right: Side::new(right, Marks::new(of_right)),
            held: 0,
            projector: None,
        }
    }

    /// From now on take columns: `test` is that on pairs, `fields` those of results, each side tells how it is read.
    fn project(
        &mut self,
        test: Option<Bound<'_, PyAny>>,
        fields: Vec<Spec<'_>>,
        left: Option<ReadingSpec<'_>>,
        right: Option<ReadingSpec<'_>>,
    ) -> PyResult<()> {
        self.projector = Some(Projector::new(test.as_ref(), fields)?);
        self.left.reading = left.map(Reading::parse).transpose()?;
        self.right.reading = right.map(Reading::parse).transpose()?;
        Ok(())
    }

    /// Insert the tuples of a batch, of which `events` is a sequence. Gives how many were, results as columns, and pairs, where
    /// results are for Python to make. `keys`: unless these are a column of whole numbers. None: ask Python for all of it.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn feed<'py>(
        &mut self,
        is_left: bool,
        events: &Bound<'py, PyAny>,
        block: &Bound<'py, Block>,
        keys: Option<&Bound<'py, PyList>>,
    ) -> PyResult<Option<(usize, Option<Results<'py>>, Option<Columns<'py>>)>> {
        let py = block.py();
        let (own, other) = if is_left { (&mut self.left, &self.right) } else { (&mut self.right, &self.left) };
        let (Some(projector), Some(reading)) = (&self.projector, &own.reading) else { return Ok(None) };
        let Some(entering) = Entering::of(events, block, keys, reading, &own.marks)? else { return Ok(None) };
        let mut pairs = Vec::new();
        for arrived in &entering.tuples {
            let Some(run) = other.runs.get(&arrived.key) else { continue };
            pairs.extend(near(run, arrived.ts, own.size, other.size).iter().map(|there| Pair { arrived, there }));
        }
        let of_other = other.reading.as_ref().map_or(&[][..], |reading| &reading.fields);
        let kinds = [&reading.kinds[..], other.reading.as_ref().map_or(&[], |reading| &reading.kinds)];
        let view = Pairing { py, pairs: &pairs, table: entering.table.get(), own: usize::from(!is_left), of_other, kinds };
        let (mut results, mut rest) = (None, None);
        if !pairs.is_empty() {
            results = view.results(projector)?;
            if results.is_none() {
                rest = Some(view.met()?.columns(py, is_left)?);
            }
        }
        let count = entering.tuples.len();
        for Arrived { key, ts, mark, row } in entering.tuples {
            own.insert(key, Held { ts, mark, tuple: Tuple::Row(entering.table.clone_ref(py), row) });
        }
        self.held += count;
        Ok(Some((count, results, rest)))
    }

    #[getter]
    fn keys(&self) -> usize {
        self.left.runs.len() + self.right.runs.len()
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
            self.side(is_left).insert(key, held);
        }
        self.held += events.len();
        met.columns(py, is_left)
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
            let key = self.side(is_left).remove(py, Key::new(&key)?, ts, mark)?;
            self.meet(is_left, &key, &event, ts, mark, &mut met)?;
        }
        self.held -= events.len();
        met.columns(py, is_left)
    }

    fn forget(&mut self, until: i64) {
        let (left, right) = (until.saturating_sub(self.left.size), until.saturating_sub(self.right.size));
        self.held = self.left.forget(left) + self.right.forget(right);
    }

    fn content<'py>(&self, py: Python<'py>, is_left: bool) -> PyResult<Bound<'py, PyList>> {
        let side = if is_left { &self.left } else { &self.right };
        let content = PyList::empty(py);
        for (key, run) in &side.runs {
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
        let Some(run) = other.runs.get(key) else { return Ok(()) };
        for there in near(run, ts, own.size, other.size) {
            met.own.push(event.clone());
            met.other.push(there.tuple.event(event.py())?);
            met.identities.push(identity(mark, there.mark));
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

/// Pairs as columns: tuples of the side that changes, those of the other, and identities.
#[derive(Default)]
pub struct Met<'py> {
    pub own: Vec<Bound<'py, PyAny>>,
    pub other: Vec<Bound<'py, PyAny>>,
    pub identities: Vec<i64>,
}

impl<'py> Met<'py> {
    fn columns(self, py: Python<'py>, is_left: bool) -> PyResult<Columns<'py>> {
        let (own, other) = (PyList::new(py, self.own)?, PyList::new(py, self.other)?);
        let identities = PyList::new(py, self.identities)?;
        Ok(if is_left { (own, other, identities) } else { (other, own, identities) })
    }
}
