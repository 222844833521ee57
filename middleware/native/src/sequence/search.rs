//! Construction of matches: a depth-first search down the stacks, from the last step to the first.

use super::changes::Changes;
use super::negation::{Bound, Judge, TooLarge, View};
use super::pattern::{Component, Schedule};
use super::stack::Instance;

/// The search goes one call deeper for each event of a Kleene group; beyond this depth the search stops.
const LARGEST: usize = 2_000;

/// The buffers of searches, kept from one search to the next.
#[derive(Default)]
pub struct Scratch {
    floors: Vec<i64>,
    ceilings: Vec<i64>,
    bound: Bound,
}

/// The matches that a search looks for, of those that no negation rules out.
#[derive(Clone, Copy, Default)]
pub struct SearchScope<'a> {
    /// The place, and the instance on its stack, that a match must hold.
    pub given: Option<(usize, usize)>,
    /// The time of the first event.
    pub first: Option<i64>,
    /// The negative event that must rule the match out; it is on no stack.
    pub negative: Option<(&'a Component, Instance)>,
}

/// One search for matches in a partition, which notes them as made or withdrawn.
pub struct Search<'a, J> {
    view: View<'a, J>,
    scope: SearchScope<'a>,
    schedule: &'a Schedule,
    scratch: &'a mut Scratch,
    changes: &'a mut Changes,
    makes: bool,
    /// The latest time of a first event whose match is complete.
    complete: i64,
    low: i64,
}

impl<'a, J: Judge> Search<'a, J> {
    /// `emitted`: how far time has come.
    pub fn new(
        view: View<'a, J>,
        scope: SearchScope<'a>,
        emitted: i64,
        scratch: &'a mut Scratch,
        changes: &'a mut Changes,
        makes: bool,
    ) -> Self {
        let (pattern, count) = (view.pattern, view.pattern.steps.len());
        scratch.bound.clear(pattern);
        scratch.floors.clear();
        scratch.floors.resize(count, scope.first.unwrap_or(i64::MIN));
        scratch.ceilings.clear();
        scratch.ceilings.resize(count, i64::MAX);
        if let Some((given, at)) = scope.given {
            let ts = view.partition.positive(given).items()[at].ts;
            for (place, floor) in scratch.floors.iter_mut().enumerate() {
                *floor = if place > given { ts + 1 } else { ts.saturating_sub(pattern.within) };
            }
            scratch.ceilings[count - 1] = ts.saturating_add(pattern.within);
            scratch.bound.single[given] = at;
        }
        if let Some((component, negative)) = scope.negative {
            for (place, floor) in scratch.floors.iter_mut().enumerate() {
                let within = negative.ts.saturating_sub(pattern.within);
                *floor = if place >= component.place { negative.ts + 1 } else { within };
            }
            scratch.ceilings[count - 1] = negative.ts.saturating_add(pattern.within);
            if let Some(before) = component.place.checked_sub(1) {
                scratch.ceilings[before] = negative.ts - 1;
            }
        }
        let complete = if pattern.trails { emitted.saturating_sub(pattern.within) } else { i64::MAX };
        if pattern.trails && !pattern.step(0).kleene {
            scratch.ceilings[0] = scratch.ceilings[0].min(scope.first.unwrap_or(i64::MAX)).min(complete);
        }
        let schedule = &pattern.schedules[scope.given.map_or(count, |(place, _)| place)];
        Self { view, scope, schedule, scratch, changes, makes, complete, low: i64::MIN }
    }

    pub fn run(mut self) -> Result<(), J::Failure> {
        let last = self.view.pattern.steps.len();
        self.grow(last, self.view.partition.positive(last - 1).items().len())
    }

