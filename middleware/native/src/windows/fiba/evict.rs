//! Eviction: take the entry out, or put a leaf's in its stead; merge or fill up what is too empty; repair.

use super::monoid::Monoid;
use super::search::Place;
use super::tree::{Side, Time, Tree};

impl<K: Time, M: Monoid> Tree<K, M> {
    /// Take out what is at a time; false if there is nothing. O(log d), amortised O(1) at both ends.
    #[inline]
    pub fn evict(&mut self, time: K) -> Result<bool, M::Failure> {
        if M::FINGERS && self.oldest() == Some(time) {
            self.evict_oldest()?;
            return Ok(true);
        }
        self.settle();
        let place = self.locate(time);
        if place.found {
            self.atomic(|tree| tree.evict_at(place))?;
        }
        Ok(place.found)
    }

    /// Take out the oldest entry; there must be one.
    #[inline]
    pub fn evict_oldest(&mut self) -> Result<(), M::Failure> {
        let x = if M::FINGERS { self.left } else { self.oldest_leaf(self.root) };
        if M::FINGERS && x != self.root {
            if self.count(x) - self.front > 1 {
                return self.atomic(|tree| tree.evict_in_order(x));
            }
            let parent = self.parent(x);
            if self.count(parent) > 1 && self.count(self.kid(parent, 1)) < self.most() {
                return self.atomic(|tree| tree.evict_leaf(x, parent));
            }
        }
        self.settle();
        let place = Place { x, i: 0, found: true };
        self.atomic(|tree| tree.evict_at(place))
    }

    /// The left finger keeps an entry: its next aggregate is known, or all of them are found now, each with one combine.
    #[inline]
    fn evict_in_order(&mut self, x: u32) -> Result<(), M::Failure> {
        if !self.knows_suffixes() {
            self.refresh_with_suffixes(x)?;
        }
        self.take_suffix(x);
        self.len -= 1;
        if M::FALLIBLE {
            self.remove_entry(x, 0);
        } else {
            self.front += 1;
        }
        Ok(())
    }

    /// The left finger's last entry goes. Its neighbour takes in the entry between them, and is where the window begins.
    fn evict_leaf(&mut self, x: u32, parent: u32) -> Result<(), M::Failure> {
        let next = self.kid(parent, 1);
        self.touch(x);
        self.touch(next);
        self.empty(x);
        self.len -= 1;
        self.merge(parent, 0, x, next);
        if parent == self.root {
            self.refresh(parent, Side::Root)?;
        } else if self.suffixes[1].len() == self.count(parent) {
            self.take_suffix(parent);
        } else {
            self.refresh_with_suffixes(parent)?;
        }
        self.refresh_with_suffixes(self.left)
    }

    fn evict_at(&mut self, Place { x, i, .. }: Place) -> Result<(), M::Failure> {
        self.len -= 1;
        if self.height(x) == 0 {
            self.remove_entry(x, i);
            self.mark(x);
            self.fill_up(x);
        } else {
            self.evict_inner(x, i);
        }
        self.repair()
    }

    /// Put the next younger or the next older entry, which stands in a leaf, where the evicted one was (figure 8).
    fn evict_inner(&mut self, x: u32, i: usize) {
        let right = self.kid(x, i + 1);
        let (leaf, (time, slot)) = if self.count(right) >= self.min {
            let leaf = self.oldest_leaf(right);
            (leaf, self.remove_entry(leaf, 0))
        } else {
            let leaf = self.youngest_leaf(self.kid(x, i));
            (leaf, self.remove_entry(leaf, self.count(leaf) - 1))
        };
        self.touch(x);
        let at = x as usize * self.room + i;
        self.times[at] = time;
        self.slots[at] = slot;
        self.mark(x);
        self.mark(leaf);
        self.fill_up(leaf);
    }

    /// Merge or fill up what is too empty, from x up. Marks what changed.
    pub fn fill_up(&mut self, mut x: u32) {
        while x != self.root && self.count(x) < self.least(x) {
            let (parent, place) = (self.parent(x), self.place(x));
            let first = place.saturating_sub(usize::from(place == self.count(parent)));
            self.balance(parent, first);
            x = parent;
        }
        if x == self.root && self.count(x) == 0 && self.height(x) > 0 {
            self.lower();
        }
    }

