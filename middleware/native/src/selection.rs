//! Selection and projection of columns: tests and fields that are programs, in a pass over a record batch.
//!
//! Twin of `detectors.cql.mapped` without the core. Whatever is not decided here as Python would decide it leaves the batch to Python.

use std::cell::OnceCell;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::arrow::Column;
use crate::event_batch::EventBatch;
use crate::program::{Input, Projector, Rows, Spec, Unsuited, Values, bytes};

/// Rows chosen, if they are asked for, times, ids; values and which are there, field by field.
type Selected<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyList>);

#[pyclass(module = "middleware.native")]
pub struct Selection {
    projector: Projector,
    /// Where in a batch the columns lie that programs read.
    places: Vec<usize>,
    /// Whether Python asks which rows were chosen.
    takes_rows: bool,
}

fn packed<'py>(py: Python<'py>, rows: &[u32], number: impl Fn(usize) -> i64) -> PyResult<Bound<'py, PyBytes>> {
    bytes(py, rows.len(), rows.iter().map(|row| number(*row as usize).to_ne_bytes()))
}

#[pymethods]
impl Selection {
    /// `test`, `fields`: expressions as nested tuples, fields with the kind of their values and whether these may be missing.
    #[new]
    fn new(test: Option<Bound<'_, PyAny>>, fields: Vec<Spec<'_>>, places: Vec<usize>, takes_rows: bool) -> PyResult<Self> {
        Ok(Self { projector: Projector::new(test.as_ref(), fields)?, places, takes_rows })
    }

    /// The results of a block, in order of time, with the identity id ^ number of the source; None: ask Python.
    fn of<'py>(&self, block: &Bound<'py, EventBatch>, numbers: &Bound<'py, PyAny>) -> PyResult<Option<Selected<'py>>> {
        let (py, block) = (block.py(), block.get());
        let (times, ids) = (block.times(py)?, block.ids(py)?);
        let Some(sources) = block.sources(numbers)? else { return Ok(None) };
        let columns = self.places.iter().map(|at| Ok((block.column(py, *at)?, OnceCell::new()))).collect::<PyResult<_>>()?;
        let inputs = Inputs(columns);
        let Ok(chosen) = self.projector.chosen(times.len(), &inputs, |row| times[row]) else { return Ok(None) };
        let Ok(made) = self.projector.made(py, &chosen, &inputs)? else { return Ok(None) };
        let rows = if self.takes_rows { packed(py, &chosen, |row| row as i64)? } else { PyBytes::new(py, &[]) };
        let ids = packed(py, &chosen, |row| ids[row] ^ sources.get(row))?;
        Ok(Some((rows, packed(py, &chosen, |row| times[row])?, ids, made)))
    }
}

/// The columns of a batch, each read when it is first asked for.
struct Inputs<'a>(Vec<(Column<'a>, OnceCell<Input<'a>>)>);

impl Inputs<'_> {
    fn input(&self, at: usize) -> &Input<'_> {
        let (column, input) = &self.0[at];
        input.get_or_init(|| Input::of(*column))
    }
}

impl Rows for Inputs<'_> {
    fn run(&self, _: usize, at: usize, rows: Range<usize>) -> Result<Values<'_>, Unsuited> {
        self.input(at).run(rows)
    }

    fn some(&self, _: usize, at: usize, rows: &[u32]) -> Result<Values<'_>, Unsuited> {
        self.input(at).some(rows)
    }
}
