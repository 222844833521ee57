//! Two sides of tuples by key and time: what comes or goes on one side meets what is near it in time on the other.
//! Twin of `detectors.cql.pairs.PlainPairs`, which says what it means.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Range;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyTuple};

use crate::arrow::{Batch, Cells};
use crate::fields::{Field, Stamps};
use crate::program::{Input, Kind, Program, Projector, Rows, Sources, Spec, Unsuited, Values, bytes, gathered, passing};
use crate::tuples::{Table, Tuple};

/// A key, equal to another where Python says so. Whole numbers need not ask it.
enum Key {
    Whole(i64),
    Other(isize, Py<PyAny>),
}

impl Key {
    fn new(key: &Bound<'_, PyAny>) -> PyResult<Self> {
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
struct Held {
    ts: i64,
    mark: u64,
    tuple: Tuple,
}

/// Tuples of one key in order of time.
type Run = Vec<Held>;

/// Left tuples, right tuples, identities.
type Columns<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);

/// Gives tuples their marks: the id times a factor, and the hash of the source.
struct Marks {
    factor: u64,
    /// By source; a mapping that knows what it is asked.
    hashes: Py<PyAny>,
    last: Option<(Py<PyAny>, u64)>,
}

impl Marks {
    fn new((factor, hashes): (u64, Py<PyAny>)) -> Self {
        Self { factor, hashes, last: None }
    }

    fn mark(&self, id: i64, hash: u64) -> u64 {
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

/// How tuples in columns are read.
struct Reading {
    /// Fields that are read, of which kinds, and where in a batch they lie.
    fields: Vec<Field>,
    kinds: Vec<Kind>,
    places: Vec<usize>,
    /// Where ts, id and source lie.
    stamps: (usize, usize, usize),
    /// Where the key lies, if it is a whole number.
    key: Option<usize>,
    /// What tuples must pass to be joined.
    before: Option<Program>,
}

/// Fields, their kinds and places, the places of ts, id and source, that of the key, and the test.
type ReadingSpec<'py> = (Vec<Field>, Vec<String>, Vec<usize>, (usize, usize, usize), Option<usize>, Option<Bound<'py, PyAny>>);

impl Reading {
    fn parse((fields, kinds, places, stamps, key, before): ReadingSpec<'_>) -> PyResult<Self> {
        let kinds = kinds.iter().map(|kind| Kind::named(kind)).collect::<PyResult<_>>()?;
        Ok(Self { fields, kinds, places, stamps, key, before: before.map(|node| Program::parse(&node)).transpose()? })
    }
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

/// Results as columns: fields, times, ids.
type Results<'py> = (Bound<'py, PyList>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

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
        batch: &Bound<'py, PyAny>,
        keys: Option<&Bound<'py, PyList>>,
    ) -> PyResult<Option<(usize, Option<Results<'py>>, Option<Columns<'py>>)>> {
        let py = batch.py();
        let (own, other) = if is_left { (&mut self.left, &self.right) } else { (&mut self.right, &self.left) };
        let (Some(projector), Some(reading)) = (&self.projector, &own.reading) else { return Ok(None) };
        let Some(entering) = Entering::of(events, batch, keys, reading, &own.marks)? else { return Ok(None) };
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

fn identity(one: u64, other: u64) -> i64 {
    (one.wrapping_add(other) ^ (1 << 63)) as i64
}

/// A tuple that comes in columns.
struct Arrived {
    key: Key,
    ts: i64,
    mark: u64,
    row: u32,
}

/// The tuples of a batch that are joined at all.
struct Entering {
    tuples: Vec<Arrived>,
    table: Py<Table>,
}

impl Entering {
    /// None: ask Python.
    fn of(
        events: &Bound<'_, PyAny>,
        batch: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyList>>,
        reading: &Reading,
        marks: &Marks,
    ) -> PyResult<Option<Self>> {
        let py = events.py();
        let batch = Batch::of(batch)?;
        let (ts, id, source) = reading.stamps;
        let (Cells::Integers(times), Cells::Integers(ids)) = (batch.column(ts)?.cells(), batch.column(id)?.cells()) else {
            return Ok(None);
        };
        let Some(sources) = Sources::of(batch.column(source)?, marks.hashes.bind(py))? else { return Ok(None) };
        let inputs = reading.places.iter().map(|at| Ok(Input::of(batch.column(*at)?).into_owned()));
        let table = Table::new(events.clone().unbind(), inputs.collect::<PyResult<_>>()?);
        let rows = match &reading.before {
            None => (0..times.len() as u32).collect(),
            Some(before) => match passing(before, times.len(), &table) {
                Ok(rows) => rows,
                Err(Unsuited) => return Ok(None),
            },
        };
        let mut tuples = Vec::with_capacity(rows.len());
        let mut add = |row: u32, key: Key| {
            let at = row as usize;
            tuples.push(Arrived { key, ts: times[at], mark: marks.mark(ids[at], sources.get(at) as u64), row });
        };
        if let Some(place) = reading.key {
            let column = batch.column(place)?;
            let (Cells::Integers(keys), there) = (column.cells(), column.there()) else { return Ok(None) };
            for row in rows {
                if there.as_ref().is_none_or(|there| there[row as usize] != 0) {
                    add(row, Key::Whole(keys[row as usize]));
                }
            }
        } else {
            let Some(keys) = keys else { return Ok(None) };
            for row in rows {
                let key = keys.get_item(row as usize)?;
                if !is_null(&key) {
                    add(row, Key::new(&key)?);
                }
            }
        }
        Ok(Some(Self { tuples, table: Py::new(py, table)? }))
    }
}

/// NULL equals nothing, nor does what has one.
fn is_null(key: &Bound<'_, PyAny>) -> bool {
    key.is_none() || key.cast::<PyTuple>().is_ok_and(|parts| parts.iter().any(|part| part.is_none()))
}

#[derive(Clone, Copy)]
struct Pair<'a> {
    arrived: &'a Arrived,
    there: &'a Held,
}

/// Pairs of tuples that came in columns with those of the other side.
struct Pairing<'a, 'py> {
    py: Python<'py>,
    pairs: &'a [Pair<'a>],
    table: &'a Table,
    /// The side of those that came: 0 is the left one.
    own: usize,
    of_other: &'a [Field],
    /// The kinds of fields of those that came, and of the others.
    kinds: [&'a [Kind]; 2],
}

impl<'py> Pairing<'_, 'py> {
    /// None: ask Python.
    fn results(&self, projector: &Projector) -> PyResult<Option<Results<'py>>> {
        let py = self.py;
        let ts = |pair: &Pair<'_>| pair.arrived.ts.max(pair.there.ts);
        let Ok(chosen) = projector.chosen(self.pairs.len(), self, |at| ts(&self.pairs[at])) else { return Ok(None) };
        let Ok(made) = projector.made(py, &chosen, self)? else { return Ok(None) };
        let of = |number: &dyn Fn(&Pair<'_>) -> i64| {
            bytes(py, chosen.len(), chosen.iter().map(|at| number(&self.pairs[*at as usize]).to_ne_bytes()))
        };
        Ok(Some((made, of(&ts)?, of(&|pair| identity(pair.arrived.mark, pair.there.mark))?)))
    }

