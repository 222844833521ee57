//! The fields of results that show a key, and the beginning of the identities of its windows.

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use crate::windows::panes::identity::Prefix;

pub struct Named {
    pub key: Py<PyAny>,
    /// The key's fields, as results show them.
    pub shown: Py<PyTuple>,
    /// The first of them, if it is a 64-bit integer.
    pub whole: Option<i64>,
    pub prefix: Prefix,
}

impl Named {
    pub fn new(key: Py<PyAny>, shown: &Bound<'_, PyTuple>, prefix: &[u8]) -> Self {
        Self { key, shown: shown.clone().unbind(), whole: whole(shown), prefix: Prefix::new(prefix) }
    }
}

/// The first field of a key, if it is a 64-bit integer.
fn whole(shown: &Bound<'_, PyTuple>) -> Option<i64> {
    shown.get_item(0).ok()?.cast_exact::<PyInt>().ok()?.extract().ok()
}
