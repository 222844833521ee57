//! Skip-till-any-match over changes that come in any order: the twin of `detectors.sequence.matcher.Matcher`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};

use super::block::{Block, Held};
use super::identity::Encoder;
use super::partitions::{Key, Partitions};
use super::plan::{Component, Plan};
use super::rows::{Cells, Given, Rows};
use super::search::{Found, Scratch, Search};
use super::stack::{Instance, Partition, Stack};
use super::standing::View;
use super::value::Value;
use crate::fields::Stamps;

/// The state of a query with strategy skip-till-any-match.
#[pyclass(module = "middleware.native")]
pub struct SequenceMatcher {
    plan: Arc<Plan>,
    partitions: Partitions<Partition>,
    /// Negatives that belong to all partitions, by negated component.
    common: Vec<Stack>,
    /// The first events of matches that wait for their window to pass: time and partition.
    due: BinaryHeap<Reverse<(i64, usize)>>,
    emitted: i64,
    /// What has ts <= this is outdated; what lies on stacks that are not touched is swept away now and then.
    purged: i64,
    swept: i64,
    held: usize,
    fail: Py<PyAny>,
    /// Whether input is taken to come in order: the baseline of the overhead of disorder, wrong if it does not.
    in_order: bool,
    changes: Changes,
    scratch: Option<Box<Scratch>>,
}

/// Rows of new matches and of withdrawn ones, and new matches as columns.
type Columns<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Option<Given<'py>>);

/// An event in one of its roles.
struct Role<'py> {
    slot: usize,
    /// None: it belongs to all partitions.
    key: Option<Key<'py>>,
    /// Its partition, if there was one when the role was found.
    partition: Option<usize>,
    values: Box<[Value]>,
}

#[pymethods]
impl SequenceMatcher {
    #[new]
    #[pyo3(signature = (plan, fail, in_order = false))]
    fn new(plan: &Bound<'_, PyAny>, fail: Py<PyAny>, in_order: bool) -> PyResult<Self> {
        let parsed = Plan::parse(plan)?;
        let (steps, negations) = (parsed.steps.len(), parsed.negations.len());
        Ok(Self {
            partitions: Partitions::new(plan.py(), move || Partition::new(steps, negations)),
            common: std::iter::repeat_with(Stack::default).take(negations).collect(),
            plan: Arc::new(parsed),
            due: BinaryHeap::new(),
            emitted: i64::MIN / 2,
            purged: i64::MIN / 2,
            swept: i64::MIN / 2,
            held: 0,
            fail,
            in_order,
            changes: Changes::default(),
            scratch: None,
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
        (self.changes.in_rows, self.changes.in_columns) = (false, false);
        self.take_back(py, &plan, retracts)?;
        for (ts, event) in in_time(inserts)? {
            let slots = plan.roles_of(&event.get_type());
            self.insert_as(py, &plan, slots, ts, Held::Event(event.unbind()))?;
        }
        self.pass(py, &plan, emitted, r#final)?;
        self.changes.rows(py)
    }

    /// As `apply`, with events of one type as columns (`Block::parse`); gives rows, and, if nothing is withdrawn and all that
    /// RETURN gives are fields, matches as columns in their place: (a pair for each field, times, ids).
    #[pyo3(signature = (event_type, block, retracts, emitted, r#final, as_columns = false))]
    #[expect(clippy::too_many_arguments, reason = "all that comes in one step")]
    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        event_type: &Bound<'py, PyType>,
        block: &Bound<'py, PyAny>,
        retracts: &Bound<'py, PyList>,
        emitted: i64,
        r#final: i64,
        as_columns: bool,
    ) -> PyResult<Columns<'py>> {
        let plan = Arc::clone(&self.plan);
        let held = Py::new(py, Block::parse(block)?)?;
        let block = held.get();
        (self.changes.in_rows, self.changes.in_columns) = (true, as_columns);
        self.take_back(py, &plan, retracts)?;
        let slots = plan.roles_of(event_type);
        for row in block.in_time() {
            self.insert_as(py, &plan, slots, block.times[row], Held::Row(held.clone_ref(py), row))?;
        }
        self.pass(py, &plan, emitted, r#final)?;
        self.changes.columns(py)
    }

    /// Events on stacks, one for each role of theirs.
    #[getter]
    fn held(&self) -> usize {
        self.held
    }

    #[getter]
    fn keys(&self) -> usize {
        self.partitions.len()
    }

    /// Every event held; one of several roles several times.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let stacks = self.partitions.iter().flat_map(|each| each.stacks()).chain(&self.common);
        let held = stacks.flat_map(|stack| &stack.items).map(|each| each.event.event(py)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, held)
    }

    fn check(&self) {
        self.partitions.iter().for_each(Partition::check);
        let stacks = self.partitions.iter().flat_map(|each| each.stacks()).chain(&self.common);
        assert_eq!(self.held, stacks.map(|stack| stack.items.len()).sum::<usize>(), "held is off");
    }
}

/// Events with their times, in order of time.
fn in_time<'py>(events: &Bound<'py, PyList>) -> PyResult<Vec<(i64, Bound<'py, PyAny>)>> {
    let stamps = Stamps::get(events.py())?;
    let mut timed = events.iter().map(|event| Ok((stamps.ts(&event)?, event))).collect::<PyResult<Vec<(i64, _)>>>()?;
    if !timed.is_sorted_by_key(|each| each.0) {
        timed.sort_by_key(|each| each.0);
    }
    Ok(timed)
}

