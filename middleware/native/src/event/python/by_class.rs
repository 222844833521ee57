//! Events by their class. Tests hold it against `tests.oracles.buffers`.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

/// A class, its events as they came, and their places among all, if these are of several classes.
type Own<'py> = (Bound<'py, PyType>, Bound<'py, PyList>, Option<Vec<usize>>);

type Met<'py> = (Bound<'py, PyType>, Vec<Bound<'py, PyAny>>, Vec<usize>);

/// In the order in which the classes came. O(events), if there are few classes.
#[pyfunction]
pub fn by_class<'py>(events: &Bound<'py, PyList>) -> PyResult<Vec<Own<'py>>> {
    let mut found = Vec::<Met<'py>>::new();
    let mut last = 0;
    for (place, event) in events.iter().enumerate() {
        let kind = event.get_type_ptr();
        if found.get(last).is_none_or(|own| own.0.as_type_ptr() != kind) {
            last = found.iter().position(|own| own.0.as_type_ptr() == kind).unwrap_or_else(|| {
                found.push((event.get_type(), Vec::new(), Vec::new()));
                found.len() - 1
            });
        }
        found[last].1.push(event);
        found[last].2.push(place);
    }
    let several = found.len() > 1;
    let own = |(kind, own, places)| Ok((kind, PyList::new(events.py(), own)?, several.then_some(places)));
    found.into_iter().map(own).collect()
}
