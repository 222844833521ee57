//! What a unit must know of the times in a batch of columns: the twin of `survey` in `middleware.ordering.measuring`. And events
//! as columns: the twin of `plain_array_of` in `middleware.model.columns`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList};

use crate::fiba::columns::numbers;
use crate::fields::Field;

/// Newest time ahead, earliest time, first time ahead of the clock, times that the clock had passed, times behind the newest.
type Survey = (i64, i64, Option<i64>, Vec<i64>, Vec<i64>);

/// One pass over int64 times; see the twin for what each of them is. O(n).
#[pyfunction]
pub fn survey(times: &Bound<'_, PyAny>, top: i64, clk: i64) -> PyResult<Survey> {
    let (mut newest, mut earliest, mut first) = (top, i64::MAX, None);
    let (mut delayed, mut passed, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for ts in numbers::<i64>(times)? {
        earliest = earliest.min(ts);
        if ts > newest {
            newest = ts;
            after.clear();
            if ts < clk {
                passed.push(ts);
            } else if ts > clk && first.is_none() {
                first = Some(ts);
            }
        } else {
            delayed.push(ts);
            after.push(ts);
        }
    }
    delayed.append(&mut passed);
    Ok((newest, earliest, first, delayed, after))
}

/// The numbers of a field, one after the other: of 8 bytes each, truth values of one. None if a value is not of that very type. O(n).
#[pyfunction]
pub fn column_of<'py>(events: &Bound<'py, PyList>, field: Field, kind: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let found = match kind {
        "float64" => packed(events, &field, |value| Some(value.cast_exact::<PyFloat>().ok()?.value().to_ne_bytes())),
        "int64" => packed(events, &field, |value| Some(value.cast_exact::<PyInt>().ok()?.extract::<i64>().ok()?.to_ne_bytes())),
        "bool" => packed(events, &field, |value| Some([u8::from(value.cast_exact::<PyBool>().ok()?.is_true())])),
        _ => Ok(None),
    }?;
    Ok(found.map(|bytes| PyBytes::new(events.py(), &bytes)))
}

fn packed<const N: usize>(
    events: &Bound<'_, PyList>,
    field: &Field,
    bytes_of: impl Fn(&Bound<'_, PyAny>) -> Option<[u8; N]>,
) -> PyResult<Option<Vec<u8>>> {
    let mut packed = Vec::with_capacity(events.len() * N);
    for event in events {
        match bytes_of(&field.of(&event)?) {
            Some(bytes) => packed.extend_from_slice(&bytes),
            None => return Ok(None),
        }
    }
    Ok(Some(packed))
}
