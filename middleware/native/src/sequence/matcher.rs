//! Skip-till-any-match over changes that come in any order: the twin of `detectors.sequence.strategies.matcher.Matcher`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::arriving::{Arrived, Arriving};
use super::block::{Block, Blocks, Columns};
use super::changes::{Changes, Results};
use super::partitions::Partitions;
use super::plan::{Component, Plan};
use super::search::{Scratch, Search, Wanted};
use super::stack::{Partition, Stack};
use super::standing::View;
use crate::block::python::event_batch::EventBatch;
use crate::event::python::fields::Stamps;

/// The state of a query with strategy skip-till-any-match.
///
/// In a step, what is withdrawn comes first; then come negatives, and then the events of each step of the pattern, one after the
/// other. So of what comes in one step, whatever its order, no match is made that something else of the step would rule out.
#[pyclass(module = "middleware.native")]
pub struct SequenceMatcher {
    plan: Arc<Plan>,
    partitions: Partitions<Partition>,
    /// Negatives that belong to all partitions, by negated component.
    common: Vec<Stack>,
    blocks: Blocks,
    /// The first events of matches that wait for their window to pass: time and partition.
    due: BinaryHeap<Reverse<(i64, usize)>>,
    emitted: i64,
    /// What is outdated lies on the stacks until time has passed this, and is swept away then: once a window.
    swept: i64,
    held: usize,
    fail: Py<PyAny>,
    /// Whether input is taken to come in order: the baseline of the overhead of disorder, wrong if it does not.
    #[cfg(feature = "baselines")]
    in_order: bool,
    arriving: Arriving,
    changes: Changes,
    scratch: Scratch,
}

#[pymethods]
impl SequenceMatcher {
    #[new]
    fn new(plan: &Bound<'_, PyAny>, fail: Py<PyAny>) -> PyResult<Self> {
        let parsed = Plan::parse(plan)?;
        let (steps, negations) = (parsed.steps.len(), parsed.negations.len());
        Ok(Self {
            partitions: Partitions::new(plan.py(), move || Partition::new(steps, negations)),
            common: std::iter::repeat_with(Stack::default).take(negations).collect(),
            blocks: Blocks::default(),
            due: BinaryHeap::new(),
            emitted: i64::MIN / 2,
            swept: i64::MIN / 2,
            held: 0,
            fail,
            #[cfg(feature = "baselines")]
            in_order: false,
            arriving: Arriving::new(steps + negations),
            changes: Changes::default(),
            scratch: Scratch::default(),
            plan: Arc::new(parsed),
        })
    }

