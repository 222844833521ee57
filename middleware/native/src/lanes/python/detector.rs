//! One detector: runs events, gives its state and returns to it.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::event::python::entry::Entry;
use crate::event::python::model::Model;
use crate::lanes::python::shared::Shared;
use crate::lanes::python::state::Plain;

static METHOD: PyOnceLock<Py<PyType>> = PyOnceLock::new();

pub enum State {
    Plain(Arc<Plain>),
    /// A snapshot that is not plain.
    Other(Py<PyAny>),
    /// A detector that failed and stays stopped.
    Stopped,
}

impl State {
    /// The state that a snapshot gave.
    pub fn of(snapshot: Bound<'_, PyAny>, shared: &Shared) -> Self {
        match Plain::copy(&snapshot, &shared.names) {
            Some(plain) => Self::Plain(Arc::new(plain)),
            None => Self::Other(snapshot.unbind()),
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Plain(state) => Self::Plain(state.clone()),
            Self::Other(state) => Self::Other(state.clone_ref(py)),
            Self::Stopped => Self::Stopped,
        }
    }

    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// The state in a tuple of its own; an empty one stands for a stopped detector.
    pub fn boxed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self {
            Self::Plain(state) => PyTuple::new(py, [state.dict(py)?]),
            Self::Other(state) => PyTuple::new(py, [state]),
            Self::Stopped => Ok(PyTuple::empty(py)),
        }
    }

    /// The state that `boxed` gave.
    pub fn unboxed(boxed: &Bound<'_, PyTuple>, shared: &Shared) -> PyResult<Self> {
        Ok(if boxed.is_empty() { Self::Stopped } else { Self::of(boxed.get_item(0)?, shared) })
    }

    /// Whether a detector goes the same way from both.
    pub fn is_same(&self, py: Python<'_>, other: &Self, shared: &Shared) -> PyResult<bool> {
        match (self, other) {
            (Self::Plain(one), Self::Plain(other)) => Ok(one.is_same(py, other)),
            (Self::Other(one), Self::Other(other)) => shared.calls.get().same_state(one.bind(py), other.bind(py)),
            (Self::Stopped, Self::Stopped) => Ok(true),
            _ => Ok(false),
        }
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Self::Other(state) = self { visit.call(state) } else { Ok(()) }
    }
}

pub struct Detector {
    pub key: Py<PyAny>,
    instance: Py<PyAny>,
    /// Looked up once, as in Python's lanes: `Detector.snapshot` refuses an instance that has its own.
    on_event: Py<PyAny>,
    /// Whether that is the function of its class, which takes the instance first: one for all lanes stays in the caches.
    is_function: bool,
    /// Turns what it returns into events with an identity, where `Stamp` leaves that to Python.
    derive: Py<PyAny>,
    /// The hash of its name and key.
    origin: u64,
    is_stopped: bool,
}

impl Detector {
    pub fn new(key: Py<PyAny>, instance: Bound<'_, PyAny>, derive: Py<PyAny>, origin: u64) -> PyResult<Self> {
        let mut on_event = instance.getattr(intern!(instance.py(), "on_event"))?;
        let is_method = on_event.is_exact_instance(METHOD.import(instance.py(), "types", "MethodType")?);
        let is_function = is_method && on_event.getattr(intern!(instance.py(), "__self__"))?.is(&instance);
        if is_function {
            on_event = on_event.getattr(intern!(instance.py(), "__func__"))?;
        }
        Ok(Self {
            key,
            instance: instance.unbind(),
            on_event: on_event.unbind(),
            is_function,
            derive,
            origin,
            is_stopped: false,
        })
    }

    /// Looks at the object that a run needs, so that it is in the caches by then.
    #[inline]
    pub fn look(&self, py: Python<'_>) -> usize {
        self.instance.bind(py).get_type_ptr().addr()
    }

