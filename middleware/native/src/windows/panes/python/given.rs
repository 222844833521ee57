//! New results as Python has them in columns: no object a result, but for keys that are no integers.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::named::Named;
use crate::expr::program::bytes;
use crate::windows::panes::aggregate::Value;
use crate::windows::panes::results::{Cells, Results, Values};

/// (columns of the keys' fields, starts, ends, columns of values, ids), numbers as the bytes of arrays; None without results.
pub fn columns<'py>(
    py: Python<'py>,
    results: &mut Results,
    named: &[Named],
    seed: u64,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some(&first) = results.lanes.first() else { return Ok(None) };
    results.identify(|lane, bounds| named[lane].prefix.id(seed, bounds));
    let fields = named[first as usize].shown.bind(py).len();
    let keys = (0..fields).map(|field| key_column(py, results, named, field)).collect::<PyResult<Vec<_>>>()?;
    let values = results.cells.iter().map(|cells| given(py, cells)).collect::<PyResult<Vec<_>>>()?;
    let [starts, ends, ids] = [&results.starts, &results.ends, &results.ids].map(|numbers| of_integers(py, numbers));
    let columns = (keys, starts?, ends?, values, ids?);
    columns.into_pyobject(py).map(Some)
}

/// A field of the keys: the bytes of an array, if all are 64-bit integers, else a list.
fn key_column<'py>(py: Python<'py>, results: &Results, named: &[Named], field: usize) -> PyResult<Bound<'py, PyAny>> {
    let named = results.lanes.iter().map(|&lane| &named[lane as usize]);
    if let Some(wholes) = named.clone().map(|each| each.whole).collect::<Option<Vec<_>>>().filter(|_| field == 0) {
        return Ok(of_integers(py, &wholes)?.into_any());
    }
    let shown = named.map(|each| each.shown.bind(py).get_item(field));
    Ok(PyList::new(py, shown.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

/// The bytes of the values, and a byte for each that says whether it is there (None: all are).
fn given<'py>(py: Python<'py>, cells: &Cells) -> PyResult<Bound<'py, PyAny>> {
    let there = cells.there.contains(&0).then(|| PyBytes::new(py, &cells.there));
    let values = match &cells.values {
        Values::Floats(values) => bytes(py, values.len(), values.iter().map(|value| value.to_ne_bytes()))?,
        Values::Integers(values) => of_integers(py, values)?,
    };
    (values, there).into_bound_py_any(py)
}

fn of_integers<'py>(py: Python<'py>, numbers: &[i64]) -> PyResult<Bound<'py, PyBytes>> {
    bytes(py, numbers.len(), numbers.iter().map(|number| number.to_ne_bytes()))
}

/// A value of a result.
pub fn object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Value::Nothing => Ok(py.None().into_bound(py)),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Int(value) => match i64::try_from(value) {
            Ok(value) => value.into_bound_py_any(py),
            Err(_) => value.into_bound_py_any(py),
        },
    }
}
