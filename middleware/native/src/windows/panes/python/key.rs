//! From an event to the number of its key.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};

use crate::event::python::fields::Field;
use crate::hashing::Scattered;

/// A key as it came, and in the one form of all that are equal to it, by which it is known.
pub struct Key<'py> {
    pub given: Bound<'py, PyAny>,
    pub known: Bound<'py, PyAny>,
}

/// How a key is found, and the number of each. Keys are brought to one form, so that 1 and 1.0 are the same everywhere.
pub struct Keys {
    fields: Vec<Field>,
    canonical: Py<PyAny>,
    show: Py<PyAny>,
    integers: Scattered<i64, u32>,
    others: Py<PyDict>,
}

impl Keys {
    /// `show(given, known)` gives the tuple of a key's fields as results show them; `canonical(key)` the one form of a key.
    pub fn new(py: Python<'_>, fields: &[String], show: Py<PyAny>, canonical: Py<PyAny>) -> Self {
        Self {
            show,
            fields: fields.iter().map(|field| Field::new(py, field)).collect(),
            canonical,
            integers: Scattered::default(),
            others: PyDict::new(py).unbind(),
        }
    }

    /// The key of an event: one value, or a tuple of none or several.
    #[inline]
    pub fn of<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Key<'py>> {
        let py = event.py();
        let key = match &self.fields[..] {
            [field] => field.of(event)?,
            fields => {
                let values = fields.iter().map(|field| field.of(event)).collect::<PyResult<Vec<_>>>()?;
                PyTuple::new(py, values)?.into_any()
            }
        };
        self.key(key)
    }

    /// A key, with the one form of all that are equal to it.
    #[inline]
    pub fn key<'py>(&self, given: Bound<'py, PyAny>) -> PyResult<Key<'py>> {
        let known = if integer(&given).is_some() || given.is_exact_instance_of::<PyString>() {
            given.clone()
        } else {
            self.canonical.bind(given.py()).call1((&given,))?
        };
        Ok(Key { given, known })
    }

    /// The fields of a key, as results show them. Raises for a key that they cannot show.
    pub fn shown(&self, key: &Key<'_>) -> PyResult<Py<PyTuple>> {
        let py = key.given.py();
        Ok(self.show.bind(py).call1((&key.given, &key.known))?.cast_into::<PyTuple>()?.unbind())
    }

    #[inline]
    pub fn of_integer(&self, key: i64) -> Option<u32> {
        self.integers.get(&key).copied()
    }

    #[inline]
    pub fn get(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        if let Some(integer) = integer(key) {
            return Ok(self.integers.get(&integer).copied());
        }
        self.others.bind(key.py()).get_item(key)?.map(|number| number.extract()).transpose()
    }

    pub fn add(&mut self, key: &Bound<'_, PyAny>, number: u32) -> PyResult<()> {
        if let Some(integer) = integer(key) {
            self.integers.insert(integer, number);
            return Ok(());
        }
        self.others.bind(key.py()).set_item(key, number)
    }

    pub fn remove(&mut self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match integer(key) {
            Some(integer) => {
                self.integers.remove(&integer);
                Ok(())
            }
            None => self.others.bind(key.py()).del_item(key),
        }
    }

    pub fn len(&self, py: Python<'_>) -> usize {
        self.integers.len() + self.others.bind(py).len()
    }
}

/// A key that is a 64-bit integer: canonical keys are never bools.
#[inline]
fn integer(key: &Bound<'_, PyAny>) -> Option<i64> {
    key.cast_exact::<PyInt>().ok()?.extract().ok()
}
