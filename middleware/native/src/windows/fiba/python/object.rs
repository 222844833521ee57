//! Any monoid, written in Python: `lift`, `combine` and `lower` of a `Monoid` object are called.

use pyo3::prelude::*;

use super::values::Values;
use crate::windows::fiba::monoid::Monoid;

/// A Python object, or none yet.
#[derive(Default)]
pub struct Object(pub Option<Py<PyAny>>);

impl Clone for Object {
    fn clone(&self) -> Self {
        Self(self.0.as_ref().map(|object| Python::attach(|py| object.clone_ref(py))))
    }
}

/// The functions of a `Monoid`, as `_core.pyi` declares it.
#[derive(FromPyObject)]
pub struct Python_ {
    lift: Py<PyAny>,
    combine: Py<PyAny>,
    lower: Py<PyAny>,
    identity: Py<PyAny>,
    #[pyo3(attribute("commutative"))]
    commutes: bool,
}

/// Whether a `Monoid` is built in: the name and the type by which it is known.
#[derive(FromPyObject)]
pub struct Known {
    pub native: Option<(String, String)>,
}

impl Monoid for Python_ {
    type Slot = Object;
    type Agg = Object;
    type Failure = PyErr;

    const FALLIBLE: bool = true;

    fn commutes(&self) -> bool {
        self.commutes
    }

    fn lift(&self, slot: &Object) -> PyResult<Object> {
        Ok(slot.clone())
    }

    fn absorb(&self, agg: &mut Object, slot: &Object) -> PyResult<()> {
        self.combine(agg, slot)
    }

    fn combine(&self, agg: &mut Object, right: &Object) -> PyResult<()> {
        Python::attach(|py| {
            *agg = Object(Some(self.combine.call1(py, (&agg.0, &right.0))?));
            Ok(())
        })
    }

    fn merge(&self, slot: &mut Object, later: &Object) -> PyResult<()> {
        self.combine(slot, later)
    }

    fn same(&self, one: &Object, other: &Object) -> PyResult<bool> {
        Python::attach(|py| match (&one.0, &other.0) {
            (Some(one), Some(other)) => one.bind(py).eq(other),
            (one, other) => Ok(one.is_none() && other.is_none()),
        })
    }
}

impl Values for Python_ {
    type Out = Py<PyAny>;

    fn take(&self, value: &Bound<'_, PyAny>) -> PyResult<Object> {
        Ok(Object(Some(self.lift.call1(value.py(), (value,))?)))
    }

    fn save<'py>(&self, py: Python<'py>, slot: &Object) -> PyResult<Bound<'py, PyAny>> {
        Ok(slot.0.as_ref().map_or_else(|| py.None(), |object| object.clone_ref(py)).into_bound(py))
    }

    fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Object> {
        Ok(Object(Some(saved.clone().unbind())))
    }

    fn lower(&self, agg: Option<&Object>) -> PyResult<Py<PyAny>> {
        Python::attach(|py| self.lower.call1(py, (agg.and_then(|agg| agg.0.as_ref()).unwrap_or(&self.identity),)))
    }

    fn give<'py>(&self, py: Python<'py>, out: Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(out.into_bound(py))
    }
}