impl SequenceMatcher {
    /// Begin a step: withdraw events.
    fn take_back(&mut self, py: Python<'_>, plan: &Plan, retracts: &Bound<'_, PyList>) -> PyResult<()> {
        self.changes.clear();
        for (ts, event) in in_time(retracts)? {
            let held = Held::Event(event.clone().unbind());
            for role in self.roles(py, plan, plan.roles_of(&event.get_type()), &held)? {
                self.retract(py, plan, ts, &event, role)?;
            }
        }
        Ok(())
    }

    /// Insert an event in each of its roles.
    #[inline]
    fn insert_as(&mut self, py: Python<'_>, plan: &Plan, slots: &[usize], ts: i64, event: Held) -> PyResult<()> {
        if let [slot] = slots {
            if let Some(role) = self.role_or_fail(py, plan, &plan.components[*slot], &event)?.flatten() {
                self.insert(py, plan, ts, event, role)?;
            }
            return Ok(());
        }
        for role in self.roles(py, plan, slots, &event)? {
            self.insert(py, plan, ts, event.clone_ref(py), role)?;
        }
        Ok(())
    }

    /// End a step: let time pass.
    fn pass(&mut self, py: Python<'_>, plan: &Plan, emitted: i64, r#final: i64) -> PyResult<()> {
        if plan.trails {
            self.complete(py, plan, emitted)?;
        }
        self.emitted = emitted;
        self.purged = r#final.saturating_sub(plan.reach);
        if self.purged > self.swept {
            self.purge(py, self.purged)?;
            self.swept = self.purged.saturating_add(plan.within);
        }
        Ok(())
    }

