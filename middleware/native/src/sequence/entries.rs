//! Events in the total order of their partition, each in the roles that it may have.

use std::sync::atomic::AtomicI64;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::partitions::{Content, LITTLE};
use super::plan::{Component, Plan};
use crate::event::python::fields::Field;
use crate::event::python::fields::Stamps;
use crate::expr::value::Value;

/// A component that an event may be, and what conditions read of it as that.
pub struct Role {
    pub slot: usize,
    values: Box<[Value]>,
}

impl Role {
    /// What an event is as a component, if it passes its filters.
    pub fn of(plan: &Plan, component: &Component, event: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = event.py();
        let take = |field: &Field| Ok::<_, PyErr>(Value::of(&field.of(event)?));
        let values = component.fields.iter().map(take).collect::<PyResult<Box<[Value]>>>()?;
        for number in &component.filters {
            let alone = |_| if component.kleene { Ok(PyTuple::new(py, [event])?.into_any()) } else { Ok(event.clone()) };
            if !plan.conditions[*number].holds(py, |_| 1, |_, at, _| values[at].clone(), alone)? {
                return Ok(None);
            }
        }
        Ok(Some(Self { slot: component.slot, values }))
    }
}

/// An event in the total order of its partition.
pub struct Entry {
    pub ts: i64,
    pub event: Py<PyAny>,
    pub roles: Vec<Role>,
    /// Of a run that begins here: the time of the entry at which it stopped. What is later does not change it.
    pub ended: AtomicI64,
}

impl Entry {
    /// Its values as a component; None if it is not that.
    #[inline]
    pub fn role(&self, slot: usize) -> Option<&[Value]> {
        self.roles.iter().find(|role| role.slot == slot).map(|role| &*role.values)
    }
}

/// The entries of one partition, in total order.
#[derive(Default)]
pub struct Entries(pub Vec<Entry>);

impl Content for Entries {
    type Room = ();

    fn purge(&mut self, upto: i64, (): &mut ()) -> usize {
        let count = self.0.partition_point(|each| each.ts <= upto);
        self.0.drain(..count).count()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(LITTLE);
    }
}

/// What orders events of one time.
fn tie<'py>(event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let (py, stamps) = (event.py(), Stamps::get(event.py())?);
    (stamps.level(event)?, stamps.source(event)?, stamps.id(event)?).into_pyobject(py)
}

impl Entries {
    /// How many are earlier than `ts`.
    #[inline]
    pub fn below(&self, ts: i64) -> usize {
        match self.0.last() {
            Some(last) if last.ts >= ts => self.0.partition_point(|each| each.ts < ts),
            _ => self.0.len(),
        }
    }

    pub fn add(&mut self, py: Python<'_>, entry: Entry) -> PyResult<()> {
        let mut at = self.below(entry.ts.saturating_add(1));
        if at > 0 && self.0[at - 1].ts == entry.ts {
            let own = tie(entry.event.bind(py))?;
            while at > 0 && self.0[at - 1].ts == entry.ts && own.lt(tie(self.0[at - 1].event.bind(py))?)? {
                at -= 1;
            }
        }
        self.0.insert(at, entry);
        Ok(())
    }

    pub fn remove(&mut self, ts: i64, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        let own = tie(event)?;
        for at in self.below(ts)..self.below(ts.saturating_add(1)) {
            if own.eq(tie(self.0[at].event.bind(event.py()))?)? {
                self.0.remove(at);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
