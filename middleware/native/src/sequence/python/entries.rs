//! Events that are objects in the total order of their partition.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::plan::Plan;
use crate::event::python::fields::{Field, Stamps};
use crate::expr::value::Value;
use crate::sequence::entries::Role;

/// The role of an event as a component, if it passes the filters.
pub fn role(plan: &Plan, slot: usize, event: &Bound<'_, PyAny>) -> PyResult<Option<Role>> {
    let (py, reading, kleene) = (event.py(), &plan.readings[slot], plan.pattern.components[slot].kleene);
    let take = |field: &Field| Ok::<_, PyErr>(Value::of(&field.of(event)?));
    let values = reading.fields.iter().map(take).collect::<PyResult<Box<[Value]>>>()?;
    for number in &reading.filters {
        let alone = |_| if kleene { Ok(PyTuple::new(py, [event])?.into_any()) } else { Ok(event.clone()) };
        if !plan.conditions[*number].holds(py, |_| 1, |_, at, _| values[at].clone(), alone)? {
            return Ok(None);
        }
    }
    Ok(Some(Role { slot, values }))
}

/// The key that orders events of one time.
fn tie<'py>(event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let (py, stamps) = (event.py(), Stamps::get(event.py())?);
    (stamps.level(event)?, stamps.source(event)?, stamps.id(event)?).into_pyobject(py)
}

/// Whether an event comes before another of its time.
pub fn is_before(py: Python<'_>) -> impl FnMut(&Py<PyAny>, &Py<PyAny>) -> PyResult<bool> {
    let mut own = None;
    move |event, there| {
        let own = match &own {
            Some(own) => own,
            None => own.insert(tie(event.bind(py))?),
        };
        own.lt(tie(there.bind(py))?)
    }
}

/// Whether an event is another of its time.
pub fn is_it<'py>(event: &Bound<'py, PyAny>) -> PyResult<impl FnMut(&Py<PyAny>) -> PyResult<bool> + use<'py>> {
    let (py, own) = (event.py(), tie(event)?);
    Ok(move |there: &Py<PyAny>| own.eq(tie(there.bind(py))?))
}
