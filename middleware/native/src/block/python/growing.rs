//! Events of one type, which are objects, as columns that grow.

use std::mem;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::block::growing::{Growing, Run};
use crate::block::python::blocks::{Block, BlockReader, EventForm};

/// The events of one type: as a block, their identities as runs, and their places among all, 2 bytes each.
pub type Part<'py> = (Py<BlockReader>, Block, Option<Vec<Run>>, Bound<'py, PyBytes>);

/// The events of one type.
pub struct GrowingEvents {
    pub form: Arc<EventForm>,
    reader: Py<BlockReader>,
    pub growing: Growing,
    /// The source of the event before.
    last: Option<(Py<PyString>, i32)>,
}

impl GrowingEvents {
    pub fn new(form: Arc<EventForm>, reader: Py<BlockReader>) -> Self {
        Self { growing: Growing::new(&form), form, reader, last: None }
    }

    /// Add an event; how many bytes its values take. None: it is half added.
    #[inline]
    pub fn put(&mut self, event: &Bound<'_, PyAny>) -> Option<usize> {
        let (maker, last) = (&self.form.maker, &mut self.last);
        self.growing.put(
            |field| maker.value(event, field),
            |growing, source| {
                let source = source.cast_into_exact::<PyString>().ok()?;
                match last {
                    Some((known, code)) if known.is(&source) => Some(*code),
                    _ => {
                        let code = growing.number(source.to_str().ok()?)?;
                        *last = Some((source.unbind(), code));
                        Some(code)
                    }
                }
            },
        )
    }

    /// Forget all events from this one on, and the names of sources from that one on.
    pub fn truncate(&mut self, rows: usize, names: usize) {
        self.growing.truncate(rows, names);
        self.last = None;
    }

    pub fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Part<'py>> {
        self.last = None;
        let done = mem::replace(&mut self.growing, Growing::new(&self.form));
        let (runs, places) = (done.runs(), done.places.iter().flat_map(|place| place.to_le_bytes()).collect::<Vec<_>>());
        Ok((self.reader.clone_ref(py), block(&self.form, done)?, runs, PyBytes::new(py, &places)))
    }
}

fn block(form: &Arc<EventForm>, growing: Growing) -> PyResult<Block> {
    let batch = growing.batch(form).ok_or_else(|| PyValueError::new_err("events without stamps"))?;
    Ok(Block::of(Arc::new(batch), form.clone()))
}

/// Events of the type of a reader as columns; None if one has a value that does not go into its column as it is. O(values).
#[pyfunction]
pub fn in_columns(reader: &Bound<'_, BlockReader>, events: &Bound<'_, PyList>) -> PyResult<Option<Block>> {
    let mut part = GrowingEvents::new(reader.get().form().clone(), reader.clone().unbind());
    let of = part.form.maker.of().as_ptr();
    for event in events.iter() {
        if event.get_type_ptr().cast() != of || part.put(&event).is_none() {
            return Ok(None);
        }
    }
    block(&part.form, part.growing).map(Some)
}
