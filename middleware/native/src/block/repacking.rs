//! Events in columns of Arrow as blocks: the core's own, or the bytes that a `BlockReader` of their type reads.

use std::borrow::Cow;
use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::block::arrow::{self, Cells};
use crate::block::batch::{Column, Texts, Values, bits};
use crate::block::blocks::{Block, BlockReader, Form, Kind, MOST_NAMES, streamed};
use crate::block::event_batch::EventBatch;
use crate::block::naming::Naming;
use crate::block::wire::ipc::spelled;
use crate::block::wire::packing::{self, Shown, Stream};

/// The block of the rows from `start` to before `stop`, which are there; None if a column is not just as the type's. O(values).
#[pyfunction]
pub fn pack<'py>(
    py: Python<'py>,
    reader: &BlockReader,
    batch: &EventBatch,
    start: usize,
    stop: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let (form, rows) = (reader.form(), start..stop.min(batch.len()));
    let Some(columns) = kept(py, form, batch, &rows)? else { return Ok(None) };
    let shown = columns.iter().map(|column| column.shown(rows.clone()));
    streamed(py, &Stream::new(form.schema(columns.len()), rows.len(), shown)).map(Some)
}

/// The same as a block of the core. O(values).
#[pyfunction]
pub fn block_of(py: Python<'_>, reader: &BlockReader, batch: &EventBatch) -> PyResult<Option<Block>> {
    let (form, rows) = (reader.form(), 0..batch.len());
    let Some(columns) = kept(py, form, batch, &rows)? else { return Ok(None) };
    let columns = form.fields.iter().zip(columns).map(|((name, _, is_nullable), column)| column.made(name, *is_nullable));
    Ok(form.block(rows.len(), columns.collect()))
}

/// All columns of these rows; None if one is not just as the type's.
fn kept<'a>(py: Python<'a>, form: &Form, batch: &'a EventBatch, rows: &Range<usize>) -> PyResult<Option<Vec<Kept<'a>>>> {
    if rows.start > rows.end || batch.source_place() != form.own() + 2 {
        return Ok(None);
    }
    let count = form.fields.len() - usize::from(!batch.has_levels(py)?);
    (0..count).map(|at| Ok(Kept::of(form, at, batch.column(py, at)?, rows.clone()))).collect()
}

/// The values of a column: where they lie, of all rows, or made for the rows that are wanted.
enum Source<'a> {
    Integers(Cow<'a, [i64]>),
    Floats(Cow<'a, [f64]>),
    Made(Values),
}

struct Kept<'a> {
    there: Option<(Vec<u8>, usize)>,
    source: Source<'a>,
}

impl<'a> Kept<'a> {
    fn of(form: &Form, at: usize, column: arrow::Column<'a>, rows: Range<usize>) -> Option<Self> {
        let (_, kind, is_nullable) = &form.fields[at];
        let missing = |there: Vec<u8>| {
            let there = &there[rows.clone()];
            let missing = there.iter().filter(|is_there| **is_there == 0).count();
            (missing > 0).then(|| (bits(there), missing))
        };
        let there = column.there().and_then(missing);
        if there.is_some() && !is_nullable {
            return None;
        }
        let source = match (kind, column.cells()) {
            (Kind::Integer | Kind::Time, Cells::Integers(cells)) => Source::Integers(cells),
            (Kind::Float, Cells::Floats(cells)) => Source::Floats(cells),
            (Kind::Flag, Cells::Flags(cells)) => Source::Made(Values::Flags(bits(&cells[rows]))),
            (Kind::Text, Cells::Texts(texts)) if at < form.own() => {
                let mut own = Texts::new();
                rows.clone().try_for_each(|row| own.push(texts.get(row)))?;
                Source::Made(Values::Texts(own))
            }
            (Kind::Text, _) if at == form.own() + 2 => {
                let (mut naming, mut codes) = (Naming::new(), Vec::with_capacity(rows.len()));
                naming.add(column, rows, &mut codes)?;
                let own = Values::Coded(codes, naming.names);
                (spelled(&own) <= MOST_NAMES).then_some(Source::Made(own))?
            }
            _ => return None,
        };
        Some(Self { there, source })
    }

    /// As a column of all rows.
    fn made(self, name: &Arc<CString>, is_nullable: bool) -> Column {
        let values = match self.source {
            Source::Integers(cells) => Values::Integers(cells.into_owned()),
            Source::Floats(cells) => Values::Floats(cells.into_owned()),
            Source::Made(values) => values,
        };
        Column { name: name.clone(), is_nullable, there: self.there, values }
    }

    fn shown(&self, rows: Range<usize>) -> Shown<'_> {
        let cells = match &self.source {
            Source::Integers(cells) => packing::Cells::Integers(&cells[rows]),
            Source::Floats(cells) => packing::Cells::Floats(&cells[rows]),
            Source::Made(values) => values.into(),
        };
        Shown::new(self.there.as_ref(), cells)
    }
}
