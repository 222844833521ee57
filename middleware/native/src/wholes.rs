//! Whole numbers as objects. One that comes again at once, as the end of a window does, is the same object: that saves the memory, and
//! the time to get it.

use std::cell::Cell;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

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
