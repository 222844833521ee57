//! The arrivals of a step: each event in the roles that it may have, with its partition, before any of it is on a stack.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::block::{Rows, object};
use super::keys::{Key, Keys};
use super::plan::Plan;
use crate::event::python::fields::Stamps;
use crate::expr::value::Value;
use crate::sequence::arrivals::{Arrivals, Arrived};
use crate::sequence::partitions::Partitions;
use crate::sequence::pattern::Pattern;
use crate::sequence::stack::{Instance, Partition};

/// The partitions of a query, by their keys.
pub struct Keyed<'a> {
    pub keys: &'a mut Keys,
    pub partitions: &'a mut Partitions<Partition>,
    pub pattern: &'a Pattern,
}

impl Keyed<'_> {
    #[inline]
    fn find_or_make(&mut self, key: Key<'_>) -> PyResult<usize> {
        let (steps, negations) = (self.pattern.steps.len(), self.pattern.negations.len());
        self.keys.find_or_make(key, self.partitions, || Partition::new(steps, negations))
    }
}

/// Finds the roles of events.
pub struct Arriving {
    /// The roles of the last event, and the values that conditions read of it, one role after the other.
    roles: Vec<(usize, Option<u32>)>,
    values: Vec<Vec<Value>>,
}

impl Arriving {
    pub fn new(components: usize) -> Self {
        Self { roles: Vec::new(), values: (0..components).map(|_| Vec::new()).collect() }
    }

    /// Add an event to a block of such, in each of its roles; in none, and a failure is noted, if no key can be made of it.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the parts of a matcher, and the event")]
    pub fn event(
        &mut self,
        plan: &Plan,
        mut keyed: Keyed<'_>,
        rows: &mut Rows,
        arrivals: &mut Arrivals,
        block: u32,
        event: &Bound<'_, PyAny>,
        fail: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.find(plan, event, fail, |key| keyed.find_or_make(key).map(Some))?;
        if self.roles.is_empty() {
            return Ok(());
        }
        let ts = Stamps::get(event.py())?.ts(event)?;
        for (slot, partition) in &self.roles {
            let row = rows.add(block, event.clone().unbind(), &mut self.values[*slot]);
            arrivals.of(*slot).push(Arrived { instance: Instance { ts, block, row }, partition: *partition });
        }
        Ok(())
    }

    /// The components that an event may have been, each with its partition (None: it belongs to all), if that is there.
    pub fn places(
        &mut self,
        plan: &Plan,
        keys: &Keys,
        event: &Bound<'_, PyAny>,
        fail: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(usize, Option<u32>)>> {
        self.find(plan, event, fail, |key| keys.find(&key))?;
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
            let found = role(plan, *slot, event, values).and_then(|role| match role {
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
}

/// Add the rows of a block of columns as a component.
#[expect(clippy::too_many_arguments, reason = "the parts of a matcher, and the rows")]
pub fn columns(
    py: Python<'_>,
    plan: &Plan,
    mut keyed: Keyed<'_>,
    rows: &Rows,
    arrivals: &mut Arrivals,
    slot: usize,
    block: u32,
    times: &[i64],
) -> PyResult<()> {
    let Some(columns) = rows.columns(block) else { return Ok(()) };
    let instances = times.iter().enumerate().map(|(row, ts)| Instance { ts: *ts, block, row: row as u32 });
    let arrived = arrivals.of(slot);
    arrived.reserve(times.len());
    let reading = &plan.readings[slot];
    let fits = |instance: Instance| {
        let value = |at| rows.value(instance, reading, at);
        passes(py, plan, slot, value, || rows.event(py, instance))
    };
    let Some(key) = &reading.key_numbers else {
        for instance in instances {
            if fits(instance)? {
                arrived.push(Arrived { instance, partition: None });
            }
        }
        return Ok(());
    };
    let whole = if let [number] = key[..] { columns.input(number).integers() } else { None };
    for instance in instances {
        let row = instance.row as usize;
        let key = match whole {
            Some(keys) => Some(Key::Whole(keys[row])),
            None => {
                let parts = key.iter().map(|number| object(py, &columns.input(*number).cell(row)));
                Key::of(py, parts, is_lenient(plan, slot))?
            }
        };
        if let Some(key) = key
            && fits(instance)?
        {
            arrived.push(Arrived { instance, partition: Some(keyed.find_or_make(key)? as u32) });
        }
    }
    Ok(())
}

/// Whether NULL and NaN are a key, too.
pub fn is_lenient(plan: &Plan, slot: usize) -> bool {
    plan.pattern.steps.len() == 1 && plan.pattern.components[slot].negation.is_none()
}

/// The key of an event as a component (None: it belongs to all partitions), if it fits that; and the values that conditions read.
#[inline]
fn role<'py>(
    plan: &Plan,
    slot: usize,
    event: &Bound<'py, PyAny>,
    values: &mut Vec<Value>,
) -> PyResult<Option<Option<Key<'py>>>> {
    let (mut key, reading) = (None, &plan.readings[slot]);
    if let Some(fields) = &reading.key {
        key = Key::of(event.py(), fields.iter().map(|field| field.of(event)), is_lenient(plan, slot))?;
        match &key {
            None => return Ok(None),
            Some(Key::Object(found)) => drop(found.hash()?), // raises if it cannot be hashed
            Some(_) => {}
        }
    }
    for field in &reading.fields {
        values.push(Value::of(&field.of(event)?));
    }
    let fits = passes(event.py(), plan, slot, |at| values[at].clone(), || Ok(event.clone()))?;
    Ok(fits.then_some(key))
}

/// Whether the conditions on an event alone hold.
#[inline]
fn passes<'py>(
    py: Python<'py>,
    plan: &Plan,
    slot: usize,
    value: impl Fn(usize) -> Value,
    event: impl Fn() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<bool> {
    let kleene = plan.pattern.components[slot].kleene;
    for number in &plan.readings[slot].filters {
        let alone = |_| if kleene { Ok(PyTuple::new(py, [event()?])?.into_any()) } else { event() };
        if !plan.conditions[*number].holds(py, |_| 1, |_, at, _| value(at), alone)? {
            return Ok(false);
        }
    }
    Ok(true)
}
