//! `middleware.native.SequenceRuns`: skip-till-next-match and strict contiguity.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::arriving::is_lenient;
use super::entries::{is_before, is_it, role};
use super::keys::{Key, Keys};
use super::plan::Plan;
use crate::event::python::fields::Stamps;
use crate::expr::value::Value;
use crate::sequence::encoder::Encoder;
use crate::sequence::entries::{Entries, Entry, Role};
use crate::sequence::running::{Changed, Due, Match, Matches, Rules, RunJudge, Running, Touched};

type Stored = Entry<Py<PyAny>>;

/// The events of a match that stands, by place.
type Found = Match<Py<PyAny>>;

/// Evaluates conditions over entries.
struct Judging<'a, 'py> {
    py: Python<'py>,
    plan: &'a Plan,
}

impl RunJudge<Py<PyAny>> for Judging<'_, '_> {
    type Failure = PyErr;

    #[inline]
    fn holds<'e>(
        &self,
        condition: usize,
        count: impl Fn(usize) -> usize,
        entry: impl Fn(usize, usize) -> &'e Stored,
    ) -> PyResult<bool> {
        let value = |slot, at: usize, number| entry(slot, number).role(slot).map_or(Value::Other, |values| values[at].clone());
        let part = |slot: usize| {
            let component = &self.plan.pattern.components[slot];
            if !component.kleene || component.negation.is_some() {
                return Ok(entry(slot, 0).event.bind(self.py).clone());
            }
            let events = (0..count(slot)).map(|number| entry(slot, number).event.bind(self.py));
            Ok(PyTuple::new(self.py, events.collect::<Vec<_>>())?.into_any())
        };
        self.plan.conditions[condition].holds(self.py, &count, value, part)
    }
}

/// The state of a query with one of these two strategies.
#[pyclass(module = "middleware.native")]
pub struct SequenceRuns {
    plan: Arc<Plan>,
    rules: Rules,
    running: Running<Py<PyAny>>,
    keys: Keys,
    fail: Py<PyAny>,
    encoder: Encoder,
}

/// An event in a partition (None: all), in its roles there.
struct Placed<'py> {
    partition: Option<usize>,
    ts: i64,
    event: Bound<'py, PyAny>,
    roles: Vec<Role>,
}

#[pymethods]
impl SequenceRuns {
    #[new]
    fn new(plan: &Bound<'_, PyAny>, fail: Py<PyAny>) -> PyResult<Self> {
        let dues: Vec<(Vec<usize>, Vec<usize>)> = plan.get_item("dues")?.extract()?;
        let dues = dues.into_iter().map(|(taken, complete)| Due { taken, complete }).collect();
        Ok(Self {
            rules: Rules { dues, is_strict: plan.get_item("strict")?.extract()? },
            running: Running::default(),
            keys: Keys::new(plan.py()),
            plan: Arc::new(Plan::parse(plan)?),
            fail,
            encoder: Encoder::default(),
        })
    }

    /// Take changes and time; the results of matches that stand now, and of those that stood before: events, or rows of their
    /// fields.
    fn apply<'py>(
        &mut self,
        py: Python<'py>,
        inserts: &Bound<'py, PyList>,
        retracts: &Bound<'py, PyList>,
        emitted: i64,
        r#final: i64,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let plan = Arc::clone(&self.plan);
        let pattern = &plan.pattern;
        let gone = self.placed(&plan, retracts, false)?;
        let come = self.placed(&plan, inserts, true)?;
        let leads = |role: &Role| pattern.components[role.slot].negation.is_some() && pattern.components[role.slot].place == 0;
        let changed =
            |each: &Placed<'py>| Changed { partition: each.partition, ts: each.ts, leads: each.roles.iter().any(leads) };
        let touched = self.running.touched(pattern, gone.iter().chain(&come).map(changed), emitted);
        let before = self.matches(py, &plan, &touched)?;
        for each in gone {
            self.running.remove(each.partition, each.ts, is_it(&each.event)?)?;
        }
        for each in come {
            if let Some(number) = each.partition
                && pattern.trails
                && each.roles.iter().any(|role| role.slot == pattern.steps[0])
            {
                self.running.wait(each.ts, number);
            }
            let entry = Entry { ts: each.ts, event: each.event.unbind(), roles: each.roles, ended: AtomicI64::new(i64::MAX) };
            self.running.add(each.partition, entry, is_before(py))?;
        }
        self.running.emitted = emitted;
        let after = self.matches(py, &plan, &touched)?;
        let rows = |these: &Matches<_>, those: &Matches<_>| {
            let changed = these.without(those, same).map(|(identity, found)| result(py, &plan, found, *identity));
            PyList::new(py, changed.collect::<PyResult<Vec<_>>>()?)
        };
        let (made, withdrawn) = (rows(&after, &before)?, rows(&before, &after)?);
        self.running.purge(pattern, r#final, |at| self.keys.forget(py, at))?;
        Ok((made, withdrawn))
    }

    /// Events kept, once for each partition.
    #[getter]
    fn held(&self) -> usize {
        self.running.held()
    }

    #[getter]
    fn keys(&self) -> usize {
        self.running.partitions.len()
    }

    /// Every event held.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let held = self.running.all().flat_map(|entries| &entries.0);
        PyList::new(py, held.map(|each| each.event.bind(py)).collect::<Vec<_>>())
    }

    fn check(&self) {
        self.running.check();
    }
}

