//! Construction of matches: a depth-first search down the RIP pointers, from the last step to the first.

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::plan::{Plan, Schedule};
use super::stack::{Instance, Partition};

/// Where the instances of a match lie on the stacks, by place; those of Kleene steps, oldest first, apart.
#[derive(Clone, Default)]
pub struct Found {
    pub bound: Vec<usize>,
    pub groups: Vec<Vec<usize>>,
}

impl Found {
    fn clear(&mut self, plan: &Plan) {
        self.bound.clear();
        self.bound.resize(plan.steps.len(), 0);
        if plan.has_groups {
            self.groups.clear();
            self.groups.resize(plan.steps.len(), Vec::new());
        }
    }

    /// The oldest and the newest instance of a place.
    pub fn ends<'a>(&self, plan: &Plan, partition: &'a Partition, place: usize) -> (&'a Instance, &'a Instance) {
        let items = &partition.positive(place).items;
        match self.groups.get(place).map(Vec::as_slice) {
            Some([oldest, .., newest]) if plan.step(place).kleene => (&items[*oldest], &items[*newest]),
            Some([only]) if plan.step(place).kleene => (&items[*only], &items[*only]),
            _ => (&items[self.bound[place]], &items[self.bound[place]]),
        }
    }

    /// What Python sees of a place: the event, or the tuple of events of a Kleene step.
    pub fn part<'py>(&self, py: Python<'py>, plan: &Plan, partition: &Partition, place: usize) -> PyResult<Bound<'py, PyAny>> {
        let items = &partition.positive(place).items;
        if !plan.step(place).kleene {
            return items[self.bound[place]].event.event(py);
        }
        let group = self.groups[place].iter().map(|at| items[*at].event.event(py)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(py, group)?.into_any())
    }

    /// An instance of a positive component: of a Kleene step the one of that number, from 0, oldest first.
    #[inline]
    pub fn instance<'a>(&self, plan: &Plan, partition: &'a Partition, slot: usize, number: usize) -> &'a Instance {
        let component = &plan.components[slot];
        let at = if component.kleene { self.groups[component.place][number] } else { self.bound[component.place] };
        &partition.positive(component.place).items[at]
    }

    /// How many events a positive component has.
    #[inline]
    pub fn count(&self, plan: &Plan, slot: usize) -> usize {
        let component = &plan.components[slot];
        if component.kleene { self.groups[component.place].len() } else { 1 }
    }
}

/// The search goes one call deeper for each event of a Kleene group; beyond this it is given up.
const LARGEST: usize = 2_000;

/// What searches need room for, kept from one to the next.
#[derive(Default)]
pub struct Scratch {
    floors: Vec<i64>,
    ceilings: Vec<i64>,
    now: Found,
    found: Vec<Found>,
}

/// One search for matches in a partition.
pub struct Search<'a, 'py> {
    py: Python<'py>,
    plan: &'a Plan,
    partition: &'a Partition,
    schedule: &'a Schedule,
    /// The place, and the instance on its stack, that a match must hold.
    given: Option<(usize, usize)>,
    scratch: Box<Scratch>,
    low: i64,
}

impl<'a, 'py> Search<'a, 'py> {
    pub fn new(
        py: Python<'py>,
        plan: &'a Plan,
        partition: &'a Partition,
        given: Option<(usize, usize)>,
        mut scratch: Box<Scratch>,
    ) -> Self {
        let count = plan.steps.len();
        scratch.now.clear(plan);
        scratch.found.clear();
        scratch.floors.clear();
        scratch.ceilings.clear();
        scratch.ceilings.resize(count, i64::MAX);
        if let Some((given, at)) = given {
            let ts = partition.positive(given).items[at].ts;
            let before = ts.saturating_sub(plan.within);
            scratch.floors.extend((0..count).map(|place| if place > given { ts + 1 } else { before }));
            scratch.ceilings[count - 1] = ts.saturating_add(plan.within);
            scratch.now.bound[given] = at;
        } else {
            scratch.floors.resize(count, i64::MIN);
        }
        let schedule = &plan.schedules[given.map_or(count, |(place, _)| place)];
        Self { py, plan, partition, schedule, given, scratch, low: i64::MIN }
    }

    /// The first time that events of each place may have.
    pub fn floors(&mut self) -> &mut [i64] {
        &mut self.scratch.floors
    }

