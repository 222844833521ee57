//! One detector: runs events, gives its state and returns to it.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::entry::Entry;
use crate::shared::Shared;
use crate::state::{plain_copy, plain_restore};

pub enum State {
    Running(Py<PyAny>),
    /// Of a detector that failed and is to stay stopped.
    Stopped,
}

impl State {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Running(state) => Self::Running(state.clone_ref(py)),
            Self::Stopped => Self::Stopped,
        }
    }

    /// The state in a tuple of its own; an empty one stands for a stopped detector.
    pub fn boxed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self {
            Self::Running(state) => PyTuple::new(py, [state]),
            Self::Stopped => Ok(PyTuple::empty(py)),
        }
    }

    /// The state that `boxed` gave.
    pub fn unboxed(boxed: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Ok(if boxed.is_empty() { Self::Stopped } else { Self::Running(boxed.get_item(0)?.unbind()) })
    }

    /// Whether a detector goes the same way from both.
    pub fn is_same(&self, py: Python<'_>, other: &Self, shared: &Shared) -> PyResult<bool> {
        match (self, other) {
            (Self::Running(one), Self::Running(other)) => shared.twins.same_state(one.bind(py), other.bind(py)),
            (Self::Stopped, Self::Stopped) => Ok(true),
            _ => Ok(false),
        }
    }
}

pub struct Detector {
    instance: Py<PyAny>,
    /// Looked up once, as in Python's lanes: `Detector.snapshot` refuses an instance that has its own.
    on_event: Py<PyAny>,
    /// Turns what it returns into events with an identity, where `Stamp` leaves that to Python.
    derive: Py<PyAny>,
    /// The hash of its name and key.
    origin: u64,
    is_stopped: bool,
}

impl Detector {
    pub fn new(instance: Bound<'_, PyAny>, derive: Py<PyAny>) -> PyResult<Self> {
        let on_event = instance.getattr(intern!(instance.py(), "on_event"))?.unbind();
        let origin = derive.getattr(instance.py(), intern!(instance.py(), "origin"))?.extract(instance.py())?;
        Ok(Self { instance: instance.unbind(), on_event, derive, origin, is_stopped: false })
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

    /// What it returned for an event, as a list of events with an identity.
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
        if !result.is_instance(shared.twins.event_type.bind(py))? {
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
        let result = self.on_event.bind(event.py()).call1((event,))?;
        Ok(if result.is_none() { None } else { Some(result) })
    }

    pub fn state(&self, py: Python<'_>, shared: &Shared) -> PyResult<State> {
        if self.is_stopped {
            return Ok(State::Stopped);
        }
        let instance = self.instance.bind(py);
        let plain = if shared.is_plain { plain_copy(&instance.getattr(intern!(py, "__dict__"))?) } else { None };
        Ok(State::Running(match plain {
            Some(copy) => copy.into_any().unbind(),
            None => instance.call_method0(intern!(py, "snapshot"))?.unbind(),
        }))
    }

    pub fn restore(&mut self, py: Python<'_>, state: &State, shared: &Shared) -> PyResult<()> {
        self.is_stopped = true; // one that cannot be restored must not go on from who knows where
        let State::Running(state) = state else {
            return Ok(());
        };
        let (instance, state) = (self.instance.bind(py), state.bind(py));
        if !(shared.is_plain && plain_restore(&instance.getattr(intern!(py, "__dict__"))?, state)?) {
            instance.call_method1(intern!(py, "restore"), (state,))?;
        }
        self.is_stopped = false;
        Ok(())
    }

    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.instance)?;
        visit.call(&self.on_event)?;
        visit.call(&self.derive)
    }
}
