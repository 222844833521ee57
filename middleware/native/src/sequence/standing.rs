//! Which matches of a partition stand: what negatives rule out.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::block::Blocks;
use super::plan::{Component, Plan};
use super::stack::{Instance, Partition, Stack};

/// A partition, with all that says which of its matches stand.
#[derive(Clone, Copy)]
pub struct View<'a, 'py> {
    pub py: Python<'py>,
    pub plan: &'a Plan,
    pub partition: &'a Partition,
    pub common: &'a [Stack],
    pub blocks: &'a Blocks,
}

/// Where the instances of a match lie on the stacks, by place; those of Kleene steps, oldest first, apart.
#[derive(Default)]
pub struct Bound {
    pub single: Vec<usize>,
    pub groups: Vec<Vec<usize>>,
}

impl Bound {
    pub fn clear(&mut self, plan: &Plan) {
        self.single.clear();
        self.single.resize(plan.steps.len(), 0);
        if plan.has_groups {
            self.groups.clear();
            self.groups.resize(plan.steps.len(), Vec::new());
        }
    }

    /// How many events a positive component has.
    #[inline]
    fn count(&self, component: &Component) -> usize {
        if component.kleene { self.groups[component.place].len() } else { 1 }
    }
}

impl<'py> View<'_, 'py> {
    /// The instances of a place, oldest first.
    pub fn instances(&self, bound: &Bound, place: usize) -> impl Iterator<Item = Instance> {
        let items = self.partition.positive(place).items();
        let group = if self.plan.step(place).kleene { &bound.groups[place][..] } else { &bound.single[place..=place] };
        group.iter().map(|at| items[*at])
    }

    /// An instance of a positive component: of a Kleene step the one of that number, from 0, oldest first.
    #[inline]
    fn instance(&self, bound: &Bound, component: &Component, number: usize) -> Instance {
        let place = component.place;
        self.partition.positive(place).items()[if component.kleene { bound.groups[place][number] } else { bound.single[place] }]
    }

    /// The oldest and the newest time of a place.
    pub fn ends(&self, bound: &Bound, place: usize) -> (i64, i64) {
        let items = self.partition.positive(place).items();
        match bound.groups.get(place).map(Vec::as_slice) {
            Some([oldest, .., newest]) if self.plan.step(place).kleene => (items[*oldest].ts, items[*newest].ts),
            Some([only]) if self.plan.step(place).kleene => (items[*only].ts, items[*only].ts),
            _ => (items[bound.single[place]].ts, items[bound.single[place]].ts),
        }
    }

    /// What Python sees of a positive component: the event, or the tuple of events of a Kleene step.
    fn part(&self, bound: &Bound, component: &Component) -> PyResult<pyo3::Bound<'py, PyAny>> {
        if !component.kleene {
            return self.blocks.event(self.py, self.instance(bound, component, 0));
        }
        let events = self.instances(bound, component.place).map(|each| self.blocks.event(self.py, each));
        Ok(PyTuple::new(self.py, events.collect::<PyResult<Vec<_>>>()?)?.into_any())
    }

    /// Whether conditions hold for what is bound, and for a negative if they read it.
    #[inline]
    pub fn hold(&self, conditions: &[usize], bound: &Bound, negative: Option<(&Component, Instance)>) -> PyResult<bool> {
        let plan = self.plan;
        let of_negative = |slot: usize| negative.filter(|(component, _)| component.slot == slot);
        for number in conditions {
            let value = |slot: usize, at: usize, number: usize| {
                let component = &plan.components[slot];
                let instance = of_negative(slot).map_or_else(|| self.instance(bound, component, number), |(_, each)| each);
                self.blocks.value(instance, component, at)
            };
            let part = |slot: usize| match of_negative(slot) {
                Some((_, instance)) => self.blocks.event(self.py, instance),
                None => self.part(bound, &plan.components[slot]),
            };
            let count = |slot: usize| bound.count(&plan.components[slot]);
            if !plan.conditions[*number].holds(self.py, count, value, part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether some negative rules a match out.
    pub fn is_ruled_out(&self, bound: &Bound) -> PyResult<bool> {
        for (negation, slot) in self.plan.negations.iter().enumerate() {
            let component = &self.plan.components[*slot];
            let stack = if component.key.is_none() { &self.common[negation] } else { self.partition.negated(negation) };
            if stack.is_empty() {
                continue;
            }
            let (low, high) = self.range(component.place, bound);
            for at in stack.below(low)..stack.up_to(high) {
                if self.hold(&component.conditions, bound, Some((component, stack.items()[at])))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The first and the last time at which a negative before `place` rules a match out.
    fn range(&self, place: usize, bound: &Bound) -> (i64, i64) {
        let ends = |place| self.ends(bound, place);
        let last = self.plan.steps.len() - 1;
        let low = match place.checked_sub(1) {
            Some(before) => ends(before).1 + 1,
            None => ends(last).1.saturating_sub(self.plan.within),
        };
        let high = if place <= last { ends(place).0 - 1 } else { ends(0).0.saturating_add(self.plan.within) };
        (low, high)
    }

    /// When the result of a match happens.
    pub fn ts(&self, bound: &Bound) -> i64 {
        if self.plan.trails {
            return self.ends(bound, 0).0.saturating_add(self.plan.within);
        }
        self.ends(bound, self.plan.steps.len() - 1).1
    }
}