    /// The last time that events of each place may have.
    pub fn ceilings(&mut self) -> &mut [i64] {
        &mut self.scratch.ceilings
    }

    /// The matches, and the room that the search took.
    pub fn run(mut self) -> PyResult<(Vec<Found>, Box<Scratch>)> {
        let last = self.plan.steps.len();
        self.grow(last, self.partition.positive(last - 1).items.len())?;
        let found = std::mem::take(&mut self.scratch.found);
        Ok((found, self.scratch))
    }

    /// Bind the place before `places` to each of the first `end` instances of its stack that fits, and go on below.
    fn grow(&mut self, places: usize, end: usize) -> PyResult<()> {
        let Some(place) = places.checked_sub(1) else {
            let found = self.scratch.now.clone();
            self.scratch.found.push(found);
            return Ok(());
        };
        if self.plan.step(place).kleene {
            return self.grow_group(place, end);
        }
        if let Some((given, at)) = self.given
            && given == place
        {
            return if at < end { self.bind(place, at) } else { Ok(()) };
        }
        let stack = self.partition.positive(place);
        let low = if self.is_last(place) { self.scratch.floors[place] } else { self.scratch.floors[place].max(self.low) };
        for at in (0..end.min(stack.up_to(self.scratch.ceilings[place]))).rev() {
            if stack.items[at].ts < low {
                break;
            }
            self.bind(place, at)?;
        }
        Ok(())
    }

    fn bind(&mut self, place: usize, at: usize) -> PyResult<()> {
        self.scratch.now.bound[place] = at;
        if self.is_last(place) {
            self.low = self.partition.positive(place).items[at].ts.saturating_sub(self.plan.within);
        }
        if self.hold(&self.schedule.at[place])? {
            self.grow(place, self.below(place, at))?;
        }
        Ok(())
    }

    fn is_last(&self, place: usize) -> bool {
        place + 1 == self.plan.steps.len()
    }

    /// How many instances of the stack below are earlier: where the RIP points.
    fn below(&self, place: usize, at: usize) -> usize {
        match place.checked_sub(1) {
            Some(previous) => {
                let rip = self.partition.positive(place).items[at].rip;
                rip.saturating_sub(self.partition.positive(previous).purged)
            }
            None => 0,
        }
    }

    fn hold(&self, conditions: &[usize]) -> PyResult<bool> {
        let (plan, partition) = (self.plan, self.partition);
        for number in conditions {
            let now = &self.scratch.now;
            let value = |slot, at: usize, number| now.instance(plan, partition, slot, number).values[at].clone();
            let part = |slot: usize| now.part(self.py, plan, partition, plan.components[slot].place);
            if !plan.conditions[*number].holds(self.py, |slot| now.count(plan, slot), value, part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Put each fitting instance before those of a group so far; with each group go on below, and let it grow further.
    fn grow_group(&mut self, place: usize, end: usize) -> PyResult<()> {
        let stack = self.partition.positive(place);
        let group = self.scratch.now.groups[place].clone();
        if group.len() > LARGEST {
            return Err(PyRecursionError::new_err("a Kleene group is too large to be searched"));
        }
        let begins = self.is_last(place) && group.is_empty();
        let must = self.given.filter(|(given, at)| *given == place && !group.contains(at)).map(|(_, at)| at);
        for at in (0..end.min(stack.up_to(self.scratch.ceilings[place]))).rev() {
            let ts = stack.items[at].ts;
            let low = if begins { self.scratch.floors[place] } else { self.scratch.floors[place].max(self.low) };
            if ts < low || must.is_some_and(|must| ts < stack.items[must].ts) {
                break;
            }
            if begins {
                self.low = ts.saturating_sub(self.plan.within);
            }
            self.scratch.now.groups[place] = std::iter::once(at).chain(group.first().copied()).collect();
            if self.hold(&self.schedule.stepwise[place])? {
                self.scratch.now.groups[place] = std::iter::once(at).chain(group.iter().copied()).collect();
                if must.is_none_or(|must| must == at) && self.hold(&self.schedule.at[place])? {
                    self.grow(place, self.below(place, at))?;
                }
                self.grow_group(place, stack.below(ts))?;
            }
        }
        self.scratch.now.groups[place] = group;
        Ok(())
    }
}