    /// Run an event; returns the events derived, in a list, if there are any.
    #[inline]
    pub fn run<'py>(&self, event: &Bound<'py, PyAny>, shared: &mut Shared) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(result) = self.call(event, shared)? else {
            return Ok(None);
        };
        let derived = self.derived(event, &result, shared)?;
        Ok(if derived.is_truthy()? { Some(derived) } else { None })
    }

    /// Run an event; adds the events derived to a list.
    #[inline]
    pub fn run_into(&self, event: &Bound<'_, PyAny>, results: &Bound<'_, PyList>, shared: &mut Shared) -> PyResult<()> {
        let Some(result) = self.call(event, shared)? else {
            return Ok(());
        };
        if let Some(derived) = shared.stamp.one(self.origin, event, &result, 0)? {
            return results.append(derived);
        }
        self.derived(event, &result, shared)?.try_iter()?.try_for_each(|derived| results.append(derived?))
    }

    /// The results for an event, as a list of events with an identity.
    #[inline]
    fn derived<'py>(
        &self,
        event: &Bound<'py, PyAny>,
        result: &Bound<'py, PyAny>,
        shared: &mut Shared,
    ) -> PyResult<Bound<'py, PyAny>> {
        match shared.stamp.all(self.origin, event, result)? {
            Some(derived) => Ok(derived.into_any()),
            None => self.derive.bind(event.py()).call1((event, result)),
        }
    }

    /// Run an event again whose results are known and stand.
    pub fn rehearse(&self, py: Python<'_>, entry: &Entry, shared: &mut Shared) -> PyResult<()> {
        let Some(result) = self.call(entry.event.bind(py), shared)? else {
            return Ok(());
        };
        if !result.is_instance(Model::get(py)?.event_type.bind(py))? {
            for event in result.try_iter()? {
                event?; // a generator runs only as it is gone through
            }
        }
        Ok(())
    }

    #[inline]
    fn call<'py>(&self, event: &Bound<'py, PyAny>, shared: &mut Shared) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.is_stopped {
            return Ok(None);
        }
        shared.counts.get().executed.add(1);
        let on_event = self.on_event.bind(event.py());
        let result = if self.is_function { on_event.call1((&self.instance, event)) } else { on_event.call1((event,)) }?;
        Ok(if result.is_none() { None } else { Some(result) })
    }

    pub fn state(&self, py: Python<'_>, shared: &Shared) -> PyResult<State> {
        if self.is_stopped {
            return Ok(State::Stopped);
        }
        if let Some(attributes) = self.attributes(py, shared)?
            && let Some(plain) = Plain::copy(&attributes, &shared.names)
        {
            return Ok(State::Plain(Arc::new(plain)));
        }
        Ok(State::of(self.instance.bind(py).call_method0(intern!(py, "snapshot"))?, shared))
    }

    /// Note the state in place of a former one; false where that takes more than to take up its values: the former one is lost then.
    #[inline]
    pub fn note_again(&self, py: Python<'_>, state: &mut State, shared: &Shared) -> PyResult<bool> {
        let State::Plain(former) = state else { return Ok(false) };
        match (Arc::get_mut(former), self.attributes(py, shared)?) {
            (Some(former), Some(attributes)) if !self.is_stopped => Ok(former.take_up(&attributes)),
            _ => Ok(false),
        }
    }

    /// Whether it is in a state; None where that takes a copy of its own.
    pub fn is_plainly_at(&self, py: Python<'_>, state: &State, shared: &Shared) -> PyResult<Option<bool>> {
        match (state, self.attributes(py, shared)?) {
            (State::Plain(state), Some(attributes)) if !self.is_stopped => Ok(state.is_of(&attributes)),
            _ => Ok(None),
        }
    }

    pub fn restore(&mut self, py: Python<'_>, state: &State, shared: &Shared) -> PyResult<()> {
        self.is_stopped = true; // one that cannot be restored must not continue from an unknown state
        match (state, self.attributes(py, shared)?) {
            (State::Stopped, _) => return Ok(()),
            (State::Plain(state), Some(attributes)) => state.restore(&attributes)?,
            (State::Plain(state), None) => self.restore_from(state.dict(py)?.as_any())?,
            (State::Other(state), _) => self.restore_from(state.bind(py))?,
        }
        self.is_stopped = false;
        Ok(())
    }

    fn restore_from(&self, snapshot: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = snapshot.py();
        self.instance.bind(py).call_method1(intern!(py, "restore"), (snapshot,)).map(|_| ())
    }

    /// The attributes, where these are all of the state.
    #[inline]
    fn attributes<'py>(&self, py: Python<'py>, shared: &Shared) -> PyResult<Option<Bound<'py, PyDict>>> {
        if !shared.is_plain {
            return Ok(None);
        }
        Ok(self.instance.bind(py).getattr(intern!(py, "__dict__"))?.cast_into_exact::<PyDict>().ok())
    }

    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.key)?;
        visit.call(&self.instance)?;
        visit.call(&self.on_event)?;
        visit.call(&self.derive)
    }
}