    /// The same without all that disorder asks for.
    #[cfg(feature = "baselines")]
    #[staticmethod]
    fn in_order(plan: &Bound<'_, PyAny>, fail: Py<PyAny>) -> PyResult<Self> {
        Ok(Self { in_order: true, ..Self::new(plan, fail)? })
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
        let block = self.blocks.open_events();
        for event in inserts {
            self.arriving.event(&plan, &mut self.partitions, &mut self.blocks, block, &event, self.fail.bind(py))?;
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
            let block = self.blocks.open(Block::Columns(Box::new(columns)));
            for slot in roles {
                let component = &plan.components[*slot];
                self.arriving.columns(py, &plan, &mut self.partitions, &self.blocks, component, block, &times)?;
            }
            self.arriving.thin(py, &mut self.blocks, roles, block)?;
        }
        self.step(py, &plan, emitted, r#final, true).map(Some)
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
        let held = stacks.flat_map(Stack::items).map(|each| self.blocks.event(py, *each)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, held)
    }

    fn check(&self) {
        let stacks: Vec<_> = self.partitions.iter().flat_map(|each| each.stacks()).chain(&self.common).collect();
        stacks.iter().for_each(|stack| stack.check());
        assert_eq!(self.held, stacks.iter().map(|stack| stack.items().len()).sum::<usize>(), "held is off");
        self.blocks.check(self.held);
    }
}

impl SequenceMatcher {
    /// Begin a step: withdraw events.
    fn take_back(&mut self, py: Python<'_>, plan: &Plan, retracts: &Bound<'_, PyList>) -> PyResult<()> {
        self.changes.clear();
        self.arriving.clear();
        for event in retracts {
            let ts = Stamps::get(py)?.ts(&event)?;
            for (slot, number) in self.arriving.places(plan, &self.partitions, &event, self.fail.bind(py))? {
                self.retract(py, plan, ts, &event, &plan.components[slot], number)?;
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
        for slot in plan.negations.iter().chain(&plan.steps) {
            let (component, arrived) = (&plan.components[*slot], self.arriving.take(*slot));
            for each in &arrived {
                if component.negation.is_some() {
                    self.insert_negative(py, plan, component, *each)?;
                } else {
                    self.insert(py, plan, component, *each)?;
                }
            }
            self.held += arrived.len();
            self.arriving.give_back(*slot, arrived);
        }
        if plan.trails {
            self.complete(py, plan, emitted)?;
        }
        self.emitted = emitted;
        let results = self.changes.results(py, plan, &self.blocks, as_columns)?;
        let outdated = r#final.saturating_sub(plan.reach);
        if outdated > self.swept {
            self.purge(py, outdated)?;
            self.swept = outdated.saturating_add(plan.within);
        }
        self.blocks.sweep();
        Ok(results)
    }

    #[inline]
    fn insert(&mut self, py: Python<'_>, plan: &Plan, component: &Component, arrived: Arrived) -> PyResult<()> {
        let Arrived { instance, partition: Some(number) } = arrived else { return Ok(()) };
        let number = number as usize;
        let partition = self.partitions.get_mut(number).expect("it was just found");
        let place = component.place;
        #[cfg(feature = "baselines")]
        let is_in_order = self.in_order;
        #[cfg(not(feature = "baselines"))]
        let is_in_order = false;
        // AIS-CLOCK: what is not late completes matches only as their last event; here by the clock of last events
        let searches = place + 1 == plan.steps.len() || (!is_in_order && instance.ts < partition.newest_end());
        let stack = partition.positive_mut(place);
        self.blocks.hold(instance.block);
        let at = if is_in_order { stack.append(instance) } else { stack.add(instance) };
        if plan.trails && place == 0 {
            self.due.push(Reverse((instance.ts, number)));
        }
        if searches {
            self.search(py, plan, number, Wanted { given: Some((place, at)), ..Wanted::default() }, true)
        } else {
            Ok(())
        }
    }

    fn insert_negative(&mut self, py: Python<'_>, plan: &Plan, component: &Component, arrived: Arrived) -> PyResult<()> {
        let (negation, instance) = (component.negation.unwrap_or_default(), arrived.instance);
        self.blocks.hold(instance.block);
        let wanted = Wanted { negative: Some((component, instance)), ..Wanted::default() };
        let Some(number) = arrived.partition else {
            for reached in self.partitions.numbers() {
                self.search(py, plan, reached, wanted, false)?;
            }
            self.common[negation].add(instance);
            return Ok(());
        };
        self.search(py, plan, number as usize, wanted, false)?;
        self.partitions.get_mut(number as usize).expect("it was just found").negated_mut(negation).add(instance);
        Ok(())
    }

    /// Take back an event in one of its roles; `number`: its partition, None if it belongs to all.
    fn retract(
        &mut self,
        py: Python<'_>,
        plan: &Plan,
        ts: i64,
        event: &Bound<'_, PyAny>,
        component: &Component,
        number: Option<u32>,
    ) -> PyResult<()> {
        let Some(negation) = component.negation else {
            let number = number.map_or(0, |number| number as usize);
            let Some(partition) = self.partitions.get(number) else { return Ok(()) };
            let Some(at) = partition.positive(component.place).place(ts, |each| self.blocks.is(each, event))? else {
                return Ok(());
            };
            self.search(py, plan, number, Wanted { given: Some((component.place, at)), ..Wanted::default() }, false)?;
            let stack = self.partitions.get_mut(number).expect("it is there").positive_mut(component.place);
            self.blocks.release(stack.take(at).block);
            self.held -= 1;
            return Ok(());
        };
        let stack = match number {
            None => &mut self.common[negation],
            Some(number) => match self.partitions.get_mut(number as usize) {
                Some(partition) => partition.negated_mut(negation),
                None => return Ok(()),
            },
        };
        let Some(at) = stack.place(ts, |each| self.blocks.is(each, event))? else { return Ok(()) };
        let instance = stack.take(at);
        self.blocks.release(instance.block);
        self.held -= 1;
        for reached in number.map_or_else(|| self.partitions.numbers(), |number| vec![number as usize]) {
            self.search(py, plan, reached, Wanted { negative: Some((component, instance)), ..Wanted::default() }, true)?;
        }
        Ok(())
    }

    /// Make (or withdraw) the matches of a partition that are wanted and stand.
    #[inline]
    fn search(&mut self, py: Python<'_>, plan: &Plan, number: usize, wanted: Wanted<'_>, makes: bool) -> PyResult<()> {
        let Some(partition) = self.partitions.get(number).filter(|each| !each.lacks_a_step()) else { return Ok(()) };
        if let Some((component, negative)) = wanted.negative
            && component.place < plan.steps.len()
            && negative.ts >= partition.newest_end()
        {
            return Ok(()); // no last event is later, so no match reaches across it
        }
        let view = View { py, plan, partition, common: &self.common, blocks: &self.blocks };
        Search::new(view, wanted, self.emitted, &mut self.scratch, &mut self.changes, makes).run()
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
            if ts > before && previous != Some((ts, number)) {
                self.search(py, plan, number, Wanted { first: Some(ts), ..Wanted::default() }, true)?;
            }
            previous = Some((ts, number));
        }
        Ok(())
    }

    fn purge(&mut self, py: Python<'_>, upto: i64) -> PyResult<()> {
        self.held -= self.partitions.purge(py, upto, &mut self.blocks)?;
        self.held -=
            self.common.iter_mut().map(|stack| stack.purge(upto, |each| self.blocks.release(each.block))).sum::<usize>();
        Ok(())
    }
}
