//! Whole numbers as objects. One that comes again at once, as the end of a window does, is the same object: that saves the memory, and
//! the time to get it.

use std::cell::Cell;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

/// How many of the first numbers tell whether others come again.
const LOOKED_AT: usize = 16;

pub struct Wholes<'py> {
    last: Cell<Option<(i64, Bound<'py, PyAny>)>>,
    repeats: bool,
}

impl<'py> Wholes<'py> {
    /// For these numbers, one after the other.
    pub fn of(numbers: &[i64]) -> Self {
        let repeats = numbers[..numbers.len().min(LOOKED_AT)].windows(2).any(|pair| pair[0] == pair[1]);
        Self { last: Cell::new(None), repeats }
    }

    #[inline]
    pub fn object(&self, py: Python<'py>, number: i64) -> PyResult<Bound<'py, PyAny>> {
        if !self.repeats {
            return number.into_bound_py_any(py);
        }
        let object = match self.last.take() {
            Some((last, object)) if last == number => object,
            _ => number.into_bound_py_any(py)?,
        };
        self.last.set(Some((number, object.clone())));
        Ok(object)
    }
}

/// 2^63: whole numbers from -LIMIT to just below LIMIT fit.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// The whole number that a value equals, if it is a kind of integer (truth values are), or a float that equals one.
pub fn whole(value: &Bound<'_, PyAny>) -> Option<i64> {
    if let Ok(number) = value.cast::<PyInt>() {
        return number.extract().ok();
    }
    let number = value.cast::<PyFloat>().ok()?.value();
    (number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number)).then_some(number as i64)
}
