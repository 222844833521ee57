//! Results of an operation as a block: their fields' columns, made here or as Python has them, and their stamps.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::block::batch::{Values, bits};
use crate::block::cells::Cells;
use crate::block::form::Kind;
use crate::block::python::blocks::{Block, BlockReader, EventForm};
use crate::block::stamping::{Made, made, nothing, stamped};
use crate::expr::program;

type Given<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyBytes>>);

/// Results of one source and level as a block; None if a column is not just as the type's. O(values).
///
/// `fields`: of each field, values (a list; of numbers the bytes of an array of their kind, or that array; or None, if none is
/// there), and a byte for each that says whether it is there, None if all are.
#[pyfunction]
pub fn result_block(
    reader: &BlockReader,
    fields: Vec<Given<'_>>,
    times: &Bound<'_, PyAny>,
    ids: &Bound<'_, PyAny>,
    source: &str,
    level: i64,
) -> PyResult<Option<Block>> {
    let form = reader.form();
    let (Some(times), Some(ids)) = (integers(times), integers(ids)) else { return Ok(None) };
    let rows = times.len();
    if fields.len() != form.own() {
        return Ok(None);
    }
    let made = fields.iter().zip(&form.fields).map(|(given, (_, kind, is_nullable))| column(*kind, *is_nullable, given, rows));
    let Some(made) = made.collect::<Option<Vec<_>>>() else { return Ok(None) };
    Ok(block(form, made, times, ids, source, level))
}

/// The results of one operation: their type, whose they are, and their level.
pub struct Stamping {
    form: Arc<EventForm>,
    source: String,
    level: i64,
}

/// The reader and writer of blocks of results, the name of the operation, and its level.
pub type StampingSpec<'py> = (Bound<'py, BlockReader>, String, i64);

impl Stamping {
    pub fn new((reader, source, level): StampingSpec<'_>) -> Self {
        Self { form: Arc::clone(reader.get().form()), source, level }
    }

    /// Results from columns of the kinds of their fields; None if one is of another.
    pub fn block(&self, columns: Vec<program::Column>, times: Vec<i64>, ids: Vec<i64>) -> Option<Block> {
        let made = made(&self.form, columns)?;
        block(&self.form, made, times, ids, &self.source, self.level)
    }
}

fn block(form: &Arc<EventForm>, made: Vec<Made>, times: Vec<i64>, ids: Vec<i64>, source: &str, level: i64) -> Option<Block> {
    Some(Block::of(Arc::new(stamped(form, made, times, ids, source, level)?), form.clone()))
}

fn column(kind: Kind, is_nullable: bool, (values, there): &Given<'_>, rows: usize) -> Option<Made> {
    if values.is_none() {
        return is_nullable.then(|| (Some((vec![0; rows.div_ceil(8)], rows)), nothing(kind, rows)));
    }
    if let Ok(list) = values.cast_exact::<PyList>() {
        let mut cells = Cells::new(kind, is_nullable);
        list.iter().try_for_each(|value| cells.put(&value).map(|_| ()))?;
        return (list.len() == rows && there.is_none()).then(|| cells.done());
    }
    let (count, made) = match kind {
        Kind::Integer | Kind::Time => integers(values).map(|found| (found.len(), Values::Integers(found)))?,
        Kind::Float => floats(values).map(|found| (found.len(), Values::Floats(found)))?,
        Kind::Flag | Kind::Text => return None,
    };
    let there = match there {
        Some(there) if there.as_bytes().len() != rows => return None,
        Some(there) => match there.as_bytes().iter().filter(|is_there| **is_there == 0).count() {
            0 => None,
            missing => Some((bits(there.as_bytes()), missing)),
        },
        None => None,
    };
    (count == rows && (is_nullable || there.is_none())).then_some((there, made))
}

fn integers(given: &Bound<'_, PyAny>) -> Option<Vec<i64>> {
    match given.cast_exact::<PyBytes>() {
        Ok(bytes) => whole(bytes, i64::from_ne_bytes),
        Err(_) => PyBuffer::<i64>::get(given).ok()?.to_vec(given.py()).ok(),
    }
}

/// Those of whole numbers, too.
fn floats(given: &Bound<'_, PyAny>) -> Option<Vec<f64>> {
    if let Ok(bytes) = given.cast_exact::<PyBytes>() {
        return whole(bytes, f64::from_ne_bytes);
    }
    match PyBuffer::<f64>::get(given) {
        Ok(floats) => floats.to_vec(given.py()).ok(),
        Err(_) => Some(integers(given)?.into_iter().map(|number| number as f64).collect()),
    }
}

fn whole<T>(bytes: &Bound<'_, PyBytes>, of: fn([u8; 8]) -> T) -> Option<Vec<T>> {
    let (numbers, []) = bytes.as_bytes().as_chunks::<8>() else { return None };
    Some(numbers.iter().copied().map(of).collect())
}