    /// Merge children i and i + 1 if they fit into one with room to spare, else share their entries evenly.
    pub fn balance(&mut self, parent: u32, i: usize) {
        let (a, b) = (self.kid(parent, i), self.kid(parent, i + 1));
        for x in [a, b, parent] {
            self.touch(x);
            self.mark(x);
        }
        let (in_a, in_b) = (self.count(a), self.count(b));
        if in_a + in_b + 1 < self.most() {
            self.merge(parent, i, a, b);
        } else if in_a < in_b {
            self.shift_left(parent, i, a, b, (in_b - in_a) / 2);
        } else {
            self.shift_right(parent, i, a, b, (in_a - in_b) / 2);
        }
    }

    /// Two children and the entry between become one: the one that holds more, so that little moves.
    fn merge(&mut self, parent: u32, i: usize, a: u32, b: u32) {
        let (in_a, in_b) = (self.count(a), self.count(b));
        let (time, slot) = self.remove_entry(parent, i);
        let (stays, goes) = if in_a < in_b { (b, a) } else { (a, b) };
        self.remove_kid(parent, i + usize::from(stays == a));
        if stays == a {
            self.move_entries((b, 0), (a, in_a + 1), in_b);
        } else {
            self.make_room(b, in_b, in_a + 1);
            self.move_entries((a, 0), (b, 0), in_a);
        }
        let between = stays as usize * self.room + in_a;
        self.times[between] = time;
        self.slots[between] = slot;
        if self.height(a) > 0 && stays == a {
            self.move_kids((b, 0), (a, in_a + 1), in_b + 1);
        } else if self.height(a) > 0 {
            self.move_kids((a, 0), (b, 0), in_a + 1);
        }
        self.set_count(stays, in_a + 1 + in_b);
        self.set_count(goes, 0);
        if self.side(stays) == Side::Inner {
            self.nodes[stays as usize].side = self.side(goes);
        }
        if goes == self.right {
            self.right = stays;
        }
        if goes == self.left {
            self.left = stays;
        }
        self.free_node(goes);
    }

    /// Move entries from b through the parent to a.
    fn shift_left(&mut self, parent: u32, i: usize, a: u32, b: u32, number: usize) {
        let (in_a, in_b) = (self.count(a), self.count(b));
        let between = (parent, i);
        self.move_entries(between, (a, in_a), 1);
        self.move_entries((b, 0), (a, in_a + 1), number - 1);
        self.move_entries((b, number - 1), between, 1);
        self.move_entries((b, number), (b, 0), in_b - number);
        if self.height(a) > 0 {
            self.move_kids((b, 0), (a, in_a + 1), number);
            self.move_kids((b, number), (b, 0), in_b + 1 - number);
        }
        self.set_count(a, in_a + number);
        self.set_count(b, in_b - number);
    }

    /// Move entries from a through the parent to b.
    pub fn shift_right(&mut self, parent: u32, i: usize, a: u32, b: u32, number: usize) {
        let (in_a, in_b) = (self.count(a), self.count(b));
        let between = (parent, i);
        self.make_room(b, in_b, number);
        self.move_entries(between, (b, number - 1), 1);
        self.move_entries((a, in_a - number + 1), (b, 0), number - 1);
        self.move_entries((a, in_a - number), between, 1);
        if self.height(a) > 0 {
            self.move_kids((a, in_a + 1 - number), (b, 0), number);
        }
        self.set_count(a, in_a - number);
        self.set_count(b, in_b + number);
    }

    /// Move all entries and children of a node up by some places.
    fn make_room(&mut self, x: u32, count: usize, number: usize) {
        let at = x as usize * self.room;
        self.times.copy_within(at..at + count, at + number);
        self.slots[at..at + count + number].rotate_right(number);
        let at = x as usize * (self.room + 1);
        self.kids.copy_within(at..=at + count, at + number);
    }

    fn set_count(&mut self, x: u32, count: usize) {
        self.nodes[x as usize].count = u16::try_from(count).expect("arity is small");
    }

    /// The root has one child left, which takes its place. Its spines now begin below it.
    pub fn lower(&mut self) {
        let (old, new) = (self.root, self.kid(self.root, 0));
        self.dirty[self.nodes[old as usize].height as usize].clear();
        self.free_node(old);
        self.touch(new);
        self.nodes[new as usize].parent = super::tree::NIL;
        self.nodes[new as usize].side = Side::Root;
        self.root = new;
        self.mark(new);
        if self.height(new) > 0 {
            let (first, last) = (self.kid(new, 0), self.kid(new, self.count(new)));
            self.touch(first);
            self.touch(last);
            self.nodes[first as usize].side = Side::Left;
            self.nodes[last as usize].side = Side::Right;
            self.mark(first);
            self.mark(last);
        }
    }
}