    /// A match is whole: note it, if it is requested and no negation rules it out.
    fn whole(&mut self) -> Result<(), J::Failure> {
        let (view, bound) = (&self.view, &self.scratch.bound);
        if view.pattern.trails {
            let first = view.ends(bound, 0).0;
            if first > self.complete || self.scope.first.is_some_and(|scope| scope != first) {
                return Ok(());
            }
        }
        if !view.pattern.negations.is_empty() {
            if view.is_ruled_out(bound)? {
                return Ok(());
            }
            if let Some((component, _)) = self.scope.negative
                && !view.hold(&component.conditions, bound, self.scope.negative)?
            {
                return Ok(());
            }
        }
        self.changes.note(view, bound, self.makes);
        Ok(())
    }

    /// Bind the place before `places` to each of the first `end` instances of its stack that fits, and continue below.
    fn grow(&mut self, places: usize, end: usize) -> Result<(), J::Failure> {
        let Some(place) = places.checked_sub(1) else { return self.whole() };
        if self.view.pattern.step(place).kleene {
            return self.grow_group(place, end);
        }
        if let Some((given, at)) = self.scope.given
            && given == place
        {
            return if at < end { self.bind(place, at) } else { Ok(()) };
        }
        let stack = self.view.partition.positive(place);
        let low = if self.is_last(place) { self.scratch.floors[place] } else { self.scratch.floors[place].max(self.low) };
        for at in (0..end.min(stack.up_to(self.scratch.ceilings[place]))).rev() {
            if stack.items()[at].ts < low {
                break;
            }
            self.bind(place, at)?;
        }
        Ok(())
    }

    fn bind(&mut self, place: usize, at: usize) -> Result<(), J::Failure> {
        self.scratch.bound.single[place] = at;
        let ts = self.view.partition.positive(place).items()[at].ts;
        if self.is_last(place) {
            self.low = ts.saturating_sub(self.view.pattern.within);
        }
        if self.hold(&self.schedule.at[place])? { self.grow(place, self.below(place, ts)) } else { Ok(()) }
    }

    fn is_last(&self, place: usize) -> bool {
        place + 1 == self.view.pattern.steps.len()
    }

    /// How many instances of the stack below are earlier.
    fn below(&self, place: usize, ts: i64) -> usize {
        place.checked_sub(1).map_or(0, |previous| self.view.partition.positive(previous).below(ts))
    }

    fn hold(&self, conditions: &[usize]) -> Result<bool, J::Failure> {
        self.view.hold(conditions, &self.scratch.bound, None)
    }

    /// Put each fitting instance before those of a group so far; with each group continue below, and let it grow further.
    fn grow_group(&mut self, place: usize, end: usize) -> Result<(), J::Failure> {
        let stack = self.view.partition.positive(place);
        let group = self.scratch.bound.groups[place].clone();
        if group.len() > LARGEST {
            return Err(TooLarge.into());
        }
        let begins = self.is_last(place) && group.is_empty();
        let must = self.scope.given.filter(|(given, at)| *given == place && !group.contains(at)).map(|(_, at)| at);
        for at in (0..end.min(stack.up_to(self.scratch.ceilings[place]))).rev() {
            let ts = stack.items()[at].ts;
            let low = if begins { self.scratch.floors[place] } else { self.scratch.floors[place].max(self.low) };
            if ts < low || must.is_some_and(|must| ts < stack.items()[must].ts) {
                break;
            }
            if begins {
                self.low = ts.saturating_sub(self.view.pattern.within);
            }
            self.scratch.bound.groups[place] = std::iter::once(at).chain(group.first().copied()).collect();
            if self.hold(&self.schedule.stepwise[place])? {
                self.scratch.bound.groups[place] = std::iter::once(at).chain(group.iter().copied()).collect();
                if must.is_none_or(|must| must == at) && self.hold(&self.schedule.at[place])? {
                    self.grow(place, self.below(place, ts))?;
                }
                self.grow_group(place, stack.below(ts))?;
            }
        }
        self.scratch.bound.groups[place] = group;
        Ok(())
    }
}
