//! Columns of what comes into `KeyedWindows`, as rows of its lanes.

use std::borrow::Cow;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::KeyedWindows;
use crate::block::arrow::{Cells, Column};
use crate::block::python::event_batch::EventBatch;
use crate::windows::fiba::python::columns::numbers;
use crate::windows::fiba::python::errors::same_length;
use crate::windows::panes::correcting::Late;

/// Values of a column, and a byte each that says whether it is there (None: all are).
struct Values<'a> {
    numbers: Numbers<'a>,
    there: Option<Vec<u8>>,
}

enum Numbers<'a> {
    Floats(Cow<'a, [f64]>),
    Integers(Cow<'a, [i64]>),
}

impl<'a> Values<'a> {
    /// Integers that windows read as floats become such.
    #[expect(clippy::cast_precision_loss, reason = "as Python's arithmetic with floats does")]
    fn of(column: Column<'a>, is_float: bool) -> PyResult<Self> {
        let numbers = match column.cells() {
            Cells::Floats(values) if is_float => Numbers::Floats(values),
            Cells::Integers(values) if is_float => Numbers::Floats(values.iter().map(|&value| value as f64).collect()),
            Cells::Integers(values) => Numbers::Integers(values),
            _ => return Err(PyValueError::new_err("windows read columns of numbers")),
        };
        Ok(Self { numbers, there: column.there() })
    }

    #[inline]
    fn bits(&self, row: usize) -> Option<u64> {
        if self.there.as_ref().is_some_and(|there| there[row] == 0) {
            return None;
        }
        Some(match &self.numbers {
            Numbers::Floats(values) => values[row].to_bits(),
            Numbers::Integers(values) => values[row].cast_unsigned(),
        })
    }
}

impl KeyedWindows {
    /// Take what comes as columns, by their places in a block; nothing if it raises. See `feed`.
    pub(super) fn take_columns(
        &mut self,
        block: &EventBatch,
        keys: &Bound<'_, PyAny>,
        columns: &[usize],
        retracts: &Bound<'_, PyList>,
        late: &mut Vec<Late>,
    ) -> PyResult<()> {
        let py = keys.py();
        let times = block.times(py)?;
        let given = self.windows.plan.floats.iter().zip(columns);
        let given = given.map(|(&is_float, &at)| Values::of(block.column(py, at)?, is_float)).collect::<PyResult<Vec<_>>>()?;
        let lanes = match keys.extract::<usize>() {
            Ok(column) => self.lanes_of_integers(py, &block.integers(py, column)?)?,
            Err(_) => self.lanes_of(keys, times.len())?,
        };
        self.take_back(retracts, late)?;
        let mut row = vec![0; self.windows.plan.width()];
        for (number, (&ts, lane)) in times.iter().zip(lanes).enumerate() {
            (row[0], row[1]) = (ts.cast_unsigned(), 0);
            for (place, values) in given.iter().enumerate() {
                let bits = values.bits(number);
                row[1] |= u64::from(bits.is_some()) << place;
                row[2 + place] = bits.unwrap_or_default();
            }
            self.windows.put(lane, ts, &row, late);
        }
        Ok(())
    }

    fn lanes_of_integers(&mut self, py: Python<'_>, keys: &[i64]) -> PyResult<Vec<usize>> {
        let lane = |&key: &i64| match self.keys.of_integer(key) {
            Some(lane) => Ok(lane as usize),
            None => self.lane_of(&self.keys.key(key.into_bound_py_any(py)?)?),
        };
        keys.iter().map(lane).collect()
    }

    /// The lanes of a column of keys: integers, codes and what they stand for, or any objects.
    fn lanes_of(&mut self, keys: &Bound<'_, PyAny>, length: usize) -> PyResult<Vec<usize>> {
        let py = keys.py();
        if length == 0 {
            return Ok(Vec::new());
        }
        if self.key_fields == 0 {
            let lane = self.lane_of(&self.keys.key(PyTuple::empty(py).into_any())?)?;
            return Ok(vec![lane; length]);
        }
        let lanes = if let Ok((codes, values)) = keys.extract::<(Bound<'_, PyAny>, Bound<'_, PyList>)>() {
            let lanes = self.lanes_of_objects(&values)?;
            let codes = numbers::<i64>(&codes)?.into_iter();
            let lane = |code: i64| usize::try_from(code).ok().and_then(|code| lanes.get(code)).copied();
            let lane = |code| lane(code).ok_or_else(|| PyIndexError::new_err("a code stands for no key"));
            codes.map(lane).collect::<PyResult<Vec<_>>>()?
        } else if let Ok(keys) = numbers::<i64>(keys) {
            self.lanes_of_integers(py, &keys)?
        } else {
            self.lanes_of_objects(keys)?
        };
        same_length(length, lanes.len())?;
        Ok(lanes)
    }

    fn lanes_of_objects(&mut self, keys: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let lane = |key: PyResult<Bound<'_, PyAny>>| {
            let key = self.keys.key(key?)?;
            self.lane_of(&key)
        };
        keys.try_iter()?.map(lane).collect()
    }
}
