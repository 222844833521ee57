//! What has arrived in a step: each event in the roles that it may have, with its partition, before any of it is on a stack.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::block::{Blocks, Columns, object};
use super::partitions::{Key, Partitions};
use super::plan::{Component, Plan};
use super::stack::{Instance, Partition};
use crate::event::python::fields::Stamps;
use crate::expr::tuples::is_sparse;
use crate::expr::value::Value;

/// An event in one of its roles.
#[derive(Clone, Copy)]
pub struct Arrived {
    pub instance: Instance,
    /// None: it belongs to all partitions.
    pub partition: Option<u32>,
}

/// By component.
pub struct Arriving {
    slots: Vec<Vec<Arrived>>,
    /// The roles of the last event, and the values that conditions read of it, one role after the other.
    roles: Vec<(usize, Option<u32>)>,
    values: Vec<Vec<Value>>,
}

impl Arriving {
    pub fn new(components: usize) -> Self {
        let empty = || vec![Vec::new(); components];
        Self { slots: empty(), roles: Vec::new(), values: (0..components).map(|_| Vec::new()).collect() }
    }

    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(Vec::clear);
    }

    /// Take out the events of a component, in their order of arrival.
    pub fn take(&mut self, slot: usize) -> Vec<Arrived> {
        std::mem::take(&mut self.slots[slot])
    }

    /// Give back the room that was taken.
    pub fn give_back(&mut self, slot: usize, mut room: Vec<Arrived>) {
        room.clear();
        self.slots[slot] = room;
    }

    /// Add an event to a block of such, in each of its roles; in none, and a failure is noted, if no key can be made of it.
    #[inline]
    pub fn event(
        &mut self,
        plan: &Plan,
        partitions: &mut Partitions<Partition>,
        blocks: &mut Blocks,
        block: u32,
        event: &Bound<'_, PyAny>,
        fail: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.find(plan, event, fail, |key| partitions.find_or_make(key).map(Some))?;
        if self.roles.is_empty() {
            return Ok(());
        }
        let ts = Stamps::get(event.py())?.ts(event)?;
        for (slot, partition) in &self.roles {
            let row = blocks.add(block, event.clone().unbind(), &mut self.values[*slot]);
            self.slots[*slot].push(Arrived { instance: Instance { ts, block, row }, partition: *partition });
        }
        Ok(())
    }

    /// The components that an event may have been, each with its partition (None: it belongs to all), if that is there.
    pub fn places(
        &mut self,
        plan: &Plan,
        partitions: &Partitions<Partition>,
        event: &Bound<'_, PyAny>,
        fail: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(usize, Option<u32>)>> {
        self.find(plan, event, fail, |key| partitions.find(&key))?;
        Ok(std::mem::take(&mut self.roles))
    }

    /// Find the roles of an event, and their partitions; none, and a failure is noted, if no key can be made of it.
    #[inline]
    fn find<'py>(
        &mut self,
        plan: &Plan,
        event: &Bound<'py, PyAny>,
        fail: &Bound<'_, PyAny>,
        mut partition: impl FnMut(Key<'py>) -> PyResult<Option<usize>>,
    ) -> PyResult<()> {
        self.roles.clear();
        for slot in plan.roles_of(&event.get_type()) {
            let values = &mut self.values[*slot];
            values.clear();
            let found = role(plan, &plan.components[*slot], event, values).and_then(|role| match role {
                Some(Some(key)) => Ok(partition(key)?.map(|number| Some(number as u32))),
                Some(None) => Ok(Some(None)),
                None => Ok(None),
            });
            match found {
                Ok(Some(number)) => self.roles.push((*slot, number)),
                Ok(None) => {}
                Err(error) if error.is_instance_of::<PyTypeError>(event.py()) => {
                    let reason = format!("no key can be made of it: {}", error.value(event.py()));
                    fail.call1((event, reason))?;
                    self.roles.clear();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Add the rows of a block of columns as a component.
    #[expect(clippy::too_many_arguments, reason = "the parts of a matcher, and the rows")]
    pub fn columns(
        &mut self,
        py: Python<'_>,
        plan: &Plan,
        partitions: &mut Partitions<Partition>,
        blocks: &Blocks,
        component: &Component,
        block: u32,
        times: &[i64],
    ) -> PyResult<()> {
        let Some(columns) = blocks.columns(block) else { return Ok(()) };
        let rows = times.iter().enumerate().map(|(row, ts)| Instance { ts: *ts, block, row: row as u32 });
        let arrived = &mut self.slots[component.slot];
        arrived.reserve(times.len());
        let fits = |instance: Instance| {
            let value = |at| blocks.value(instance, component, at);
            passes(py, plan, component, value, || blocks.event(py, instance))
        };
        let Some(key) = &component.key_numbers else {
            for instance in rows {
                if fits(instance)? {
                    arrived.push(Arrived { instance, partition: None });
                }
            }
            return Ok(());
        };
        let whole = if let [number] = key[..] { columns.input(number).integers() } else { None };
        for instance in rows {
            let row = instance.row as usize;
            let key = match whole {
                Some(keys) => Some(Key::Whole(keys[row])),
                None => {
                    let parts = key.iter().map(|number| object(py, &columns.input(*number).cell(row)));
                    Key::of(py, parts, is_lenient(plan, component))?
                }
            };
            if let Some(key) = key
                && fits(instance)?
            {
                arrived.push(Arrived { instance, partition: Some(partitions.find_or_make(key)? as u32) });
            }
        }
        Ok(())
    }
}

impl Arriving {
    /// Where few rows of a block of columns are in a role, keep those alone. O(rows in a role), sorted if they are few.
    pub fn thin(&mut self, py: Python<'_>, blocks: &mut Blocks, roles: &[usize], block: u32) -> PyResult<()> {
        let count = blocks.columns(block).map_or(0, Columns::len);
        let own = |each: &&Arrived| each.instance.block == block;
        let arrived = || roles.iter().flat_map(|slot| self.slots[*slot].iter().rev().take_while(own));
        if !is_sparse(arrived().count(), count) {
            return Ok(());
        }
        let mut rows: Vec<u32> = arrived().map(|each| each.instance.row).collect();
        rows.sort_unstable();
        rows.dedup();
        for slot in roles {
            for each in self.slots[*slot].iter_mut().rev().take_while(|each| each.instance.block == block) {
                each.instance.row = rows.partition_point(|row| *row < each.instance.row) as u32;
            }
        }
        blocks.thin(py, block, &rows)
    }
}

/// Whether NULL and NaN are a key, too.
fn is_lenient(plan: &Plan, component: &Component) -> bool {
    plan.steps.len() == 1 && component.negation.is_none()
}

/// The key of an event as a component (None: it belongs to all partitions), if it fits that; and the values that conditions read.
#[inline]
fn role<'py>(
    plan: &Plan,
    component: &Component,
    event: &Bound<'py, PyAny>,
    values: &mut Vec<Value>,
) -> PyResult<Option<Option<Key<'py>>>> {
    let mut key = None;
    if let Some(fields) = &component.key {
        key = Key::of(event.py(), fields.iter().map(|field| field.of(event)), is_lenient(plan, component))?;
        match &key {
            None => return Ok(None),
            Some(Key::Object(found)) => drop(found.hash()?), // raises if it cannot be hashed
            Some(_) => {}
        }
    }
    for field in &component.fields {
        values.push(Value::of(&field.of(event)?));
    }
    let fits = passes(event.py(), plan, component, |at| values[at].clone(), || Ok(event.clone()))?;
    Ok(fits.then_some(key))
}

/// Whether the conditions on an event alone hold.
#[inline]
fn passes<'py>(
    py: Python<'py>,
    plan: &Plan,
    component: &Component,
    value: impl Fn(usize) -> Value,
    event: impl Fn() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<bool> {
    for number in &component.filters {
        let alone = |_| if component.kleene { Ok(PyTuple::new(py, [event()?])?.into_any()) } else { event() };
        if !plan.conditions[*number].holds(py, |_| 1, |_, at, _| value(at), alone)? {
            return Ok(false);
        }
    }
    Ok(true)
}
