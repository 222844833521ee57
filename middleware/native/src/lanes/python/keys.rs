//! From an event to the number of its lane, by its key.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::event::python::fields::Field;
use crate::hashing::Scattered;

/// How an event's key is found. An attribute needs no call; `Same`: all events have the key None.
pub enum Key {
    Same,
    Attribute(Field),
    Function(Py<PyAny>),
}

impl Key {
    /// From the name of an attribute, or the function that gives the key of an event; None if there is no key.
    pub fn new(key: Bound<'_, PyAny>) -> PyResult<Self> {
        if key.is_none() {
            return Ok(Self::Same);
        }
        Ok(match key.cast_exact::<PyString>() {
            Ok(attribute) => Self::Attribute(Field::new(key.py(), attribute.to_str()?)),
            Err(_) => Self::Function(key.unbind()),
        })
    }

    #[inline]
    pub fn of<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Same => Ok(event.py().None().into_bound(event.py())),
            Self::Attribute(field) => field.of(event),
            Self::Function(function) => function.bind(event.py()).call1((event,)),
        }
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Same | Self::Attribute(_) => Ok(()),
            Self::Function(function) => visit.call(function),
        }
    }
}

/// Numbers by key. Keys are equal where Python says so: a dict holds them all, and a map of integers stands before it.
pub struct Numbers {
    all: Py<PyDict>,
    integers: Scattered<i64, usize>,
}

impl Numbers {
    pub fn new(py: Python<'_>) -> Self {
        Self { all: PyDict::new(py).unbind(), integers: Scattered::default() }
    }

    #[inline]
    pub fn get(&mut self, key: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        // Not for subclasses, bool among them: they may hash and compare as they like.
        let Some(integer) = key.cast_exact::<PyInt>().ok().and_then(|integer| integer.extract::<i64>().ok()) else {
            return self.find(key);
        };
        if let Some(&number) = self.integers.get(&integer) {
            return Ok(Some(number));
        }
        let found = self.find(key)?;
        if let Some(number) = found {
            self.integers.insert(integer, number);
        }
        Ok(found)
    }

    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        self.all.bind(key.py()).get_item(key)?.map(|number| number.extract()).transpose()
    }

    pub fn add(&mut self, key: Bound<'_, PyAny>, number: usize) -> PyResult<()> {
        self.all.bind(key.py()).set_item(&key, number)
    }

    pub fn clear(&mut self, py: Python<'_>) {
        self.integers.clear();
        self.all.bind(py).clear();
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.all)
    }
}
