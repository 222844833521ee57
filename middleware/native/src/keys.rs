//! From an event to the number of its lane, by its key.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::fields::Field;

/// How an event's key is found. An attribute needs no call; `Same`: all events have the key None.
pub enum Key {
    Same,
    Attribute(Field),
    Function(Py<PyAny>),
}

impl Key {
    /// `function` gives the key of an event; what the detector declares may make it simpler.
    pub fn new(detector: &Bound<'_, PyAny>, function: Bound<'_, PyAny>) -> PyResult<Self> {
        if function.is_none() {
            return Ok(Self::Same);
        }
        Ok(match detector.get_type().getattr("key")?.cast_into_exact::<PyString>() {
            Ok(attribute) => Self::Attribute(Field::new(function.py(), attribute.to_str()?)),
            Err(_) => Self::Function(function.unbind()),
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
    integers: HashMap<i64, usize, BuildHasherDefault<Multiply>>,
}

impl Numbers {
    pub fn new(py: Python<'_>) -> Self {
        Self { all: PyDict::new(py).unbind(), integers: HashMap::default() }
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

/// A hash for integers: both halves of one wide product, so that every bit of the integer tells in the low bits.
#[derive(Default)]
pub struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9E37_79B9_7F4A_7C15;
        #[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = low ^ high;
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hasher;

    use super::Multiply;

    #[test]
    fn hashes_spread_over_low_and_high_bits() {
        for step in [1i64, 2, 1 << 16, 1 << 32, 1 << 48, -7] {
            let hashes = (0..1_000).map(|number| {
                let mut hasher = Multiply::default();
                hasher.write_i64(number * step);
                hasher.finish()
            });
            let (low, high): (HashSet<u64>, HashSet<u64>) = hashes.map(|hash| (hash & 0x3FF, hash >> 54)).unzip();
            assert!(low.len() > 400 && high.len() > 400, "step {step}: {} low, {} high", low.len(), high.len());
        }
    }
}
