//! Active instance stacks: the events that matches are built of, in order of time, each with its RIP.

use std::collections::VecDeque;

use pyo3::prelude::*;

use super::block::Held;
use super::partitions::{Content, LITTLE};
use super::value::Value;

pub struct Instance {
    pub ts: i64,
    /// How many of the previous stack are earlier (purged ones counted): the one below that place is the RIP.
    pub rip: usize,
    pub event: Held,
    /// What conditions read of it.
    pub values: Box<[Value]>,
}

pub struct Stack {
    pub items: VecDeque<Instance>,
    pub purged: usize,
    /// The times of the first and the last of them, so that most questions need no look at what lies elsewhere in memory.
    oldest: i64,
    newest: i64,
}

impl Default for Stack {
    fn default() -> Self {
        Self { items: VecDeque::new(), purged: 0, oldest: i64::MAX, newest: i64::MIN }
    }
}

impl Stack {
    /// How many instances are earlier than `ts`. O(1) where all are.
    #[inline]
    pub fn below(&self, ts: i64) -> usize {
        if self.newest < ts { self.items.len() } else { self.items.partition_point(|each| each.ts < ts) }
    }

    /// How many are not later than `ts`.
    #[inline]
    pub fn up_to(&self, ts: i64) -> usize {
        if self.newest <= ts { self.items.len() } else { self.items.partition_point(|each| each.ts <= ts) }
    }

    /// Put an instance in its place; returns where. O(1) on top.
    #[inline]
    pub fn add(&mut self, instance: Instance) -> usize {
        let (at, ts) = (self.up_to(instance.ts), instance.ts);
        (self.oldest, self.newest) = (self.oldest.min(ts), self.newest.max(ts));
        if at == self.items.len() {
            self.items.push_back(instance);
        } else {
            self.items.insert(at, instance);
        }
        at
    }

    /// Take out an instance. O(n).
    pub fn take(&mut self, at: usize) -> Option<Instance> {
        let taken = self.items.remove(at);
        self.look();
        taken
    }

    fn look(&mut self) {
        self.oldest = self.items.front().map_or(i64::MAX, |each| each.ts);
        self.newest = self.items.back().map_or(i64::MIN, |each| each.ts);
    }

    /// An earlier instance came (or went) in the previous stack at `ts`: reset the RIPs that it affects.
    pub fn shift(&mut self, ts: i64, by: isize) {
        for each in self.items.iter_mut().rev().take_while(|each| each.ts > ts) {
            each.rip = each.rip.wrapping_add_signed(by);
        }
    }

