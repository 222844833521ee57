//! Of which types the values of events are. Twin of `plain_kinds` in `middleware.runtime.intake`.

use std::ptr;

use pyo3::prelude::*;
use pyo3::types::{PyList, PySet};

use crate::fields::Field;

/// For each of the fields, which all the events have, the types of its values. O(values).
#[pyfunction]
pub fn kinds<'py>(events: &Bound<'py, PyList>, fields: Vec<Field>) -> PyResult<Vec<Bound<'py, PySet>>> {
    let py = events.py();
    let found = fields.iter().map(|_| PySet::empty(py)).collect::<PyResult<Vec<_>>>()?;
    let mut last = vec![ptr::null_mut(); fields.len()];
    for event in events {
        for (at, field) in fields.iter().enumerate() {
            let value = field.of(&event)?;
            if value.get_type_ptr() != last[at] {
                last[at] = value.get_type_ptr();
                found[at].add(value.get_type())?;
            }
        }
    }
    Ok(found)
}
