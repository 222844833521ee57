//! Gives results their identity: `middleware.model.identity.Derivation`, for results of which it would keep all values as they
//! are. All others, and all errors, are its own.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::event::python::fields::{Maker, Stamps};

/// The part of result identities that all keys of a detector share.
pub struct Stamp {
    name: Py<PyAny>,
    level: Py<PyAny>,
    backdate: i64,
    /// Whether identities rest on the times of results, not on their causes.
    is_timed: bool,
    /// The published types whose events can be made here.
    makers: Vec<Maker>,
    /// The last source of causes, and its hash.
    last: Option<(Py<PyString>, u64)>,
}

impl Stamp {
    /// `recipes`: see `Maker`, of the types that the detector publishes.
    pub fn new(
        name: &Bound<'_, PyAny>,
        level: &Bound<'_, PyAny>,
        recipes: &[Bound<'_, PyAny>],
        backdate: i64,
        is_timed: bool,
    ) -> PyResult<Self> {
        let makers = recipes.iter().map(Maker::new).collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            name: name.clone().unbind(),
            level: level.clone().unbind(),
            backdate,
            is_timed,
            makers: makers.into_iter().flatten().collect(),
            last: None,
        })
    }

    /// The event of what a detector gave for `cause`, if that is one event; None if it is for Python to derive.
    #[inline]
    pub fn one<'py>(
        &mut self,
        origin: u64,
        cause: &Bound<'py, PyAny>,
        event: &Bound<'py, PyAny>,
        ordinal: u32,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, kind, stamps) = (event.py(), event.get_type(), Stamps::get(event.py())?);
        let Some(at) = self.makers.iter().position(|maker| maker.of().is(&kind)) else { return Ok(None) };
        let own = self.makers[at].fields() - Stamps::COUNT + 1;
        for field in 0..own {
            match self.makers[at].value(event, field) {
                Some(value) if self.makers[at].keeps(field, &value) => {}
                _ => return Ok(None),
            }
        }
        let (ts, before) = (stamps.ts(event)?, stamps.ts(cause)?);
        if ts < before.saturating_sub(self.backdate) {
            return Ok(None);
        }
        let identity = if self.is_timed {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&ts.to_le_bytes());
            bytes[8..].copy_from_slice(&ordinal.to_le_bytes());
            xxh3_64_with_seed(&bytes, origin)
        } else {
            let (source, Ok(id)) = (stamps.source(cause)?, stamps.id(cause)?.extract::<i64>()) else { return Ok(None) };
            let Some(hash) = self.hash_of(source) else { return Ok(None) };
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&hash.to_le_bytes());
            bytes[8..16].copy_from_slice(&id.to_le_bytes());
            bytes[16..].copy_from_slice(&ordinal.to_le_bytes());
            xxh3_64_with_seed(&bytes, origin)
        };
        let maker = &self.makers[at];
        let made = maker.filled(py, |field| match field.checked_sub(own) {
            Some(0) => identity.cast_signed().into_bound_py_any(py),
            Some(1) => Ok(self.name.bind(py).clone()),
            Some(_) => Ok(self.level.bind(py).clone()),
            None => maker.value(event, field).map_or_else(|| Ok(py.None().into_bound(py)), Ok),
        })?;
        Ok(Some(made))
    }

    /// The events of what a detector gave for `cause`; None if they are for Python to derive.
    pub fn all<'py>(
        &mut self,
        origin: u64,
        cause: &Bound<'py, PyAny>,
        result: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut events: Vec<_> = if let Ok(list) = result.cast_exact::<PyList>() {
            list.iter().collect()
        } else if let Ok(tuple) = result.cast_exact::<PyTuple>() {
            tuple.iter().collect()
        } else {
            vec![result.clone()]
        };
        for (ordinal, event) in events.iter_mut().enumerate() {
            match self.one(origin, cause, event, u32::try_from(ordinal)?)? {
                Some(stamped) => *event = stamped,
                None => return Ok(None),
            }
        }
        PyList::new(cause.py(), events).map(Some)
    }

    /// The hash of a cause's source; None if it is no text of Unicode.
    fn hash_of(&mut self, source: Bound<'_, PyString>) -> Option<u64> {
        if let Some((last, hash)) = &self.last
            && last.is(&source)
        {
            return Some(*hash);
        }
        let hash = xxh3_64(source.to_str().ok()?.as_bytes());
        self.last = Some((source.unbind(), hash));
        Some(hash)
    }
}
