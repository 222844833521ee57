//! Skip-till-any-match over changes that come in any order: the twin of `detectors.sequence.strategies.matcher.Matcher`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arrivals::{Arrivals, Arrived};
use super::changes::Changes;
use super::negation::{Judge, View};
use super::partitions::Partitions;
use super::pattern::{Component, Pattern};
use super::search::{Scratch, Search, SearchScope};
use super::stack::{Instance, Partition, Stack};

/// The state of a query with strategy skip-till-any-match.
///
/// In a step, what is withdrawn comes first; then come negatives, and then the events of each step of the pattern, one after the
/// other. So of what comes in one step, whatever its order, no match is made that something else of the step would rule out.
pub struct Matching {
    pub partitions: Partitions<Partition>,
    /// Negatives that belong to all partitions, by negated component.
    common: Vec<Stack>,
    pub arrivals: Arrivals,
    pub changes: Changes,
    /// The first events of matches that wait for their window to pass: time and partition.
    due: BinaryHeap<Reverse<(i64, usize)>>,
    emitted: i64,
    /// The time at which outdated events are next removed from the stacks, once a window.
    swept: i64,
    held: usize,
    scratch: Scratch,
    /// Whether input is taken to come in order: the baseline of the overhead of disorder, wrong if it does not.
    #[cfg(feature = "baselines")]
    pub in_order: bool,
}

impl Matching {
    pub fn new(pattern: &Pattern) -> Self {
        Self {
            partitions: Partitions::default(),
            common: std::iter::repeat_with(Stack::default).take(pattern.negations.len()).collect(),
            arrivals: Arrivals::new(pattern.components.len()),
            changes: Changes::default(),
            due: BinaryHeap::new(),
            emitted: i64::MIN / 2,
            swept: i64::MIN / 2,
            held: 0,
            scratch: Scratch::default(),
            #[cfg(feature = "baselines")]
            in_order: false,
        }
    }

    /// Events on stacks, one for each role of theirs.
    pub fn held(&self) -> usize {
        self.held
    }

    pub fn stacks(&self) -> impl Iterator<Item = &Stack> {
        self.partitions.iter().flat_map(|each| each.stacks()).chain(&self.common)
    }

    /// Every invariant.
    pub fn check(&self) {
        self.stacks().for_each(Stack::check);
        assert_eq!(self.held, self.stacks().map(|stack| stack.items().len()).sum::<usize>(), "held is off");
    }

    /// Begin a step.
    pub fn begin(&mut self) {
        self.changes.clear();
        self.arrivals.clear();
    }

