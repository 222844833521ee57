//! Selection and projection of columns: tests and fields that are programs, in a pass over a record batch.
//!
//! Whatever is not decided here as Python would decide it leaves the batch to Python.

use std::cell::OnceCell;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::block::arrow::Column;
use crate::block::python::blocks::Block;
use crate::block::python::event_batch::EventBatch;
use crate::block::python::results::{Stamping, StampingSpec};
use crate::expr::program::{BLOCK, Input, Program, Projector, Rows, Spec, Values};
use crate::expr::value::Unsure;

#[pyclass(module = "middleware.native")]
pub struct Selection {
    projector: Projector,
    /// Where in a batch the columns lie that programs read.
    places: Vec<usize>,
    results: Stamping,
}

#[pymethods]
impl Selection {
    /// `test`, `fields`: expressions as nested tuples, fields with the kind of their values and whether these may be missing.
    #[new]
    fn new(
        test: Option<Bound<'_, PyAny>>,
        fields: Vec<Spec<'_>>,
        places: Vec<usize>,
        results: StampingSpec<'_>,
    ) -> PyResult<Self> {
        Ok(Self { projector: Projector::new(test.as_ref(), fields)?, places, results: Stamping::new(results) })
    }

    /// The results of a block, in order of time, with the identity id ^ number of the source; None: ask Python.
    fn of(&self, block: &Bound<'_, EventBatch>, numbers: &Bound<'_, PyAny>) -> PyResult<Option<Block>> {
        let (py, block) = (block.py(), block.get());
        let (times, ids) = (block.times(py)?, block.ids(py)?);
        let Some(sources) = block.sources(numbers)? else { return Ok(None) };
        let inputs = Inputs::of(py, block, &self.places)?;
        let Ok(chosen) = self.projector.chosen(times.len(), &inputs, |row| times[row]) else { return Ok(None) };
        let Ok(made) = self.projector.made(&chosen, &inputs) else { return Ok(None) };
        let rows = || chosen.iter().map(|row| *row as usize);
        let ids = rows().map(|row| ids[row] ^ sources.get(row)).collect();
        Ok(self.results.block(made, rows().map(|row| times[row]).collect(), ids))
    }
}

/// A test of the events of a batch, which leaves these as they are.
#[pyclass(module = "middleware.native")]
pub struct ColumnCondition {
    test: Program,
    /// Where in a batch the columns lie that the test reads.
    places: Vec<usize>,
}

#[pymethods]
impl ColumnCondition {
    /// `test`: an expression as nested tuples.
    #[new]
    fn new(test: &Bound<'_, PyAny>, places: Vec<usize>) -> PyResult<Self> {
        Ok(Self { test: Program::parse(test)?, places })
    }

    /// A byte for each event of a batch: 1 if the test is true, 0 if it is false or NULL; None: ask Python.
    fn of<'py>(&self, block: &Bound<'py, EventBatch>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (py, block) = (block.py(), block.get());
        let count = block.times(py)?.len();
        let inputs = Inputs::of(py, block, &self.places)?;
        let mut flags = Vec::with_capacity(count);
        for start in (0..count).step_by(BLOCK) {
            let end = count.min(start + BLOCK);
            let found = self.test.passes(end - start, &|which, at| inputs.run(which, at, start..end));
            let Ok(found) = found else { return Ok(None) };
            flags.extend(found);
        }
        Ok(Some(PyBytes::new(py, &flags)))
    }
}

/// The columns of a batch, each read when it is first asked for.
struct Inputs<'a>(Vec<(Column<'a>, OnceCell<Input<'a>>)>);

impl<'a> Inputs<'a> {
    fn of(py: Python<'_>, block: &'a EventBatch, places: &[usize]) -> PyResult<Self> {
        let columns = places.iter().map(|at| Ok((block.column(py, *at)?, OnceCell::new()))).collect::<PyResult<_>>()?;
        Ok(Self(columns))
    }

    fn input(&self, at: usize) -> &Input<'a> {
        let (column, input) = &self.0[at];
        input.get_or_init(|| Input::of(*column))
    }
}

impl Rows for Inputs<'_> {
    fn run(&self, _: usize, at: usize, rows: Range<usize>) -> Result<Values<'_>, Unsure> {
        self.input(at).run(rows)
    }

    fn some(&self, _: usize, at: usize, rows: &[u32]) -> Result<Values<'_>, Unsure> {
        self.input(at).some(rows)
    }
}
