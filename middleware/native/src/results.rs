//! Results of an operation as a block: their fields' columns as Python has them, and their stamps.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::blocks::{Block, BlockReader, Kind};
use crate::cells::Cells;
use crate::export::{Column, Texts, Values, bits};

type Given<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyBytes>>);

/// Which values are there, as in a `Column`, and the values.
type Made = (Option<(Vec<u8>, usize)>, Values);

/// Results of one source and level as a block; None if a column is not just as the type's. O(values).
///
/// `fields`: of each field, values (a list; the bytes of an array of its kind, or that array; of texts, where they begin and end,
/// and theirs; or None, if none is there), and a byte for each that says whether it is there, None if all are.
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
    let mut names = Texts::new();
    if fields.len() != form.own() || ids.len() != rows || names.push(source.as_bytes()).is_none() {
        return Ok(None);
    }
    let made = fields.iter().zip(&form.fields).map(|(given, (_, kind, is_nullable))| column(*kind, *is_nullable, given, rows));
    let Some(made) = made.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let codes = Values::Coded(vec![0; rows], names);
    let stamps = [Values::Integers(times), Values::Integers(ids), codes, Values::Integers(vec![level; rows])];
    let all = made.into_iter().chain(stamps.map(|values| (None, values)));
    let columns = form.fields.iter().zip(all).map(|((name, _, is_nullable), (there, values))| Column {
        name: Arc::clone(name),
        is_nullable: *is_nullable,
        there,
        values,
    });
    Ok(form.block(rows, columns.collect()))
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
        Kind::Flag => {
            let flags = values.cast_exact::<PyBytes>().ok()?.as_bytes();
            (flags.len(), Values::Flags(bits(flags)))
        }
        Kind::Text => texts(values).map(|found| (found.len(), Values::Texts(found)))?,
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

/// So many values that are not there.
fn nothing(kind: Kind, rows: usize) -> Values {
    match kind {
        Kind::Integer | Kind::Time => Values::Integers(vec![0; rows]),
        Kind::Float => Values::Floats(vec![0.0; rows]),
        Kind::Flag => Values::Flags(vec![0; rows.div_ceil(8)]),
        Kind::Text => Values::Texts(Texts { ends: vec![0; rows + 1], bytes: Vec::new() }),
    }
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

fn texts(given: &Bound<'_, PyAny>) -> Option<Texts> {
    let (ends, bytes): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = given.cast_exact::<PyTuple>().ok()?.extract().ok()?;
    let (ends, []) = ends.as_bytes().as_chunks::<4>() else { return None };
    let ends: Vec<i32> = ends.iter().copied().map(i32::from_ne_bytes).collect();
    let bytes = bytes.as_bytes();
    let is_sound = ends.first() == Some(&0) && ends.is_sorted() && *ends.last()? as usize == bytes.len();
    is_sound.then(|| Texts { ends, bytes: bytes.to_vec() })
}
