//! Runs: one search, and one repair, for many entries (after Tangwongsan, Hirzel and Schneider, VLDB 2023).

use std::mem::take;

use super::monoid::Monoid;
use super::tree::{NIL, Node, Side, Time, Tree};
use super::undo_log::Undo;

/// Entries evicted one by one before it is worth while to cut off a run.
const FEW: usize = 4;

impl<K: Time, M: Monoid> Tree<K, M> {
    /// Insert a run whose times do not decrease. What is at a time already comes first, or is replaced.
    pub fn bulk_insert(&mut self, run: impl Iterator<Item = (K, M::Slot)>, replace: bool) -> Result<(), M::Failure> {
        self.settle();
        self.atomic(|tree| {
            tree.insert_run(run, replace)?;
            tree.repair()
        })
    }

    fn insert_run(&mut self, run: impl Iterator<Item = (K, M::Slot)>, replace: bool) -> Result<(), M::Failure> {
        let mut leaf = NIL;
        let mut bound = None; // of the leaf's subtree; None above the youngest
        for (time, slot) in run {
            let place = if leaf == NIL {
                self.locate(time)
            } else if bound.is_none_or(|bound| time < bound) {
                self.descend(leaf, time)
            } else {
                let top = self.climb(leaf, time);
                self.descend(top, time)
            };
            let mut full = false;
            if place.found {
                self.merge_at(place.x, place.i, slot, replace)?;
            } else {
                let at_end = self.is_end(place);
                self.insert_entry(place.x, place.i, time, slot);
                self.len += 1;
                full = self.count(place.x) > self.most();
                self.split_up(place.x, at_end);
            }
            if self.height(place.x) > 0 {
                continue; // found in an inner node: the next may still belong to the leaf
            }
            let next = if self.last_time(self.right) <= time { self.right } else { place.x };
            if full || next != leaf {
                leaf = next;
                bound = self.bound(leaf);
            }
        }
        Ok(())
    }

    fn merge_at(&mut self, x: u32, i: usize, slot: M::Slot, replace: bool) -> Result<(), M::Failure> {
        self.touch(x);
        self.mark(x);
        let at = x as usize * self.room + i;
        if replace {
            self.slots[at] = slot;
            return Ok(());
        }
        self.work.combines += 1;
        self.monoid.merge(&mut self.slots[at], &slot)
    }

    /// From a leaf up to a subtree with a later time in it.
    fn climb(&mut self, mut x: u32, time: K) -> u32 {
        while x != self.root && time > self.last_time(x) {
            self.work.visits += 1;
            x = self.parent(x);
        }
        x
    }

    /// The entry behind a subtree, None if that is where the window ends.
    fn bound(&self, mut x: u32) -> Option<K> {
        while x != self.root && self.side(x) != Side::Right {
            let (parent, place) = (self.parent(x), self.place(x));
            if place < self.count(parent) {
                return Some(self.times_of(parent)[place]);
            }
            x = parent;
        }
        None
    }

    /// Take out all that is not after `last`; returns how many entries that was. O(log of the distance), and one step for
    /// each node that becomes free.
    pub fn bulk_evict(&mut self, last: K) -> Result<usize, M::Failure> {
        let (Some(oldest), Some(youngest)) = (self.oldest(), self.youngest()) else { return Ok(0) };
        if last < oldest {
            return Ok(0);
        }
        if last >= youngest {
            return Ok(self.clear());
        }
        self.settle();
        let before = self.len;
        self.atomic(|tree| {
            tree.cut(last);
            for height in (0..tree.height(tree.root)).rev() {
                tree.fill_left(height);
            }
            tree.repair()
        })?;
        Ok(before - self.len)
    }

    /// Take out all that is not after `last`: one by one if it is little, as a run if it is not.
    #[inline]
    pub fn advance(&mut self, last: K) -> Result<(), M::Failure> {
        for _ in 0..FEW {
            if self.oldest().is_none_or(|oldest| oldest > last) {
                return Ok(());
            }
            self.evict_oldest()?;
        }
        self.bulk_evict(last).map(drop)
    }

    /// Take out everything.
    pub fn clear(&mut self) -> usize {
        let count = self.len;
        self.front = 0;
        for level in &mut self.dirty {
            level.clear();
        }
        if M::FALLIBLE && self.undo_log.is_open() {
            let (nodes, aggs, times) = (take(&mut self.nodes), take(&mut self.aggs), take(&mut self.times));
            let (slots, kids, free) = (take(&mut self.slots), take(&mut self.kids), take(&mut self.free));
            self.undo_log.note(Undo::Emptied(Box::new((nodes, aggs, times, slots, kids, free))));
        }
        self.nodes.clear();
        self.aggs.clear();
        self.times.clear();
        self.slots.clear();
        self.kids.clear();
        self.free.clear();
        self.forget_suffixes();
        self.len = 0;
        (self.root, self.left, self.right) = (0, 0, 0);
        self.new_node(0, Side::Root);
        count
    }

    /// Drop entries, and subtrees left of them, down to the leaf where the window now begins. Nodes on the way may be left too
    /// empty, or with a child and no entry.
    fn cut(&mut self, last: K) {
        let root = self.root;
        let mut x = if self.height(root) == 0 || last >= self.first_time(root) { root } else { self.climb_left(last) };
        loop {
            self.work.visits += 1;
            let gone = self.times_of(x).iter().filter(|&&time| time <= last).count();
            self.drop_front(x, gone);
            if self.height(x) == 0 {
                self.left = x;
                return;
            }
            if x == self.root && self.count(x) == 0 {
                self.lower();
                x = self.root;
                continue;
            }
            x = self.kid(x, 0);
            self.touch(x);
            self.nodes[x as usize].side = Side::Left;
        }
    }

    /// Drop the first entries of a node, and the children before them.
    fn drop_front(&mut self, x: u32, gone: usize) {
        self.mark(x);
        if gone == 0 {
            return;
        }
        self.touch(x);
        let (at, count) = (x as usize * self.room, self.count(x));
        if self.height(x) > 0 {
            for i in 0..gone {
                self.drop_subtree(self.kid(x, i));
            }
            let first = x as usize * (self.room + 1);
            self.kids.copy_within(first + gone..=first + count, first);
        }
        self.times.copy_within(at + gone..at + count, at);
        self.slots[at..at + count].rotate_left(gone);
        self.slots[at + count - gone..at + count].fill(M::Slot::default());
        let Node { count, .. } = &mut self.nodes[x as usize];
        *count -= u16::try_from(gone).expect("arity is small");
        self.len -= gone;
    }

    fn drop_subtree(&mut self, x: u32) {
        if self.height(x) > 0 {
            for i in 0..=self.count(x) {
                self.drop_subtree(self.kid(x, i));
            }
        }
        self.len -= self.count(x);
        self.free_node(x);
    }

    /// Make sure that the node of the left spine at this height is full enough; all above it are.
    fn fill_left(&mut self, height: u8) {
        let mut x = self.root;
        while self.height(x) > height + 1 {
            x = self.kid(x, 0);
        }
        if self.height(x) == height + 1 && self.count(self.kid(x, 0)) < self.least(self.kid(x, 0)) {
            self.balance(x, 0);
            self.fill_up(x);
        }
    }
}