    /// Take back an event in one of its roles; `number`: its partition, None if it belongs to all. `is_it`: whether an instance of
    /// that time is the event.
    pub fn retract<J: Judge>(
        &mut self,
        judge: &mut J,
        pattern: &Pattern,
        ts: i64,
        component: &Component,
        number: Option<u32>,
        is_it: impl Fn(&J, Instance) -> Result<bool, J::Failure>,
    ) -> Result<(), J::Failure> {
        let Some(negation) = component.negation else {
            let number = number.map_or(0, |number| number as usize);
            let Some(partition) = self.partitions.get(number) else { return Ok(()) };
            let Some(at) = partition.positive(component.place).place(ts, |each| is_it(judge, each))? else {
                return Ok(());
            };
            self.search(
                judge,
                pattern,
                number,
                SearchScope { given: Some((component.place, at)), ..SearchScope::default() },
                false,
            )?;
            let stack = self.partitions.get_mut(number).expect("it is there").positive_mut(component.place);
            judge.release(stack.take(at).block);
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
        let Some(at) = stack.place(ts, |each| is_it(judge, each))? else { return Ok(()) };
        let instance = stack.take(at);
        judge.release(instance.block);
        self.held -= 1;
        for reached in number.map_or_else(|| self.partitions.numbers(), |number| vec![number as usize]) {
            self.search(
                judge,
                pattern,
                reached,
                SearchScope { negative: Some((component, instance)), ..SearchScope::default() },
                true,
            )?;
        }
        Ok(())
    }

    /// Put what has arrived on the stacks, and let time pass.
    pub fn step<J: Judge>(&mut self, judge: &mut J, pattern: &Pattern, emitted: i64) -> Result<(), J::Failure> {
        for slot in pattern.negations.iter().chain(&pattern.steps) {
            let (component, arrived) = (&pattern.components[*slot], self.arrivals.take(*slot));
            for each in &arrived {
                if component.negation.is_some() {
                    self.insert_negative(judge, pattern, component, *each)?;
                } else {
                    self.insert(judge, pattern, component, *each)?;
                }
            }
            self.held += arrived.len();
            self.arrivals.give_back(*slot, arrived);
        }
        if pattern.trails {
            self.complete(judge, pattern, emitted)?;
        }
        self.emitted = emitted;
        Ok(())
    }

    /// Forget what can matter no more, once the results of a step are made, and tell `forget` of partitions that hold nothing.
    pub fn purge<J: Judge, E>(
        &mut self,
        judge: &mut J,
        pattern: &Pattern,
        r#final: i64,
        forget: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let upto = r#final.saturating_sub(pattern.reach);
        if upto > self.swept {
            self.held -= self.partitions.purge(|each| each.purge(upto, |each| judge.release(each.block)), forget)?;
            self.held -= self.common.iter_mut().map(|stack| stack.purge(upto, |each| judge.release(each.block))).sum::<usize>();
            self.swept = upto.saturating_add(pattern.within);
        }
        Ok(())
    }

    #[inline]
    fn insert<J: Judge>(
        &mut self,
        judge: &mut J,
        pattern: &Pattern,
        component: &Component,
        arrived: Arrived,
    ) -> Result<(), J::Failure> {
        let Arrived { instance, partition: Some(number) } = arrived else { return Ok(()) };
        let number = number as usize;
        let partition = self.partitions.get_mut(number).expect("it was just found");
        let place = component.place;
        #[cfg(feature = "baselines")]
        let is_in_order = self.in_order;
        #[cfg(not(feature = "baselines"))]
        let is_in_order = false;
        // AIS-CLOCK: what is not late completes matches only as their last event; here by the clock of last events
        let searches = place + 1 == pattern.steps.len() || (!is_in_order && instance.ts < partition.newest_end());
        let stack = partition.positive_mut(place);
        judge.hold(instance.block);
        let at = if is_in_order { stack.append(instance) } else { stack.add(instance) };
        if pattern.trails && place == 0 {
            self.due.push(Reverse((instance.ts, number)));
        }
        if searches {
            self.search(judge, pattern, number, SearchScope { given: Some((place, at)), ..SearchScope::default() }, true)
        } else {
            Ok(())
        }
    }

    fn insert_negative<J: Judge>(
        &mut self,
        judge: &mut J,
        pattern: &Pattern,
        component: &Component,
        arrived: Arrived,
    ) -> Result<(), J::Failure> {
        let (negation, instance) = (component.negation.unwrap_or_default(), arrived.instance);
        judge.hold(instance.block);
        let scope = SearchScope { negative: Some((component, instance)), ..SearchScope::default() };
        let Some(number) = arrived.partition else {
            for reached in self.partitions.numbers() {
                self.search(judge, pattern, reached, scope, false)?;
            }
            self.common[negation].add(instance);
            return Ok(());
        };
        self.search(judge, pattern, number as usize, scope, false)?;
        self.partitions.get_mut(number as usize).expect("it was just found").negated_mut(negation).add(instance);
        Ok(())
    }

    /// Make (or withdraw) the matches of a partition that are requested and not ruled out.
    #[inline]
    fn search<J: Judge>(
        &mut self,
        judge: &J,
        pattern: &Pattern,
        number: usize,
        scope: SearchScope<'_>,
        makes: bool,
    ) -> Result<(), J::Failure> {
        let Some(partition) = self.partitions.get(number).filter(|each| !each.lacks_a_step()) else { return Ok(()) };
        if let Some((component, negative)) = scope.negative
            && component.place < pattern.steps.len()
            && negative.ts >= partition.newest_end()
        {
            return Ok(()); // no last event is later, so no match reaches across it
        }
        let view = View { judge, pattern, partition, common: &self.common };
        Search::new(view, scope, self.emitted, &mut self.scratch, &mut self.changes, makes).run()
    }

    /// Make the matches whose window has passed by now: nothing that has come rules them out.
    fn complete<J: Judge>(&mut self, judge: &J, pattern: &Pattern, emitted: i64) -> Result<(), J::Failure> {
        let before = self.emitted.saturating_sub(pattern.within);
        let until = emitted.saturating_sub(pattern.within);
        self.emitted = emitted;
        let mut previous = None;
        while let Some(Reverse((ts, number))) = self.due.peek().copied()
            && ts <= until
        {
            self.due.pop();
            if ts > before && previous != Some((ts, number)) {
                self.search(judge, pattern, number, SearchScope { first: Some(ts), ..SearchScope::default() }, true)?;
            }
            previous = Some((ts, number));
        }
        Ok(())
    }
}
