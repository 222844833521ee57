//! Blocks of one type that wait for their time.

use std::sync::Arc;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::block::batch::Batch;
use crate::block::gathered;
use crate::block::python::blocks::{Block, EventForm};
use crate::block::waiting::{TooLong, WaitingBatches};

#[pyclass(module = "middleware.native")]
#[derive(Default)]
pub struct HeldBlocks {
    form: Option<Arc<EventForm>>,
    held: WaitingBatches,
}

#[pymethods]
impl HeldBlocks {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.held.len()
    }

    fn put(&mut self, block: &Bound<'_, Block>, above: i64) -> usize {
        let form = self.form.get_or_insert_with(|| block.get().form().clone());
        self.held.put(form, block.get().batch(), above)
    }

    fn pick(&mut self, ids: Vec<i64>) -> PyResult<Option<Block>> {
        let Some(form) = &self.form else { return Ok(None) };
        block(form, self.held.pick(form, ids))
    }

    fn first(&self) -> PyResult<Option<Block>> {
        let Some(form) = &self.form else { return Ok(None) };
        block(form, self.held.first(form))
    }

    fn release(&mut self, until: i64) -> PyResult<Option<Block>> {
        let Some(form) = &self.form else { return Ok(None) };
        block(form, self.held.release(form, until))
    }
}

fn block(form: &Arc<EventForm>, found: Result<Option<Arc<Batch>>, TooLong>) -> PyResult<Option<Block>> {
    match found {
        Ok(batch) => Ok(batch.map(|batch| Block::of(batch, form.clone()))),
        Err(TooLong) => Err(PyOverflowError::new_err("texts too long for a column")),
    }
}

/// Blocks of one type, one after another, as one. O(values).
#[pyfunction]
pub fn joined(blocks: Vec<Bound<'_, Block>>) -> PyResult<Option<Block>> {
    let parts: Vec<_> = blocks.iter().map(|block| block.get().batch()).collect();
    let Some(first) = blocks.first().filter(|_| parts.iter().any(|part| part.rows > 0)) else { return Ok(None) };
    let form = first.get().form();
    block(form, gathered::joined(form, &parts).map(Some).ok_or(TooLong))
}
