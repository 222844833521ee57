//! Results, or rows of their fields; or columns of these.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList};

use super::partitions::Scattered;
use crate::fiba::columns::array;

/// Results in the order in which they came, found by identity.
#[derive(Default)]
pub struct Rows {
    places: Scattered<i64, usize>,
    rows: Vec<Option<Py<PyAny>>>,
}

impl Rows {
    pub fn clear(&mut self) {
        self.places.clear();
        self.rows.clear();
    }

    pub fn set(&mut self, identity: i64, row: Py<PyAny>) {
        let at = *self.places.entry(identity).or_insert(self.rows.len());
        if at == self.rows.len() {
            self.rows.push(Some(row));
        } else {
            self.rows[at] = Some(row);
        }
    }

    /// Whether it was there.
    pub fn remove(&mut self, identity: i64) -> bool {
        self.places.remove(&identity).is_some_and(|at| self.rows[at].take().is_some())
    }

    pub fn list<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.rows.drain(..).flatten().collect::<Vec<_>>())
    }
}

/// A value of a field.
pub enum Cell {
    Nothing,
    Integer(i64),
    Float(f64),
    Object(Py<PyAny>),
}

impl Cell {
    pub fn of(object: Bound<'_, PyAny>) -> Self {
        if let Ok(number) = object.cast_exact::<PyInt>()
            && let Ok(number) = number.extract()
        {
            return Self::Integer(number);
        }
        match object.cast_exact::<PyFloat>() {
            Ok(number) => Self::Float(number.value()),
            Err(_) if object.is_none() => Self::Nothing,
            Err(_) => Self::Object(object.unbind()),
        }
    }

    fn give<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Nothing => Ok(py.None().into_bound(py)),
            Self::Integer(number) => number.into_bound_py_any(py),
            Self::Float(number) => number.into_bound_py_any(py),
            Self::Object(object) => Ok(object.bind(py).clone()),
        }
    }
}

/// Columns for Python: for each field values and which of them are there (None: all), times, ids.
pub type Given<'py> = (Vec<(Bound<'py, PyAny>, Option<Bound<'py, PyBytes>>)>, Bound<'py, PyAny>, Bound<'py, PyAny>);

struct Row {
    identity: i64,
    ts: i64,
    cells: Box<[Cell]>,
}

/// Results as cells, in the order in which they came, found by identity.
#[derive(Default)]
pub struct Cells {
    places: Scattered<i64, usize>,
    rows: Vec<Option<Row>>,
}

impl Cells {
    pub fn clear(&mut self) {
        self.places.clear();
        self.rows.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Add a result, by its identity and time.
    pub fn add(&mut self, identity: i64, ts: i64, cells: Box<[Cell]>) {
        let at = *self.places.entry(identity).or_insert(self.rows.len());
        if at == self.rows.len() {
            self.rows.push(None);
        }
        self.rows[at] = Some(Row { identity, ts, cells });
    }

    /// Whether it was there.
    pub fn remove(&mut self, identity: i64) -> bool {
        !self.places.is_empty() && self.places.remove(&identity).is_some_and(|at| self.rows[at].take().is_some())
    }

    pub fn columns<'py>(&mut self, py: Python<'py>) -> PyResult<Given<'py>> {
        let rows: Vec<_> = self.rows.drain(..).flatten().collect();
        let fields = rows.first().map_or(0, |row| row.cells.len());
        let fields = (0..fields).map(|field| column(py, || rows.iter().map(move |row| &row.cells[field])));
        let fields = fields.collect::<PyResult<Vec<_>>>()?;
        let of = |part: fn(&Row) -> i64| rows.iter().map(part).collect::<Vec<_>>();
        Ok((fields, array(py, &of(|row| row.ts))?, array(py, &of(|row| row.identity))?))
    }
}

/// An array, if all that are there are integers or all floats; else a list.
fn column<'a, 'py, I: Iterator<Item = &'a Cell>>(
    py: Python<'py>,
    cells: impl Fn() -> I,
) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyBytes>>)> {
    let there = || {
        let there: Vec<u8> = cells().map(|cell| u8::from(!matches!(cell, Cell::Nothing))).collect();
        there.contains(&0).then(|| PyBytes::new(py, &there))
    };
    let integers = cells().map(|cell| match cell {
        Cell::Integer(number) => Some(*number),
        Cell::Nothing => Some(0),
        _ => None,
    });
    if let Some(integers) = integers.collect::<Option<Vec<_>>>() {
        return Ok((array(py, &integers)?, there()));
    }
    let floats = cells().map(|cell| match cell {
        Cell::Float(number) => Some(*number),
        Cell::Nothing => Some(0.0),
        _ => None,
    });
    if let Some(floats) = floats.collect::<Option<Vec<_>>>() {
        return Ok((array(py, &floats)?, there()));
    }
    let objects = cells().map(|cell| cell.give(py)).collect::<PyResult<Vec<_>>>()?;
    Ok((PyList::new(py, objects)?.into_any(), None))
}
