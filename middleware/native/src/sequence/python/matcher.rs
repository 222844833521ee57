//! `middleware.native.SequenceMatcher`: skip-till-any-match.

use std::sync::Arc;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::arriving::{self, Arriving, Keyed};
use super::block::{Block, Columns, Rows};
use super::keys::Keys;
use super::plan::Plan;
use super::results::{Results, results};
use crate::block::python::event_batch::EventBatch;
use crate::event::python::fields::Stamps;
use crate::sequence::encoder::Encoder;
use crate::sequence::matching::Matching;
use crate::sequence::negation::{Judge, TooLarge};
use crate::sequence::stack::{Instance, Stack};

impl From<TooLarge> for PyErr {
    fn from(_: TooLarge) -> Self {
        PyRecursionError::new_err("a Kleene group is too large to be searched")
    }
}

/// Evaluates conditions over rows.
struct Judging<'a, 'py> {
    py: Python<'py>,
    plan: &'a Plan,
    rows: &'a mut Rows,
}

impl Judge for Judging<'_, '_> {
    type Failure = PyErr;

    #[inline]
    fn holds(
        &self,
        condition: usize,
        count: impl Fn(usize) -> usize,
        instance: impl Fn(usize, usize) -> Instance,
    ) -> PyResult<bool> {
        let value = |slot: usize, at, number| self.rows.value(instance(slot, number), &self.plan.readings[slot], at);
        let part = |slot: usize| {
            let component = &self.plan.pattern.components[slot];
            if !component.kleene || component.negation.is_some() {
                return self.rows.event(self.py, instance(slot, 0));
            }
            let events = (0..count(slot)).map(|number| self.rows.event(self.py, instance(slot, number)));
            Ok(PyTuple::new(self.py, events.collect::<PyResult<Vec<_>>>()?)?.into_any())
        };
        self.plan.conditions[condition].holds(self.py, &count, value, part)
    }

    #[inline]
    fn hold(&mut self, block: u32) {
        self.rows.hold(block);
    }

    #[inline]
    fn release(&mut self, block: u32) {
        self.rows.release(block);
    }
}

/// The state of a query with strategy skip-till-any-match.
#[pyclass(module = "middleware.native")]
pub struct SequenceMatcher {
    plan: Arc<Plan>,
    matching: Matching,
    keys: Keys,
    rows: Rows,
    arriving: Arriving,
    encoder: Encoder,
    fail: Py<PyAny>,
}

#[pymethods]
impl SequenceMatcher {
    #[new]
    fn new(plan: &Bound<'_, PyAny>, fail: Py<PyAny>) -> PyResult<Self> {
        let parsed = Plan::parse(plan)?;
        Ok(Self {
            matching: Matching::new(&parsed.pattern),
            keys: Keys::new(plan.py()),
            rows: Rows::default(),
            arriving: Arriving::new(parsed.pattern.components.len()),
            encoder: Encoder::default(),
            fail,
            plan: Arc::new(parsed),
        })
    }

    /// A matcher for events that are in order, without the work that disorder needs.
    #[cfg(feature = "baselines")]
    #[staticmethod]
    fn in_order(plan: &Bound<'_, PyAny>, fail: Py<PyAny>) -> PyResult<Self> {
        let mut made = Self::new(plan, fail)?;
        made.matching.in_order = true;
        Ok(made)
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
        self.take_back(py, &plan, retracts)?;
        let block = self.rows.open_events();
        for event in inserts {
            let (partitions, arrivals) = (&mut self.matching.partitions, &mut self.matching.arrivals);
            let keyed = Keyed { keys: &mut self.keys, partitions, pattern: &plan.pattern };
            self.arriving.event(&plan, keyed, &mut self.rows, arrivals, block, &event, self.fail.bind(py))?;
        }
        let (made, withdrawn, _) = self.step(py, &plan, emitted, r#final, false)?;
        Ok((made, withdrawn))
    }

    /// As `apply`, with events in columns, several pieces at once: (type, columns, their block). If all that RETURN gives
    /// are fields, and no new match replaces a withdrawn one, new ones are a block, in order of time. None, and nothing is done,
    /// if some column is of a kind that is not read here.
    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        pieces: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, EventBatch>)>,
        retracts: &Bound<'py, PyList>,
        emitted: i64,
        r#final: i64,
    ) -> PyResult<Option<Results<'py>>> {
        let plan = Arc::clone(&self.plan);
        let mut come = Vec::with_capacity(pieces.len());
        for (event_type, events, block) in pieces {
            let Some((roles, layout)) = plan.layout_of(&event_type) else { return Ok(None) };
            let Some((columns, times)) = Columns::of(layout, &events, block.get())? else { return Ok(None) };
            come.push((roles, columns, times));
        }
        self.take_back(py, &plan, retracts)?;
        for (roles, columns, times) in come {
            let count = columns.len();
            let block = self.rows.open(Block::Columns(Box::new(columns)));
            let (partitions, arrivals) = (&mut self.matching.partitions, &mut self.matching.arrivals);
            for slot in roles {
                let keyed = Keyed { keys: &mut self.keys, partitions: &mut *partitions, pattern: &plan.pattern };
                arriving::columns(py, &plan, keyed, &self.rows, arrivals, *slot, block, &times)?;
            }
            if let Some(kept) = arrivals.thin(roles, block, count) {
                self.rows.thin(py, block, &kept)?;
            }
        }
        self.step(py, &plan, emitted, r#final, true).map(Some)
    }

    /// Events on stacks, one for each role of theirs.
    #[getter]
    fn held(&self) -> usize {
        self.matching.held()
    }

    #[getter]
    fn keys(&self) -> usize {
        self.matching.partitions.len()
    }

    /// Every event held; one of several roles several times.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let held = self.matching.stacks().flat_map(Stack::items).map(|each| self.rows.event(py, *each));
        PyList::new(py, held.collect::<PyResult<Vec<_>>>()?)
    }

    fn check(&self) {
        self.matching.check();
        self.rows.check(self.matching.held());
    }
}

impl SequenceMatcher {
    /// Begin a step: withdraw events.
    fn take_back(&mut self, py: Python<'_>, plan: &Plan, retracts: &Bound<'_, PyList>) -> PyResult<()> {
        self.matching.begin();
        for event in retracts {
            let ts = Stamps::get(py)?.ts(&event)?;
            for (slot, number) in self.arriving.places(plan, &self.keys, &event, self.fail.bind(py))? {
                let mut judge = Judging { py, plan, rows: &mut self.rows };
                let component = &plan.pattern.components[slot];
                let is_it = |judge: &Judging<'_, '_>, each| judge.rows.is(each, &event);
                self.matching.retract(&mut judge, &plan.pattern, ts, component, number, is_it)?;
            }
        }
        Ok(())
    }

    /// Put what has arrived on the stacks, and let time pass.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        plan: &Plan,
        emitted: i64,
        r#final: i64,
        as_columns: bool,
    ) -> PyResult<Results<'py>> {
        let mut judge = Judging { py, plan, rows: &mut self.rows };
        self.matching.step(&mut judge, &plan.pattern, emitted)?;
        let results = results(py, plan, judge.rows, &mut self.matching.changes, &mut self.encoder, as_columns)?;
        self.matching.purge(&mut judge, &plan.pattern, r#final, |at| self.keys.forget(py, at))?;
        self.rows.sweep();
        Ok(results)
    }
}
