//! The negations of a pattern: which matches of a partition they rule out.

use super::pattern::{Component, Pattern};
use super::stack::{Instance, Partition, Stack};

/// Says which conditions hold for instances, and knows where their events lie.
pub trait Judge {
    type Failure: From<TooLarge>;

    /// Whether a condition holds, given how many instances a component has, and its instance of a number, from 0.
    fn holds(
        &self,
        condition: usize,
        count: impl Fn(usize) -> usize,
        instance: impl Fn(usize, usize) -> Instance,
    ) -> Result<bool, Self::Failure>;

    /// One more row of a block is held.
    fn hold(&mut self, block: u32);

    /// One row less is held.
    fn release(&mut self, block: u32);
}

/// A Kleene group is too large to be searched.
#[derive(Debug)]
pub struct TooLarge;

/// A partition, with all that decides which of its matches no negation rules out.
pub struct View<'a, J> {
    pub judge: &'a J,
    pub pattern: &'a Pattern,
    pub partition: &'a Partition,
    pub common: &'a [Stack],
}

/// Where the instances of a match lie on the stacks, by place; those of Kleene steps, oldest first, apart.
#[derive(Default)]
pub struct Bound {
    pub single: Vec<usize>,
    pub groups: Vec<Vec<usize>>,
}

impl Bound {
    pub fn clear(&mut self, pattern: &Pattern) {
        self.single.clear();
        self.single.resize(pattern.steps.len(), 0);
        if pattern.has_groups {
            self.groups.clear();
            self.groups.resize(pattern.steps.len(), Vec::new());
        }
    }

    /// How many events a positive component has.
    #[inline]
    fn count(&self, component: &Component) -> usize {
        if component.kleene { self.groups[component.place].len() } else { 1 }
    }
}

impl<J: Judge> View<'_, J> {
    /// The instances of a place, oldest first.
    pub fn instances(&self, bound: &Bound, place: usize) -> impl Iterator<Item = Instance> {
        let items = self.partition.positive(place).items();
        let group = if self.pattern.step(place).kleene { &bound.groups[place][..] } else { &bound.single[place..=place] };
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
            Some([oldest, .., newest]) if self.pattern.step(place).kleene => (items[*oldest].ts, items[*newest].ts),
            Some([only]) if self.pattern.step(place).kleene => (items[*only].ts, items[*only].ts),
            _ => (items[bound.single[place]].ts, items[bound.single[place]].ts),
        }
    }

    /// Whether conditions hold for what is bound, and for a negative if they read it.
    #[inline]
    pub fn hold(
        &self,
        conditions: &[usize],
        bound: &Bound,
        negative: Option<(&Component, Instance)>,
    ) -> Result<bool, J::Failure> {
        let components = &self.pattern.components;
        let of_negative = |slot: usize| negative.filter(|(component, _)| component.slot == slot);
        for number in conditions {
            let count = |slot: usize| if of_negative(slot).is_some() { 1 } else { bound.count(&components[slot]) };
            let instance = |slot: usize, number: usize| {
                of_negative(slot).map_or_else(|| self.instance(bound, &components[slot], number), |(_, each)| each)
            };
            if !self.judge.holds(*number, count, instance)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether some negative rules a match out.
    pub fn is_ruled_out(&self, bound: &Bound) -> Result<bool, J::Failure> {
        for (negation, slot) in self.pattern.negations.iter().enumerate() {
            let component = &self.pattern.components[*slot];
            let stack = if component.is_keyed { self.partition.negated(negation) } else { &self.common[negation] };
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
        let last = self.pattern.steps.len() - 1;
        let low = match place.checked_sub(1) {
            Some(before) => ends(before).1 + 1,
            None => ends(last).1.saturating_sub(self.pattern.within),
        };
        let high = if place <= last { ends(place).0 - 1 } else { ends(0).0.saturating_add(self.pattern.within) };
        (low, high)
    }

    /// When the result of a match happens.
    pub fn ts(&self, bound: &Bound) -> i64 {
        if self.pattern.trails {
            return self.ends(bound, 0).0.saturating_add(self.pattern.within);
        }
        self.ends(bound, self.pattern.steps.len() - 1).1
    }
}
