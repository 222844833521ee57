//! Tuples that come in columns, for `pairs`: which of them are joined at all, and the results of the pairs that they make.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::arrow::Cells;
use crate::block::Block;
use crate::fields::Field;
use crate::pairs::{Held, Key, Marks, Met, identity};
use crate::program::{Input, Kind, Program, Projector, Rows, Unsuited, Values, bytes, gathered, passing};
use crate::tuples::Table;

/// How tuples in columns are read.
pub struct Reading {
    /// Fields that are read, of which kinds, and where in a batch they lie.
    pub fields: Vec<Field>,
    pub kinds: Vec<Kind>,
    places: Vec<usize>,
    /// Where the key lies, if it is a whole number.
    key: Option<usize>,
    /// What tuples must pass to be joined.
    before: Option<Program>,
}

/// Fields, their kinds and places, the place of the key, and the test.
pub type ReadingSpec<'py> = (Vec<Field>, Vec<String>, Vec<usize>, Option<usize>, Option<Bound<'py, PyAny>>);

impl Reading {
    pub fn parse((fields, kinds, places, key, before): ReadingSpec<'_>) -> PyResult<Self> {
        let kinds = kinds.iter().map(|kind| Kind::named(kind)).collect::<PyResult<_>>()?;
        Ok(Self { fields, kinds, places, key, before: before.map(|node| Program::parse(&node)).transpose()? })
    }
}

/// A tuple that comes in columns.
pub struct Arrived {
    pub key: Key,
    pub ts: i64,
    pub mark: u64,
    pub row: u32,
}

/// The tuples of a batch that are joined at all.
pub struct Entering {
    pub tuples: Vec<Arrived>,
    pub table: Py<Table>,
}

impl Entering {
    /// None: ask Python.
    pub fn of(
        events: &Bound<'_, PyAny>,
        block: &Bound<'_, Block>,
        keys: Option<&Bound<'_, PyList>>,
        reading: &Reading,
        marks: &Marks,
    ) -> PyResult<Option<Self>> {
        let (py, block) = (events.py(), block.get());
        let (times, ids) = (block.times(py)?, block.ids(py)?);
        let Some(sources) = block.sources(marks.hashes.bind(py))? else { return Ok(None) };
        let inputs = reading.places.iter().map(|at| Ok(Input::of(block.column(py, *at)?).into_owned()));
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
            let column = block.column(py, place)?;
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
pub struct Pair<'a> {
    pub arrived: &'a Arrived,
    pub there: &'a Held,
}

/// Results as columns: fields, times, ids.
pub type Results<'py> = (Bound<'py, PyList>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Pairs of tuples that came in columns with those of the other side.
pub struct Pairing<'a, 'py> {
    pub py: Python<'py>,
    pub pairs: &'a [Pair<'a>],
    pub table: &'a Table,
    /// The side of those that came: 0 is the left one.
    pub own: usize,
    pub of_other: &'a [Field],
    /// The kinds of fields of those that came, and of the others.
    pub kinds: [&'a [Kind]; 2],
}

impl<'py> Pairing<'_, 'py> {
    /// None: ask Python.
    pub fn results(&self, projector: &Projector) -> PyResult<Option<Results<'py>>> {
        let py = self.py;
        let ts = |pair: &Pair<'_>| pair.arrived.ts.max(pair.there.ts);
        let Ok(chosen) = projector.chosen(self.pairs.len(), self, |at| ts(&self.pairs[at])) else { return Ok(None) };
        let Ok(made) = projector.made(py, &chosen, self)? else { return Ok(None) };
        let of = |number: &dyn Fn(&Pair<'_>) -> i64| {
            bytes(py, chosen.len(), chosen.iter().map(|at| number(&self.pairs[*at as usize]).to_ne_bytes()))
        };
        Ok(Some((made, of(&ts)?, of(&|pair| identity(pair.arrived.mark, pair.there.mark))?)))
    }

    pub fn met(&self) -> PyResult<Met<'py>> {
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
