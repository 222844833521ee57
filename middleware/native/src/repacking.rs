//! Events in columns of Arrow as blocks that a `BlockReader` of their type reads.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::{self, Cells};
use crate::blocks::{BlockReader, Form, Kind, MOST_NAMES};
use crate::event_batch::EventBatch;
use crate::export::{Batch, Column, Texts, Values, bits};
use crate::ipc::spelled;
use crate::packing::stream;

/// The block of the rows from `start` to before `stop`, which are there; None if a column is not just as the type's. O(values).
#[pyfunction]
pub fn pack<'py>(
    py: Python<'py>,
    reader: &BlockReader,
    batch: &EventBatch,
    start: usize,
    stop: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let form = reader.form();
    let (rows, stop) = (start..stop.min(batch.len()), stop.min(batch.len()));
    if start > stop || batch.source_place() != form.own() + 2 {
        return Ok(None);
    }
    let mut columns = Vec::with_capacity(form.fields.len());
    for at in 0..form.fields.len() {
        if at + 1 == form.fields.len() && !batch.has_levels(py)? {
            break;
        }
        match column(form, at, batch.column(py, at)?, rows.clone()) {
            Some(column) => columns.push(column),
            None => return Ok(None),
        }
    }
    let batch = Batch { rows: rows.len(), columns };
    Ok(Some(PyBytes::new(py, &stream(form.schema(batch.columns.len()), &batch))))
}

fn column(form: &Form, at: usize, column: arrow::Column<'_>, rows: std::ops::Range<usize>) -> Option<Column> {
    let (name, kind, is_nullable) = &form.fields[at];
    let missing = |there: Vec<u8>| {
        let there = &there[rows.clone()];
        let missing = there.iter().filter(|is_there| **is_there == 0).count();
        (missing > 0).then(|| (bits(there), missing))
    };
    let there = column.there().and_then(missing);
    if there.is_some() && !is_nullable {
        return None;
    }
    let values = match (kind, column.cells()) {
        (Kind::Integer | Kind::Time, Cells::Integers(cells)) => Values::Integers(cells[rows].to_vec()),
        (Kind::Float, Cells::Floats(cells)) => Values::Floats(cells[rows].to_vec()),
        (Kind::Flag, Cells::Flags(cells)) => Values::Flags(bits(&cells[rows])),
        (Kind::Text, Cells::Texts(texts)) if at < form.own() => {
            let mut own = Texts::new();
            rows.clone().try_for_each(|row| own.push(texts.get(row)))?;
            Values::Texts(own)
        }
        (Kind::Text, cells) if at == form.own() + 2 => sources(column, &cells, rows)?,
        _ => return None,
    };
    let made = Column { name: name.clone(), is_nullable: *is_nullable, there, values };
    (spelled(&made) <= MOST_NAMES).then_some(made)
}

/// The names of the sources of these rows, each once, and the number of each row's own.
fn sources(column: arrow::Column<'_>, cells: &Cells<'_>, rows: std::ops::Range<usize>) -> Option<Values> {
    let (mut names, mut own) = (Texts::new(), Vec::with_capacity(rows.len()));
    if let Some((texts, codes)) = column.coded() {
        let mut numbers = vec![-1; texts.len()];
        for code in &codes[rows] {
            let number = numbers.get_mut(usize::try_from(*code).ok()?)?;
            if *number < 0 {
                *number = i32::try_from(names.len()).ok()?;
                names.push(texts.get(*code as usize))?;
            }
            own.push(*number);
        }
        return Some(Values::Coded(own, names));
    }
    let Cells::Texts(texts) = cells else { return None };
    let mut known: HashMap<&[u8], i32> = HashMap::new();
    for row in rows {
        let next = i32::try_from(names.len()).ok()?;
        let name = texts.get(row);
        let number = *known.entry(name).or_insert(next);
        if number == next {
            names.push(name)?;
        }
        own.push(number);
    }
    Some(Values::Coded(own, names))
}
