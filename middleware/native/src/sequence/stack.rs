//! Active instance stacks: the events that matches are built of, in order of time.
//!
//! Instances are two words each and lie side by side, so where those before a time end is found by a look at the top, or by a
//! binary search in a few cache lines: they keep no RIP, which each late event would have to reset (its twin in Python does).

use super::partitions::Content;

/// An event in one of its roles: when it is, and which row of which block.
#[derive(Clone, Copy)]
pub struct Instance {
    pub ts: i64,
    pub block: u32,
    pub row: u32,
}

/// Instances for which a stack keeps room.
const ROOM: usize = 64;

pub struct Stack {
    /// Those from `first` on are held.
    items: Vec<Instance>,
    first: usize,
    /// The times of the first and the last of them, so that most questions need no look at what lies elsewhere in memory.
    oldest: i64,
    newest: i64,
}

impl Default for Stack {
    fn default() -> Self {
        Self { items: Vec::new(), first: 0, oldest: i64::MAX, newest: i64::MIN }
    }
}

impl Stack {
    /// The instances, in order of time.
    #[inline]
    pub fn items(&self) -> &[Instance] {
        &self.items[self.first..]
    }

    /// How many instances are earlier than `ts`. O(1) where all are.
    #[inline]
    pub fn below(&self, ts: i64) -> usize {
        if self.newest < ts { self.items().len() } else { self.items().partition_point(|each| each.ts < ts) }
    }

    /// How many are not later than `ts`.
    #[inline]
    pub fn up_to(&self, ts: i64) -> usize {
        if self.newest <= ts { self.items().len() } else { self.items().partition_point(|each| each.ts <= ts) }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.newest == i64::MIN
    }

    /// Put an instance in its place; returns where. O(1) on top.
    #[inline]
    pub fn add(&mut self, instance: Instance) -> usize {
        let (at, ts) = (self.up_to(instance.ts), instance.ts);
        (self.oldest, self.newest) = (self.oldest.min(ts), self.newest.max(ts));
        if at == self.items().len() {
            self.items.push(instance);
        } else {
            self.items.insert(self.first + at, instance);
        }
        at
    }

    /// Put an instance on top, whatever its time (append semantics); returns where.
    #[inline]
    pub fn append(&mut self, instance: Instance) -> usize {
        self.items.push(instance);
        self.look();
        self.items().len() - 1
    }

    /// Take out an instance. O(n).
    pub fn take(&mut self, at: usize) -> Instance {
        let taken = self.items.remove(self.first + at);
        self.look();
        taken
    }

    fn look(&mut self) {
        self.oldest = self.items().first().map_or(i64::MAX, |each| each.ts);
        self.newest = self.items().last().map_or(i64::MIN, |each| each.ts);
    }

    /// Where an event of that time lies, `is_it` of all at once. O(log n).
    pub fn place<E>(&self, ts: i64, mut is_it: impl FnMut(Instance) -> Result<bool, E>) -> Result<Option<usize>, E> {
        for at in self.below(ts)..self.up_to(ts) {
            if is_it(self.items()[at])? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Forget instances with ts <= `upto`, each of which `gone` is given; how many. Amortised O(1) each.
    #[inline]
    pub fn purge(&mut self, upto: i64, mut gone: impl FnMut(Instance)) -> usize {
        if self.oldest > upto {
            return 0;
        }
        let count = self.items().iter().take_while(|each| each.ts <= upto).count();
        for each in &self.items[self.first..self.first + count] {
            gone(*each);
        }
        self.first += count;
        if 2 * self.first >= self.items.len() {
            self.items.drain(..self.first);
            self.first = 0;
        }
        self.look();
        count
    }
}

/// The stacks of one key: one for each positive step, then one for each negated component (that of one that belongs to all
/// keys stays empty).
pub struct Partition {
    stacks: Box<[Stack]>,
    steps: usize,
}

impl Partition {
    pub fn new(steps: usize, negations: usize) -> Self {
        Self { stacks: std::iter::repeat_with(Stack::default).take(steps + negations).collect(), steps }
    }

    #[inline]
    pub fn positive(&self, place: usize) -> &Stack {
        &self.stacks[place]
    }

    #[inline]
    pub fn positive_mut(&mut self, place: usize) -> &mut Stack {
        &mut self.stacks[place]
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
        self.stacks[..self.steps].iter().any(Stack::is_empty)
    }

    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// See `Stack::purge`.
    pub fn purge(&mut self, upto: i64, mut gone: impl FnMut(Instance)) -> usize {
        self.stacks.iter_mut().map(|stack| stack.purge(upto, &mut gone)).sum()
    }
}

impl Content for Partition {
    fn is_empty(&self) -> bool {
        self.stacks.iter().all(Stack::is_empty)
    }

    fn clear(&mut self) {
        for stack in &mut self.stacks {
            stack.items.clear();
            stack.items.shrink_to(ROOM);
            stack.first = 0;
        }
    }
}

impl Stack {
    /// Every invariant.
    pub fn check(&self) {
        assert!(self.items().is_sorted_by_key(|each| each.ts), "out of order");
        let ends = (self.items().first().map(|each| each.ts), self.items().last().map(|each| each.ts));
        assert_eq!((self.oldest, self.newest), (ends.0.unwrap_or(i64::MAX), ends.1.unwrap_or(i64::MIN)), "times are off");
    }
}

#[cfg(test)]
mod tests {
    use super::{Instance, Stack};

    #[test]
    fn late_instances_find_their_place() {
        let mut stack = Stack::default();
        for (row, ts) in [3, 6, 11, 7, 8, 5, 3].into_iter().enumerate() {
            stack.add(Instance { ts, block: 0, row: row as u32 });
            stack.check();
        }
        let rows: Vec<_> = stack.items().iter().map(|each| each.row).collect();
        assert_eq!(rows, [0, 6, 5, 1, 3, 4, 2]);
        assert_eq!((stack.below(7), stack.up_to(7), stack.below(100)), (4, 5, 7));
        assert_eq!(stack.take(1).row, 6);
        let mut gone = Vec::new();
        assert_eq!(stack.purge(5, |each| gone.push(each.row)), 2);
        assert_eq!(gone, [0, 5]);
        stack.check();
        assert_eq!(stack.items()[0].ts, 6);
    }
}
