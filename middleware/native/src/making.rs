//! Events from columns: what `EventColumns.events` of `middleware.model.columns` makes, at a fourth of the time.

use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList};

use crate::fields::Maker;
use crate::wholes::Wholes;

/// The values of a field.
enum Column {
    Whole(Vec<i64>),
    Floating(Vec<f64>),
    Listed(Py<PyList>),
    /// Values, each once, and for each event the place of its own.
    Coded(Py<PyList>, Vec<i32>),
    /// One for all.
    Same(Py<PyAny>),
}

impl Column {
    /// From an array of int64 or float64, a list, a list with places in it, or the one value. None if the field does not take
    /// them as they are.
    fn new(maker: &Maker, field: usize, given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = given.py();
        let takes_all = |list: &Bound<'_, PyList>| list.iter().all(|value| maker.takes(field, &value));
        let (column, is_taken) = if let Ok(list) = given.cast::<PyList>() {
            (Self::Listed(list.clone().unbind()), takes_all(list))
        } else if let Ok((list, places)) = given.extract::<(Bound<'_, PyList>, PyBuffer<i32>)>() {
            let (is_taken, places) = (takes_all(&list), places.to_vec(py)?);
            (Self::Coded(list.unbind(), places), is_taken)
        } else if let Ok(whole) = PyBuffer::<i64>::get(given) {
            (Self::Whole(whole.to_vec(py)?), maker.takes(field, PyInt::new(py, 0).as_any()))
        } else if let Ok(floating) = PyBuffer::<f64>::get(given) {
            (Self::Floating(floating.to_vec(py)?), maker.takes(field, PyFloat::new(py, 0.0).as_any()))
        } else {
            (Self::Same(given.clone().unbind()), maker.takes(field, given))
        };
        Ok(is_taken.then_some(column))
    }

    /// How many there are; None if one is for all.
    fn len(&self, py: Python<'_>) -> Option<usize> {
        match self {
            Self::Whole(numbers) => Some(numbers.len()),
            Self::Floating(numbers) => Some(numbers.len()),
            Self::Listed(list) => Some(list.bind(py).len()),
            Self::Coded(_, places) => Some(places.len()),
            Self::Same(_) => None,
        }
    }

    /// What its whole numbers become from a row on.
    fn wholes<'py>(&self, start: usize) -> Wholes<'py> {
        Wholes::of(if let Self::Whole(numbers) = self { numbers.get(start..).unwrap_or_default() } else { &[] })
    }

    #[inline]
    fn get<'py>(&self, py: Python<'py>, row: usize, wholes: &Wholes<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Whole(numbers) => wholes.object(py, numbers[row]),
            Self::Floating(numbers) => numbers[row].into_bound_py_any(py),
            Self::Listed(list) => list.bind(py).get_item(row),
            Self::Coded(list, places) => list.bind(py).get_item(usize::try_from(places[row])?),
            Self::Same(value) => Ok(value.bind(py).clone()),
        }
    }
}

/// Makes the events of some columns of one type, so many at a time.
#[pyclass(module = "middleware.native", frozen)]
pub struct EventMaker {
    maker: Maker,
    columns: Vec<Column>,
}

#[pymethods]
impl EventMaker {
    /// `recipe`: see `Maker`; for each field an array of int64 or float64, a list of values, such a list with an array of int32 that
    /// tells the place of each event's value in it, or the one value of all events.
    /// None if a field does not take its values as they are.
    #[staticmethod]
    fn of(recipe: &Bound<'_, PyAny>, columns: Vec<Bound<'_, PyAny>>) -> PyResult<Option<Self>> {
        let Some(maker) = Maker::new(recipe)? else { return Ok(None) };
        if columns.len() != maker.fields() {
            return Ok(None);
        }
        let columns = columns.iter().enumerate().map(|(field, given)| Column::new(&maker, field, given));
        Ok(columns.collect::<PyResult<Option<Vec<_>>>>()?.map(|columns| Self { maker, columns }))
    }

    /// The events from place `start` to before `stop`, which all columns have. O(values).
    fn events<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyList>> {
        let stop = self.columns.iter().filter_map(|column| column.len(py)).fold(stop, usize::min);
        let wholes: Vec<Wholes<'py>> = self.columns.iter().map(|column| column.wholes(start)).collect();
        let mut made = Vec::with_capacity(stop.saturating_sub(start));
        for row in start..stop {
            made.push(self.maker.filled(py, |field| self.columns[field].get(py, row, &wholes[field]))?);
        }
        PyList::new(py, made)
    }
}