impl SequenceRuns {
    /// Events with their partitions, which are made if need be, and their roles there.
    fn placed<'py>(&mut self, plan: &Plan, events: &Bound<'py, PyList>, make: bool) -> PyResult<Vec<Placed<'py>>> {
        let mut placed: Vec<Placed<'py>> = Vec::with_capacity(events.len());
        for event in events {
            let begun = placed.len();
            match self.roles(plan, &event) {
                Err(error) if error.is_instance_of::<PyTypeError>(event.py()) => {
                    let reason = format!("no key can be made of it: {}", error.value(event.py()));
                    self.fail.bind(event.py()).call1((event, reason))?;
                }
                Err(error) => return Err(error),
                Ok(found) => {
                    let ts = Stamps::get(event.py())?.ts(&event)?;
                    for (key, role) in found {
                        let partition = match key {
                            None => None,
                            Some(key) if make => {
                                Some(self.keys.find_or_make(key, &mut self.running.partitions, Entries::default)?)
                            }
                            Some(key) => match self.keys.find(&key)? {
                                None => continue,
                                there => there,
                            },
                        };
                        match placed[begun..].iter_mut().find(|each| each.partition == partition) {
                            Some(each) => each.roles.extend(role),
                            None => {
                                placed.push(Placed { partition, ts, event: event.clone(), roles: role.into_iter().collect() })
                            }
                        }
                    }
                }
            }
        }
        Ok(placed)
    }

    /// The keys of an event (None: it belongs to all partitions), each with a role, if it fits that. Raises TypeError if a key
    /// cannot be hashed.
    fn roles<'py>(&self, plan: &Plan, event: &Bound<'py, PyAny>) -> PyResult<Vec<(Option<Key<'py>>, Option<Role>)>> {
        let mut found = Vec::new();
        for slot in plan.roles_of(&event.get_type()) {
            let mut key = None;
            if let Some(fields) = &plan.readings[*slot].key {
                key = Key::of(event.py(), fields.iter().map(|field| field.of(event)), is_lenient(plan, *slot))?;
                let Some(known) = &key else { continue };
                self.keys.find(known)?; // raises if it cannot be hashed
            }
            let role = role(plan, *slot, event)?;
            if role.is_some() || (self.rules.is_strict && key.is_some()) {
                found.push((key, role));
            }
        }
        Ok(found)
    }

    /// The matches that stand now, of the runs that are touched.
    fn matches(&mut self, py: Python<'_>, plan: &Plan, touched: &Touched) -> PyResult<Matches<Py<PyAny>>> {
        let (mut found, encoder) = (Matches::default(), &mut self.encoder);
        self.running.matches(&Judging { py, plan }, &plan.pattern, &self.rules, touched, |places| {
            let events = |place: &Vec<&Stored>| place.iter().map(|each| each.event.clone_ref(py)).collect();
            found.note(identity(py, plan, places, encoder)?, places.iter().map(events).collect());
            Ok(())
        })?;
        Ok(found)
    }
}

/// Whether two matches with the same identity hold the same event objects: equal ones may differ in a zero's sign.
fn same(one: &Found, other: &Found) -> bool {
    one.iter().flatten().map(Py::as_ptr).eq(other.iter().flatten().map(Py::as_ptr))
}

/// The identity of a match, as `Origin.id` has it.
fn identity(py: Python<'_>, plan: &Plan, found: &[Vec<&Stored>], encoder: &mut Encoder) -> PyResult<i64> {
    encoder.clear();
    encoder.array(found.len());
    for (place, part) in found.iter().enumerate() {
        if plan.pattern.step(place).kleene {
            encoder.array(part.len());
        }
        for event in part {
            encoder.event(event.event.bind(py))?;
        }
    }
    Ok(encoder.hash(plan.seed))
}

/// The result of a match, or the row of its fields.
fn result(py: Python<'_>, plan: &Plan, found: &Found, identity: i64) -> PyResult<Py<PyAny>> {
    let mut row: Vec<Bound<'_, PyAny>> = Vec::with_capacity(plan.plain.as_ref().map_or(0, Vec::len) + Stamps::COUNT);
    if let Some(fields) = &plan.plain {
        for each in fields {
            row.push(each.field.of(found[each.place][0].bind(py))?);
        }
    } else {
        let part = |(place, events): (usize, &Vec<Py<PyAny>>)| match &events[..] {
            [event] if !plan.pattern.step(place).kleene => Ok(event.bind(py).clone()),
            events => Ok(PyTuple::new(py, events.iter().map(|event| event.bind(py)))?.into_any()),
        };
        let parts = found.iter().enumerate().map(part).collect::<PyResult<Vec<_>>>()?;
        row.extend(plan.values.bind(py).call1(PyTuple::new(py, parts)?)?.cast::<PyTuple>()?.iter());
    }
    let time =
        |event: Option<&Py<PyAny>>| -> PyResult<i64> { Stamps::get(py)?.ts(event.expect("a match has events").bind(py)) };
    let ts = if plan.pattern.trails {
        time(found[0].first())?.saturating_add(plan.pattern.within)
    } else {
        time(found[found.len() - 1].last())?
    };
    plan.result(py, row, ts, identity)
}