    /// The components that an event may be, by its type, its key and its own conditions; negated ones first.
    #[inline]
    fn roles<'py>(&self, py: Python<'py>, plan: &Plan, slots: &[usize], event: &Held) -> PyResult<Vec<Role<'py>>> {
        let mut roles = Vec::with_capacity(slots.len());
        for slot in slots {
            match self.role_or_fail(py, plan, &plan.components[*slot], event)? {
                Some(Some(role)) => roles.push(role),
                Some(None) => {}
                None => return Ok(Vec::new()),
            }
        }
        Ok(roles)
    }

    /// The role of an event as a component, if it fits; None, and a failure is noted, if no key can be made of it.
    #[inline]
    fn role_or_fail<'py>(
        &self,
        py: Python<'py>,
        plan: &Plan,
        component: &Component,
        event: &Held,
    ) -> PyResult<Option<Option<Role<'py>>>> {
        match self.role(py, plan, component, event) {
            Ok(role) => Ok(Some(role)),
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                let reason = format!("no key can be made of it: {}", error.value(py));
                self.fail.bind(py).call1((event.event(py)?, reason))?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn role<'py>(&self, py: Python<'py>, plan: &Plan, component: &Component, event: &Held) -> PyResult<Option<Role<'py>>> {
        let (mut key, mut partition) = (None, None);
        if let Some(fields) = &component.key {
            let lenient = plan.steps.len() == 1 && component.negation.is_none();
            key = Key::of(py, event, fields, lenient)?;
            let Some(found) = &key else { return Ok(None) };
            partition = self.partitions.find(found)?; // raises if it cannot be hashed
        }
        let mut values = Box::<[Value]>::default();
        if !component.fields.is_empty() {
            values = component.fields.iter().map(|field| event.value(py, field)).collect::<PyResult<_>>()?;
        }
        for number in &component.filters {
            let alone = |_| {
                let event = event.event(py)?;
                if component.kleene { Ok(PyTuple::new(py, [event])?.into_any()) } else { Ok(event) }
            };
            if !plan.conditions[*number].holds(py, |_| 1, |_, at, _| values[at].clone(), alone)? {
                return Ok(None);
            }
        }
        Ok(Some(Role { slot: component.slot, key, partition, values }))
    }

    #[inline]
    fn insert<'py>(&mut self, py: Python<'py>, plan: &Plan, ts: i64, event: Held, role: Role<'py>) -> PyResult<()> {
        let component = &plan.components[role.slot];
        let instance = Instance { ts, rip: 0, event, values: role.values };
        self.held += 1;
        let Some(key) = role.key else {
            for reached in self.partitions.numbers() {
                self.rule_out(py, plan, component, reached, &instance, false)?;
            }
            self.common[component.negation.unwrap_or_default()].add(instance);
            return Ok(());
        };
        let number = match role.partition {
            Some(number) => number,
            None => self.partitions.find_or_make(key)?,
        };
        if component.negation.is_some() {
            self.rule_out(py, plan, component, number, &instance, false)?;
        }
        let partition = self.partitions.get_mut(number).expect("it was just found");
        if let Some(negation) = component.negation {
            let stack = partition.negated_mut(negation);
            stack.add(instance);
            self.held -= stack.purge(self.purged);
            return Ok(());
        }
        let (place, is_last) = (component.place, component.place + 1 == plan.steps.len());
        // AIS-CLOCK: what is not late completes matches only as their last event; here by the clock of last events
        let searches = is_last || (!self.in_order && ts < partition.newest_end());
        self.held -= partition.positive_mut(place).purge(self.purged);
        let at = if self.in_order { partition.append(place, instance) } else { partition.add(place, instance) };
        if plan.trails && place == 0 {
            self.due.push(Reverse((ts, number)));
        }
        if searches {
            self.change(py, plan, number, place, at, true)?;
        }
        Ok(())
    }

    fn retract<'py>(
        &mut self,
        py: Python<'py>,
        plan: &Plan,
        ts: i64,
        event: &Bound<'py, PyAny>,
        role: Role<'py>,
    ) -> PyResult<()> {
        let component = &plan.components[role.slot];
        let number = role.key.as_ref().map(|key| self.partitions.find(key)).transpose()?.flatten();
        let Some(negation) = component.negation else {
            let Some(number) = number else { return Ok(()) };
            let Some(partition) = self.partitions.get(number) else { return Ok(()) };
            let Some(at) = partition.positive(component.place).place(ts, event)? else { return Ok(()) };
            self.change(py, plan, number, component.place, at, false)?;
            if let Some(partition) = self.partitions.get_mut(number) {
                partition.remove(component.place, at);
                self.held -= 1;
            }
            return Ok(());
        };
        let stack = match (&role.key, number) {
            (None, _) => &mut self.common[negation],
            (Some(_), Some(number)) => match self.partitions.get_mut(number) {
                Some(partition) => partition.negated_mut(negation),
                None => return Ok(()),
            },
            (Some(_), None) => return Ok(()),
        };
        let Some(at) = stack.place(ts, event)? else { return Ok(()) };
        let Some(instance) = stack.take(at) else { return Ok(()) };
        self.held -= 1;
        for reached in self.reached(role.key.as_ref())? {
            self.rule_out(py, plan, component, reached, &instance, true)?;
        }
        Ok(())
    }

    /// The partitions in which a negative may rule matches out.
    fn reached(&self, key: Option<&Key<'_>>) -> PyResult<Vec<usize>> {
        match key {
            None => Ok(self.partitions.numbers()),
            Some(key) => Ok(self.partitions.find(key)?.into_iter().collect()),
        }
    }

    /// Make (or withdraw) the matches that hold an instance and stand.
    fn change(&mut self, py: Python<'_>, plan: &Plan, number: usize, place: usize, at: usize, make: bool) -> PyResult<()> {
        let Some(partition) = self.partitions.get(number).filter(|each| !each.lacks_a_step()) else { return Ok(()) };
        let view = View { py, plan, partition, common: &self.common };
        let search = Search::new(py, plan, partition, Some((place, at)), self.scratch.take().unwrap_or_default());
        let (standing, scratch) = view.standing(search, self.emitted)?;
        for found in standing {
            self.changes.note(&view, &found, make)?;
        }
        self.scratch = Some(scratch);
        Ok(())
    }

    /// Withdraw (or make) the matches that a negative rules out and nothing else does; it is on no stack.
    fn rule_out(
        &mut self,
        py: Python<'_>,
        plan: &Plan,
        component: &Component,
        number: usize,
        negative: &Instance,
        make: bool,
    ) -> PyResult<()> {
        let Some(partition) = self.partitions.get(number).filter(|each| !each.lacks_a_step()) else { return Ok(()) };
        let view = View { py, plan, partition, common: &self.common };
        let (ts, last) = (negative.ts, plan.steps.len() - 1);
        if component.place <= last && ts >= partition.newest_end() {
            return Ok(()); // no last event is later, so no match reaches across it
        }
        let mut search = Search::new(py, plan, partition, None, self.scratch.take().unwrap_or_default());
        for place in 0..=last {
            search.floors()[place] = if place >= component.place { ts + 1 } else { ts.saturating_sub(plan.within) };
        }
        search.ceilings()[last] = ts.saturating_add(plan.within);
        if let Some(before) = component.place.checked_sub(1) {
            search.ceilings()[before] = ts - 1;
        }
        let (standing, scratch) = view.standing(search, self.emitted)?;
        self.scratch = Some(scratch);
        for found in standing {
            if view.rules_out(component, negative, &found)? {
                self.changes.note(&view, &found, make)?;
            }
        }
        Ok(())
    }

    /// Make the matches whose window has passed by now: nothing that has come rules them out.
    fn complete(&mut self, py: Python<'_>, plan: &Plan, emitted: i64) -> PyResult<()> {
        let before = self.emitted.saturating_sub(plan.within);
        let until = emitted.saturating_sub(plan.within);
        self.emitted = emitted;
        let mut previous = None;
        while let Some(Reverse((ts, number))) = self.due.peek().copied()
            && ts <= until
        {
            self.due.pop();
            let is_done = ts <= before || previous == Some((ts, number));
            previous = Some((ts, number));
            let Some(partition) = self.partitions.get(number).filter(|_| !is_done) else { continue };
            let view = View { py, plan, partition, common: &self.common };
            let mut search = Search::new(py, plan, partition, None, self.scratch.take().unwrap_or_default());
            search.floors().fill(ts);
            if !plan.step(0).kleene {
                search.ceilings()[0] = ts;
            }
            let (standing, scratch) = view.standing(search, emitted)?;
            self.scratch = Some(scratch);
            for found in standing {
                if found.ends(plan, partition, 0).0.ts == ts {
                    self.changes.note(&view, &found, true)?;
                }
            }
        }
        Ok(())
    }

    fn purge(&mut self, py: Python<'_>, upto: i64) -> PyResult<()> {
        self.held -= self.partitions.purge(py, upto)?;
        self.held -= self.common.iter_mut().map(|stack| stack.purge(upto)).sum::<usize>();
        Ok(())
    }
}

