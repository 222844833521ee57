//! Tuples that come in columns, for `pairs`: which of them are joined at all, and the results of the pairs that they make.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::block::arrow::Cells;
use crate::block::batch::is_sparse;
use crate::block::python::blocks::Block;
use crate::block::python::event_batch::EventBatch;
use crate::block::python::results::Stamping;
use crate::event::python::fields::Field;
use crate::expr::program::{Input, Kind, Program, Projector, Rows, Values, gathered, passing};
use crate::expr::python::tuples::{Table, Tuple};
use crate::expr::value::Unsure;
use crate::join::python::pairs::{Key, Marks, Met};
use crate::join::sides::{Held, Pair, Part, Side};

/// How tuples in columns are read.
pub struct Reading {
    /// Fields that are read, of which kinds, and where in a batch they lie.
    pub fields: Vec<Field>,
    pub kinds: Vec<Kind>,
    places: Vec<usize>,
    /// Where the key lies, if it is a whole number.
    key: Option<usize>,
    /// The test that tuples must pass to be joined.
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

/// The tuples of a block that are joined at all, and their keys.
pub struct Entering {
    pub part: Part<Key, Tuple>,
    pub table: Py<Table>,
}

/// Which side they enter, the same as a sequence of events, and keys, unless these are a column of whole numbers.
pub type Given<'py> = (bool, Bound<'py, PyAny>, Bound<'py, EventBatch>, Option<Bound<'py, PyList>>);

impl Entering {
    /// None: ask Python.
    pub fn of((is_left, events, block, keys): Given<'_>, reading: &Reading, marks: &Marks) -> PyResult<Option<Self>> {
        let (py, block) = (events.py(), block.get());
        let (times, ids) = (block.times(py)?, block.ids(py)?);
        let Some(sources) = block.sources(marks.hashes.bind(py))? else { return Ok(None) };
        let inputs = reading.places.iter().map(|at| Ok(Input::of(block.column(py, *at)?).into_owned()));
        let table = Table::new(events.unbind(), inputs.collect::<PyResult<_>>()?);
        let rows = match &reading.before {
            None => (0..times.len() as u32).collect(),
            Some(before) => match passing(before, times.len(), &table) {
                Ok(rows) => rows,
                Err(Unsure) => return Ok(None),
            },
        };
        let (mut kept, mut found) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        let mut add = |row: u32, key: Key| {
            kept.push(row);
            found.push(key);
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
        let is_sparse = is_sparse(kept.len(), times.len());
        let table = Py::new(py, if is_sparse { table.taken(py, &kept)? } else { table })?;
        let tuple = |(place, &row): (usize, &u32)| {
            let at = row as usize;
            let mark = marks.mark(ids[at], sources.get(at) as u64);
            let own = if is_sparse { place as u32 } else { row };
            Held { ts: times[at], mark, tuple: Tuple::Row(table.clone_ref(py), own) }
        };
        let tuples = kept.iter().enumerate().map(tuple).collect();
        Ok(Some(Self { part: Part { side: Side::of(is_left), tuples, keys: found }, table }))
    }
}

/// NULL equals nothing, nor does what has one.
fn is_null(key: &Bound<'_, PyAny>) -> bool {
    key.is_none() || key.cast::<PyTuple>().is_ok_and(|parts| parts.iter().any(|part| part.is_none()))
}

/// Pairs of which one tuple, or both, came in columns.
pub struct Pairing<'a, 'py> {
    pub py: Python<'py>,
    pub pairs: &'a [Pair<'a, Tuple>],
    /// How tuples of the left and of the right side are read.
    pub sides: [&'a Reading; 2],
}

impl<'py> Pairing<'_, 'py> {
    /// None: ask Python.
    pub fn results(&self, projector: &Projector, stamping: &Stamping) -> Option<Block> {
        let times: Vec<i64> = self.pairs.iter().map(Pair::ts).collect();
        let chosen = projector.chosen(times.len(), self, |at| times[at]).ok()?;
        let made = projector.made(&chosen, self).ok()?;
        let ids = chosen.iter().map(|at| self.pairs[*at as usize].identity()).collect();
        stamping.block(made, chosen.iter().map(|at| times[*at as usize]).collect(), ids)
    }

    /// The pairs as events.
    pub fn met(&self) -> PyResult<Met<'py>> {
        let mut met = Met::default();
        for pair in self.pairs {
            let [left, right] = pair.0.map(|held| held.tuple.event(self.py));
            met.add(true, left?, right?, pair.identity());
        }
        Ok(met)
    }

    fn gathered<'a>(
        &'a self,
        which: usize,
        at: usize,
        pairs: impl ExactSizeIterator<Item = &'a Pair<'a, Tuple>>,
    ) -> Result<Values<'a>, Unsure> {
        let (side, count) = (self.sides[which], pairs.len());
        gathered(side.kinds[at], pairs.map(|pair| pair.0[which].tuple.cell(self.py, at, &side.fields)), count)
    }
}

impl Rows for Pairing<'_, '_> {
    fn run(&self, which: usize, at: usize, rows: Range<usize>) -> Result<Values<'_>, Unsure> {
        self.gathered(which, at, self.pairs[rows].iter())
    }

    fn some(&self, which: usize, at: usize, rows: &[u32]) -> Result<Values<'_>, Unsure> {
        self.gathered(which, at, rows.iter().map(|row| &self.pairs[*row as usize]))
    }
}