    fn met(&self) -> PyResult<Met<'py>> {
        let mut met = Met::default();
        for Pair { arrived, there } in self.pairs {
            met.own.push(self.table.event(self.py, arrived.row)?);
            met.other.push(there.tuple.event(self.py)?);
            met.identities.push(identity(arrived.mark, there.mark));
        }
        Ok(met)
    }

    fn gathered<'a>(
        &'a self,
        which: usize,
        at: usize,
        pairs: impl ExactSizeIterator<Item = &'a Pair<'a>>,
    ) -> Result<Values<'a>, Unsuited> {
        let count = pairs.len();
        if which == self.own {
            return gathered(self.kinds[0][at], pairs.map(|pair| self.table.cell(at, pair.arrived.row)), count);
        }
        let kind = *self.kinds[1].get(at).ok_or(Unsuited)?;
        gathered(kind, pairs.map(|pair| pair.there.tuple.cell(self.py, at, self.of_other)), count)
    }
}

impl Rows for Pairing<'_, '_> {
    fn run(&self, which: usize, at: usize, rows: Range<usize>) -> Result<Values<'_>, Unsuited> {
        self.gathered(which, at, self.pairs[rows].iter())
    }

    fn some(&self, which: usize, at: usize, rows: &[u32]) -> Result<Values<'_>, Unsuited> {
        self.gathered(which, at, rows.iter().map(|row| &self.pairs[*row as usize]))
    }
}

/// Pairs as columns: tuples of the side that changes, those of the other, and identities.
#[derive(Default)]
struct Met<'py> {
    own: Vec<Bound<'py, PyAny>>,
    other: Vec<Bound<'py, PyAny>>,
    identities: Vec<i64>,
}

impl<'py> Met<'py> {
    fn columns(self, py: Python<'py>, is_left: bool) -> PyResult<Columns<'py>> {
        let (own, other) = (PyList::new(py, self.own)?, PyList::new(py, self.other)?);
        let identities = PyList::new(py, self.identities)?;
        Ok(if is_left { (own, other, identities) } else { (other, own, identities) })
    }
}