/// The net change of one step, by identity.
#[derive(Default)]
struct Changes {
    made: Rows,
    withdrawn: Rows,
    encoder: Encoder,
    /// Whether results are wanted as rows of their fields, and new ones as columns.
    in_rows: bool,
    in_columns: bool,
    /// New ones as columns, while that is all there is.
    cells: Cells,
}

impl Changes {
    fn clear(&mut self) {
        self.made.clear();
        self.withdrawn.clear();
        self.cells.clear();
    }

    fn note(&mut self, view: &View<'_, '_>, found: &Found, make: bool) -> PyResult<()> {
        let identity = view.identity(found, &mut self.encoder)?;
        if make
            && self.in_columns
            && let Some(cells) = view.cells(found)?
        {
            self.cells.add(identity, view.ts(found), cells);
        } else if self.cells.remove(identity) {
            // it was made in this step
        } else if make {
            self.made.set(identity, view.result(found, identity, self.in_rows)?);
        } else if !self.made.remove(identity) {
            self.withdrawn.set(identity, view.result(found, identity, self.in_rows)?);
        }
        Ok(())
    }

    /// Rows of new matches and of withdrawn ones, and columns of new ones.
    fn columns<'py>(&mut self, py: Python<'py>) -> PyResult<Columns<'py>> {
        let (made, withdrawn) = self.rows(py)?;
        let columns = if self.cells.is_empty() { None } else { Some(self.cells.columns(py)?) };
        Ok((made, withdrawn, columns))
    }

    fn rows<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        Ok((self.made.list(py)?, self.withdrawn.list(py)?))
    }
}
