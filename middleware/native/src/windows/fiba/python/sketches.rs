//! How values become the hashes that sketches take, and what sketches give to Python.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

use super::columns::numbers;
use super::values::{Pickled, Values};
use crate::windows::fiba::moments::{Few, Grown};
use crate::windows::fiba::sketches::{Bloom, Distinct, Sketch, of_float, of_integer};

/// How values become 64 random bits: the same as `detectors.window.aggregation.sketches.hashed` in Python, which is called for texts.
#[derive(FromPyObject)]
pub struct Hashed {
    #[pyo3(attribute("lift_hash"))]
    function: Py<PyAny>,
    /// Makes a result of what is given, or None.
    #[pyo3(attribute("lower_native"))]
    finish: Py<PyAny>,
}

impl Hashed {
    #[inline]
    fn of(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        match value.cast_exact::<PyInt>().ok().and_then(|integer| integer.extract::<i64>().ok()) {
            Some(integer) => Ok(of_integer(integer)),
            None => self.function.bind(value.py()).call1((value,))?.extract(),
        }
    }

    fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        if let Ok(dtype) = values.getattr("dtype") {
            match dtype.getattr("kind")?.extract::<String>()?.as_str() {
                "i" | "u" => return Ok(numbers::<i64>(values)?.into_iter().map(of_integer).collect()),
                "f" => return Ok(numbers::<f64>(values)?.into_iter().map(of_float).collect()),
                _ => {}
            }
        }
        values.try_iter()?.map(|value| self.of(&value?)).collect()
    }
}

impl<S: Sketch> Pickled for S {
    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyBytes::new(py, &self.bytes()).into_any())
    }

    fn load(saved: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(S::of(saved.extract()?))
    }
}

impl<S: Sketch> Values for Grown<S, Hashed> {
    type Out = Vec<u8>;

    fn save<'py>(&self, py: Python<'py>, slot: &Self::Slot) -> PyResult<Bound<'py, PyAny>> {
        slot.save(py)
    }

    fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        Few::load(saved)
    }

    #[inline]
    fn take(&self, value: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        Ok(Few::One(self.how.of(value)?))
    }

    fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<Self::Slot>> {
        Ok(self.how.column(values)?.into_iter().map(Few::One).collect())
    }

    fn lower(&self, agg: Option<&S>) -> PyResult<Vec<u8>> {
        Ok(agg.unwrap_or(&self.empty).bytes())
    }

    fn give<'py>(&self, py: Python<'py>, out: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
        self.how.finish.bind(py).call1((PyBytes::new(py, &out),))
    }
}

pub fn bloom(monoid: &Bound<'_, PyAny>) -> PyResult<Grown<Bloom, Hashed>> {
    Ok(Grown { empty: Bloom::default(), how: monoid.extract()? })
}

pub fn distinct(monoid: &Bound<'_, PyAny>) -> PyResult<Grown<Distinct, Hashed>> {
    Ok(Grown { empty: Distinct::default(), how: monoid.extract()? })
}
