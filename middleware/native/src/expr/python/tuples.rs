//! Tuples that joins hold: events, or rows of columns with what conditions and results read of them.

use std::ops::Range;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBool, PyFloat, PyInt};

use crate::event::python::fields::Field;
use crate::expr::program::{Cell, Input, Rows, Values};
use crate::expr::value::Unsure;

/// Rows of one batch. Tuples hold it as Python objects are held.
#[pyclass(frozen)]
pub struct Table {
    /// The same as a sequence of events.
    events: Py<PyAny>,
    inputs: Vec<Input<'static>>,
}

impl Table {
    pub fn new(events: Py<PyAny>, inputs: Vec<Input<'static>>) -> Self {
        Self { events, inputs }
    }

    /// A table of these rows alone.
    pub fn taken(&self, py: Python<'_>, rows: &[u32]) -> PyResult<Self> {
        let events = self.events.bind(py).call_method1(intern!(py, "take"), (rows.to_vec(),))?;
        Ok(Self::new(events.unbind(), self.inputs.iter().map(|input| input.taken(rows)).collect()))
    }

    /// An event; all of the batch are made, once.
    pub fn event<'py>(&self, py: Python<'py>, row: u32) -> PyResult<Bound<'py, PyAny>> {
        self.events.bind(py).call_method0(intern!(py, "events"))?.get_item(row)
    }

    #[inline]
    pub fn cell(&self, at: usize, row: u32) -> Cell<'_> {
        self.inputs[at].cell(row as usize)
    }
}

impl Rows for Table {
    fn run(&self, _: usize, at: usize, rows: Range<usize>) -> Result<Values<'_>, Unsure> {
        self.inputs[at].run(rows)
    }

    fn some(&self, _: usize, at: usize, rows: &[u32]) -> Result<Values<'_>, Unsure> {
        self.inputs[at].some(rows)
    }
}

pub enum Tuple {
    Event(Py<PyAny>),
    Row(Py<Table>, u32),
}

impl Tuple {
    /// The same once more.
    pub fn again(&self, py: Python<'_>) -> Self {
        match self {
            Self::Event(event) => Self::Event(event.clone_ref(py)),
            Self::Row(table, row) => Self::Row(table.clone_ref(py), *row),
        }
    }

    /// Whether it is a row of that table.
    pub fn is_of(&self, other: &Py<Table>) -> bool {
        matches!(self, Self::Row(table, _) if table.is(other))
    }

    /// The object, made if there is none.
    pub fn event<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Event(event) => Ok(event.bind(py).clone()),
            Self::Row(table, row) => table.get().event(py, *row),
        }
    }

    /// What is read of it as the field of that number, if it is of a type that columns have; texts of events are left to Python.
    #[inline]
    pub fn cell(&self, py: Python<'_>, at: usize, fields: &[Field]) -> Cell<'_> {
        match self {
            Self::Row(table, row) => table.get().cell(at, *row),
            Self::Event(event) => fields[at].of(event.bind(py)).map_or(Cell::Other, |value| of_object(&value)),
        }
    }
}

/// What is an object, if it is of a type that columns have; texts are left to Python.
pub fn of_object(value: &Bound<'_, PyAny>) -> Cell<'static> {
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        Cell::Float(number.value())
    } else if let Ok(number) = value.cast_exact::<PyInt>() {
        number.extract().map_or(Cell::Other, Cell::Int)
    } else if let Ok(flag) = value.cast_exact::<PyBool>() {
        Cell::Flag(u8::from(flag.is_true()))
    } else if value.is_none() {
        Cell::Null
    } else {
        Cell::Other
    }
}
