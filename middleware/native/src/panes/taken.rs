//! Columns of what comes into `KeyedWindows`, as rows of its lanes.

use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::plan::Row;
use super::correcting::Late;
use super::windows::KeyedWindows;
use crate::fiba::columns::numbers;
use crate::fiba::errors::same_length;

/// A column from Python: values, and a byte each that says whether it is there (None: all are).
pub type Given<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// A column: its values as bits, and which are there (none named: all).
struct Cells {
    bits: Vec<u64>,
    there: Option<Vec<u8>>,
}

impl Cells {
    fn new((values, there): &Given<'_>, is_float: bool, length: usize) -> PyResult<Self> {
        let bits: Vec<u64> = if is_float {
            numbers::<f64>(values)?.into_iter().map(f64::to_bits).collect()
        } else {
            numbers::<i64>(values)?.into_iter().map(i64::cast_unsigned).collect()
        };
        same_length(length, bits.len())?;
        let there = there.as_ref().map(|there| PyBuffer::<u8>::get(there)?.to_vec(there.py())).transpose()?;
        if let Some(there) = &there {
            same_length(length, there.len())?;
        }
        Ok(Self { bits, there })
    }

    #[inline]
    fn is_there(&self, number: usize) -> bool {
        self.there.as_ref().is_none_or(|there| there[number] != 0)
    }
}

impl KeyedWindows {
    /// Take what comes as columns, all of one length; nothing if it raises.
    pub(super) fn take_columns(
        &mut self,
        times: &Bound<'_, PyAny>,
        keys: &Bound<'_, PyAny>,
        columns: &[Given<'_>],
        retracts: Option<&Bound<'_, PyList>>,
        late: &mut Vec<Late>,
    ) -> PyResult<()> {
        let times = numbers::<i64>(times)?;
        let lanes = self.lanes_of(keys, times.len())?;
        let given = self.plan.columns.iter().zip(columns);
        let cells =
            given.map(|(column, given)| Cells::new(given, column.is_float, times.len())).collect::<PyResult<Vec<_>>>()?;
        if let Some(retracts) = retracts {
            self.take_back(retracts, late)?;
        }
        let mut row = Row::new();
        for (number, (&ts, lane)) in times.iter().zip(lanes).enumerate() {
            row.clear();
            row.extend([ts.cast_unsigned(), 0]);
            for (place, column) in cells.iter().enumerate() {
                let is_there = column.is_there(number);
                row[1] |= u64::from(is_there) << place;
                row.push(if is_there { column.bits[number] } else { 0 });
            }
            self.put(lane, ts, &row, late);
        }
        Ok(())
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
            keys.into_iter()
                .map(|key| match self.keys.of_integer(key) {
                    Some(lane) => Ok(lane as usize),
                    None => self.lane_of(&self.keys.key(key.into_bound_py_any(py)?)?),
                })
                .collect::<PyResult<Vec<_>>>()?
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
