//! Events as columns: a record batch and its stamps; and the order of arrival over several of them.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::block::arrival::in_arrival;
use crate::block::arrow::{Cells, Column, Texts};
use crate::block::batch;
use crate::block::python::blocks::Block;
use crate::block::python::import::Batch;
use crate::event::survey::{Survey, seen};
use crate::expr::program::{Sources, bytes};
use crate::windows::fiba::python::columns::numbers;

/// Events in columns: their own fields, then ts, id and source. They are looked up once, whoever reads them.
#[pyclass(frozen, module = "middleware.native")]
pub struct EventBatch {
    given: Given,
    own: usize,
    rows: usize,
}

enum Given {
    Foreign(Batch),
    /// Columns of a block.
    Own(Arc<batch::Batch>),
}

#[pymethods]
impl EventBatch {
    /// From a record batch, or a block, that has `own` columns before ts.
    #[new]
    fn new(given: &Bound<'_, PyAny>, own: usize) -> PyResult<Self> {
        if let Ok(block) = given.cast_exact::<Block>() {
            let batch = block.get().batch();
            return Ok(Self { rows: batch.rows, given: Given::Own(batch.clone()), own });
        }
        let batch = Batch::of(given)?;
        Ok(Self { rows: batch.rows(given.py())?, given: Given::Foreign(batch), own })
    }

    fn __len__(&self) -> usize {
        self.rows
    }

    /// The source of an event.
    fn source<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyString>> {
        let column = self.column(py, self.source_place())?;
        let text = |texts: &Texts<'_>, at: usize| PyString::from_bytes(py, texts.get(at));
        match (column.coded(), column.cells()) {
            _ if row >= self.rows => Err(PyIndexError::new_err("there is no such event")),
            (Some((names, codes)), _) => text(&names, codes[row] as usize),
            (None, Cells::Texts(texts)) => text(&texts, row),
            _ => Err(PyValueError::new_err("sources of events are texts")),
        }
    }

    /// Survey the times: see `survey_events`.
    fn survey(&self, py: Python<'_>, top: i64, clk: i64, only_earliest: bool) -> PyResult<Survey> {
        seen(self.times(py)?.iter().copied().map(Ok), top, clk, only_earliest)
    }
}

impl EventBatch {
    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn column(&self, py: Python<'_>, at: usize) -> PyResult<Column<'_>> {
        match &self.given {
            Given::Foreign(batch) => batch.column(py, at),
            Given::Own(batch) => match batch.columns.get(at) {
                Some(column) => Ok(Column::Own(column, batch.rows)),
                None => Err(PyValueError::new_err("the block has too few columns")),
            },
        }
    }

    /// Where the sources lie; the levels, if some are not 0, come behind.
    pub fn source_place(&self) -> usize {
        self.own + 2
    }

    /// Whether there is a column of levels.
    pub fn has_levels(&self, py: Python<'_>) -> PyResult<bool> {
        let columns = match &self.given {
            Given::Foreign(batch) => batch.columns(py)?,
            Given::Own(batch) => batch.columns.len(),
        };
        Ok(columns > self.own + 3)
    }

    pub fn times(&self, py: Python<'_>) -> PyResult<Cow<'_, [i64]>> {
        self.integers(py, self.own)
    }

    pub fn ids(&self, py: Python<'_>) -> PyResult<Cow<'_, [i64]>> {
        self.integers(py, self.own + 1)
    }

    /// A number for each row, by its source; None for sources in another encoding.
    pub fn sources(&self, numbers: &Bound<'_, PyAny>) -> PyResult<Option<Sources<'_>>> {
        let py = numbers.py();
        Sources::of(self.column(py, self.source_place())?, |name| numbers.get_item(PyString::from_bytes(py, name)?)?.extract())
    }

    /// A column of whole numbers; of ts and id there is nothing else.
    pub fn integers(&self, py: Python<'_>, at: usize) -> PyResult<Cow<'_, [i64]>> {
        match self.column(py, at)?.cells() {
            Cells::Integers(cells) => Ok(cells),
            _ => Err(PyValueError::new_err("this column is not one of int64")),
        }
    }
}

/// The order of arrival over several batches; tests hold it against `tests.oracles.surveys`.
#[pyclass(frozen, module = "middleware.native")]
pub struct Interleaving {
    /// In order of arrival: places in the batches laid end to end, and times.
    order: Vec<u32>,
    times: Vec<i64>,
}

#[pymethods]
impl Interleaving {
    /// `places`: for each batch, those of its events in the order of arrival, or None if they came at once.
    #[new]
    fn new(py: Python<'_>, batches: Vec<Bound<'_, EventBatch>>, places: Vec<Option<Bound<'_, PyAny>>>) -> PyResult<Self> {
        let mut times = Vec::with_capacity(batches.iter().map(|batch| batch.get().len()).sum());
        let (mut placed, mut runs): (Vec<(i64, u32)>, _) = (Vec::new(), Vec::new());
        for (batch, places) in batches.iter().zip(places) {
            let start = times.len() as u32;
            times.extend_from_slice(&batch.get().times(py)?);
            let own = start..times.len() as u32;
            match places {
                Some(places) => placed.extend(integers(&places)?.into_iter().zip(own)),
                None => runs.push(own.collect::<Vec<_>>()),
            }
        }
        let order = in_arrival(placed, runs, &times);
        if order.len() != times.len() {
            return Err(PyValueError::new_err("each event has one place"));
        }
        let times = order.iter().map(|at| times[*at as usize]).collect();
        Ok(Self { order, times })
    }

    /// Survey the times: see `survey_events`.
    fn survey(&self, top: i64, clk: i64, only_earliest: bool) -> PyResult<Survey> {
        seen(self.times.iter().copied().map(Ok), top, clk, only_earliest)
    }

    /// The place of the last event.
    fn last(&self) -> PyResult<u32> {
        self.order.last().copied().ok_or_else(|| PyIndexError::new_err("there are no events"))
    }

    /// In order of arrival, places in the batches laid end to end: the bytes of int64.
    fn order<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, self.order.len(), self.order.iter().map(|at| i64::from(*at).to_ne_bytes()))
    }

    /// Times in order of arrival, as bytes.
    fn times<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, self.times.len(), self.times.iter().map(|ts| ts.to_ne_bytes()))
    }
}

pub fn integers(given: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    match given.cast_exact::<PyList>() {
        Ok(list) => list.iter().map(|number| number.extract()).collect(),
        Err(_) => numbers(given),
    }
}