    /// Where an event lies. O(log n).
    pub fn place(&self, ts: i64, event: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        for at in self.below(ts)..self.up_to(ts) {
            if self.items[at].event.is(event)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Forget instances with ts <= `upto`; how many.
    pub fn purge(&mut self, upto: i64) -> usize {
        if self.oldest > upto {
            return 0;
        }
        let mut count = 0;
        while self.items.front().is_some_and(|each| each.ts <= upto) {
            self.items.pop_front();
            count += 1;
        }
        self.purged += count;
        self.look();
        count
    }
}

/// The stacks of one key: one for each positive step, then one for each negated component (that of one that belongs to all
/// keys stays empty).
pub struct Partition {
    stacks: Box<[Stack]>,
    steps: usize,
    /// AIS-CLOCK: the largest time that was put on a positive stack.
    pub clock: i64,
}

impl Partition {
    pub fn new(steps: usize, negations: usize) -> Self {
        let stacks = std::iter::repeat_with(Stack::default).take(steps + negations).collect();
        Self { stacks, steps, clock: i64::MIN }
    }

    #[inline]
    pub fn positive(&self, place: usize) -> &Stack {
        &self.stacks[place]
    }

    #[inline]
    pub fn negated(&self, negation: usize) -> &Stack {
        &self.stacks[self.steps + negation]
    }

    #[inline]
    pub fn negated_mut(&mut self, negation: usize) -> &mut Stack {
        &mut self.stacks[self.steps + negation]
    }

    /// The largest time on the stack of the last step: what is not earlier completes no match.
    #[inline]
    pub fn newest_end(&self) -> i64 {
        self.stacks[self.steps - 1].newest
    }

    /// Whether some step has no event, so that there is no match.
    #[inline]
    pub fn lacks_a_step(&self) -> bool {
        self.stacks[..self.steps].iter().any(|stack| stack.items.is_empty())
    }

    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    #[inline]
    pub fn positive_mut(&mut self, place: usize) -> &mut Stack {
        &mut self.stacks[place]
    }

    /// Add an instance of a positive step, and reset the RIPs of the next stack if it is late; returns where it lies.
    #[inline]
    pub fn add(&mut self, place: usize, mut instance: Instance) -> usize {
        let ts = instance.ts;
        if place > 0 {
            let previous = &self.stacks[place - 1];
            instance.rip = previous.purged + previous.below(ts);
        }
        let at = self.stacks[place].add(instance);
        if ts >= self.clock {
            self.clock = ts;
        } else if place + 1 < self.steps {
            self.stacks[place + 1].shift(ts, 1);
        }
        at
    }

    /// Add an instance that is taken to be the newest of all (append semantics); returns where it lies.
    #[inline]
    pub fn append(&mut self, place: usize, mut instance: Instance) -> usize {
        if place > 0 {
            let previous = &self.stacks[place - 1];
            instance.rip = previous.purged + previous.items.len();
        }
        let stack = &mut self.stacks[place];
        stack.items.push_back(instance);
        stack.look();
        stack.items.len() - 1
    }

    /// Take back an instance of a positive step.
    pub fn remove(&mut self, place: usize, at: usize) {
        if let Some(instance) = self.stacks[place].take(at)
            && place + 1 < self.steps
        {
            self.stacks[place + 1].shift(instance.ts, -1);
        }
    }

    /// Every invariant: order, and each RIP.
    pub fn check(&self) {
        for (place, stack) in self.stacks[..self.steps].iter().enumerate() {
            assert!(stack.items.iter().zip(stack.items.iter().skip(1)).all(|(one, next)| one.ts <= next.ts), "out of order");
            let ends = (stack.items.front().map(|each| each.ts), stack.items.back().map(|each| each.ts));
            assert_eq!((stack.oldest, stack.newest), (ends.0.unwrap_or(i64::MAX), ends.1.unwrap_or(i64::MIN)), "times are off");
            assert!(stack.newest <= self.clock, "the clock is behind");
            if place > 0 {
                let previous = &self.stacks[place - 1];
                // what is outdated itself may point to what has been purged
                let right =
                    |each: &Instance| each.rip < previous.purged || each.rip == previous.purged + previous.below(each.ts);
                assert!(stack.items.iter().all(right), "a RIP points elsewhere");
            }
        }
    }
}

impl Content for Partition {
    fn purge(&mut self, upto: i64) -> usize {
        self.stacks.iter_mut().map(|stack| stack.purge(upto)).sum()
    }

    fn is_empty(&self) -> bool {
        self.stacks.iter().all(|stack| stack.items.is_empty())
    }

    fn clear(&mut self) {
        for stack in &mut self.stacks {
            stack.items.clear();
            stack.items.shrink_to(LITTLE);
            stack.purged = 0;
            stack.look();
        }
        self.clock = i64::MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Held, Instance, Partition};
    use pyo3::prelude::*;

    fn instance(py: Python<'_>, ts: i64) -> Instance {
        Instance { ts, rip: 0, event: Held::Event(py.None()), values: Box::default() }
    }

    #[test]
    fn late_instances_reset_rips() {
        Python::initialize();
        Python::attach(|py| {
            let mut partition = Partition::new(2, 0);
            for (place, ts) in [(0, 3), (1, 6), (1, 11), (0, 7), (1, 8), (0, 5), (0, 3)] {
                partition.add(place, instance(py, ts));
                partition.check();
            }
            let rips: Vec<_> = partition.positive(1).items.iter().map(|each| each.rip).collect();
            assert_eq!(rips, [3, 4, 4]);
            partition.remove(0, 0);
            partition.check();
            assert_eq!(partition.purge(5), 2);
            partition.check();
        });
    }
}
