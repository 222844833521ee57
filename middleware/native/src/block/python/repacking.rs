//! Events in columns of Arrow as blocks: the core's own, or the bytes that a `BlockReader` of their type reads.

use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::block::form::Form;
use crate::block::kept::Kept;
use crate::block::python::blocks::{Block, BlockReader, streamed};
use crate::block::python::event_batch::EventBatch;
use crate::block::wire::packing::Stream;

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

/// Return a batch as a block of the core. O(values).
#[pyfunction]
pub fn block_of(py: Python<'_>, reader: &BlockReader, batch: &EventBatch) -> PyResult<Option<Block>> {
    let (form, rows) = (reader.form(), 0..batch.len());
    let Some(columns) = kept(py, form, batch, &rows)? else { return Ok(None) };
    let batch = form.batch(rows.len(), columns.into_iter().map(Kept::made));
    Ok(batch.map(|batch| Block::of(Arc::new(batch), form.clone())))
}

/// All columns of these rows; None if one is not just as the type's.
fn kept<'a>(py: Python<'a>, form: &Form, batch: &'a EventBatch, rows: &Range<usize>) -> PyResult<Option<Vec<Kept<'a>>>> {
    if rows.start > rows.end || batch.source_place() != form.own() + 2 {
        return Ok(None);
    }
    let count = form.fields.len() - usize::from(!batch.has_levels(py)?);
    (0..count).map(|at| Ok(Kept::of(form, at, batch.column(py, at)?, rows.clone()))).collect()
}
