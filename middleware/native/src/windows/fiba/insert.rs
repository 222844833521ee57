//! Insertion: find the leaf, put the entry there, split what is too full, repair.

use super::monoid::Monoid;
use super::search::Place;
use super::tree::{Side, Time, Tree};

impl<K: Time, M: Monoid> Tree<K, M> {
    /// Put a value at a time. What is there already stays and comes first, or is replaced. O(log d), amortised O(1) in order.
    #[inline]
    pub fn insert(&mut self, time: K, slot: M::Slot, replace: bool) -> Result<(), M::Failure> {
        if M::FINGERS && self.len > 0 && time > self.last_time(self.right) {
            if self.count(self.right) < self.most() {
                return self.atomic(|tree| tree.append(time, slot));
            }
            if self.right != self.left {
                return self.atomic(|tree| tree.append_to_full(time, slot));
            }
        }
        if self.front > 0 && self.oldest().is_some_and(|oldest| time < oldest) && self.knows_suffixes() {
            return self.prepend(time, slot);
        }
        if !self.is_right(time) {
            self.settle();
        }
        self.atomic(|tree| tree.insert_anywhere(time, slot, replace))
    }

    /// Whether a time belongs below the root's last child: nothing is done to the left finger there.
    #[inline]
    fn is_right(&self, time: K) -> bool {
        M::FINGERS && self.height(self.root) > 0 && time > self.last_time(self.root)
    }

    /// In order, and there is room: one combine.
    #[inline]
    fn append(&mut self, time: K, slot: M::Slot) -> Result<(), M::Failure> {
        let x = self.right;
        self.absorb_at(x, &slot)?;
        self.push_entry(x, time, slot);
        self.len += 1;
        Ok(())
    }

    /// Before all others, where an entry was evicted in order: what is known of the left finger stays true without this one.
    fn prepend(&mut self, time: K, slot: M::Slot) -> Result<(), M::Failure> {
        let x = self.left as usize;
        self.suffixes[0].push(self.aggs[x].clone());
        self.monoid.prepend(&slot, &mut self.aggs[x])?;
        self.work.combines += 1;
        self.front -= 1;
        self.len += 1;
        self.times[x * self.room + self.front] = time;
        self.slots[x * self.room + self.front] = slot;
        Ok(())
    }

    /// In order, and there is no room: the leaf is complete, a new one begins, and the parent's aggregate grows by both.
    fn append_to_full(&mut self, time: K, slot: M::Slot) -> Result<(), M::Failure> {
        let (x, parent) = (self.right, self.parent(self.right));
        self.push_entry(x, time, slot);
        self.len += 1;
        if self.count(parent) == self.most() {
            self.split_up(x, true);
            return self.repair();
        }
        let y = self.split(x, true);
        self.refresh(x, Side::Inner)?;
        self.absorb_kid(parent, x)?;
        self.refresh(y, Side::Right)
    }

    fn insert_anywhere(&mut self, time: K, slot: M::Slot, replace: bool) -> Result<(), M::Failure> {
        let place = self.locate(time);
        if place.found {
            return self.insert_again(place.x, place.i, slot, replace);
        }
        self.len += 1;
        let at_end = self.is_end(place);
        if !self.monoid.commutes() || self.len == 1 {
            self.insert_entry(place.x, place.i, time, slot);
            self.split_up(place.x, at_end);
            return self.repair();
        }
        self.insert_entry(place.x, place.i, time, slot.clone());
        if self.count(place.x) <= self.most() {
            return self.absorb_from(place.x, &slot);
        }
        let (top, off_spines) = self.split_up(place.x, at_end);
        if off_spines {
            self.unmark(top);
            self.repair_below(top)?;
            return self.absorb_from(top, &slot);
        }
        self.repair()
    }

    /// A second value at a time.
    fn insert_again(&mut self, x: u32, i: usize, slot: M::Slot, replace: bool) -> Result<(), M::Failure> {
        self.touch(x);
        let at = x as usize * self.room + i;
        if replace {
            self.slots[at] = slot;
        } else {
            self.work.combines += 1;
            self.monoid.merge(&mut self.slots[at], &slot)?;
            if self.monoid.commutes() {
                return self.absorb_from(x, &slot);
            }
        }
        self.mark(x);
        self.repair()
    }

    /// Whether this is where the window ends.
    #[inline]
    pub fn is_end(&self, place: Place) -> bool {
        M::FINGERS && place.x == self.right && place.i == self.count(place.x)
    }

    /// Split what is too full, from x up; `at_end`: because of an entry where the window ends. Marks what changed; returns the
    /// topmost of it, and whether all that split is off the spines.
    pub fn split_up(&mut self, mut x: u32, at_end: bool) -> (u32, bool) {
        let mut off_spines = true;
        self.mark(x);
        if self.give_to_last(x) {
            return (x, false);
        }
        while self.count(x) > self.most() {
            off_spines &= self.side(x) == Side::Inner;
            let y = self.split(x, at_end);
            self.mark(y);
            x = self.parent(x);
            self.mark(x);
        }
        (x, off_spines)
    }

    /// A leaf that is too full, next to a right finger that is not half full, shares its entries with it: what comes a little late
    /// then finds its place in the finger. Whether that was so.
    fn give_to_last(&mut self, x: u32) -> bool {
        let (last, parent) = (self.right, self.parent(x));
        if self.count(x) <= self.most() || self.covers(x) != Side::Inner || !M::FINGERS || self.parent(last) != parent {
            return false;
        }
        let i = self.count(parent) - 1;
        if self.kid(parent, i) != x || self.count(last) >= self.min {
            return false;
        }
        for changed in [x, last, parent] {
            self.touch(changed);
            self.mark(changed);
        }
        self.shift_right(parent, i, x, last, (self.count(x) - self.count(last)) / 2);
        true
    }

    /// Entries go to a new right sibling, which is returned, the one before them to the parent: half of them, the smaller share
    /// staying; or, where the window ends, two. What stays then is complete, but has room for one more: when the window leaves
    /// behind what is before it, it takes in the entry between, and nothing else moves.
    fn split(&mut self, x: u32, at_end: bool) -> u32 {
        if self.side(x) == Side::Root {
            self.grow(x);
        }
        let (height, side) = (self.height(x), self.side(x));
        let stay = if at_end { 2 * self.min - 3 } else { self.min - 1 };
        let go = self.count(x) - stay - 1;
        let (mine, theirs) = match side {
            Side::Root => (Side::Left, Side::Right),
            Side::Right => (Side::Inner, Side::Right),
            Side::Left | Side::Inner => (side, Side::Inner),
        };
        let y = self.new_node(height, theirs);
        self.touch(x);
        self.nodes[x as usize].side = mine;
        self.move_entries((x, stay + 1), (y, 0), go);
        self.nodes[y as usize].count = u16::try_from(go).expect("arity is small");
        if height > 0 {
            self.move_kids((x, stay + 1), (y, 0), go + 1);
        }
        self.nodes[x as usize].count -= u16::try_from(go).expect("arity is small");
        let (time, slot) = self.remove_entry(x, stay);
        let parent = self.parent(x);
        let place = if theirs == Side::Right { self.count(parent) } else { self.place(x) };
        self.insert_entry(parent, place, time, slot);
        self.insert_kid(parent, place + 1, y);
        if x == self.right {
            self.right = y;
        }
        y
    }

    /// A new root above the old one, which is about to be split.
    fn grow(&mut self, x: u32) {
        let root = self.new_node(self.height(x) + 1, Side::Root);
        self.kids[root as usize * (self.room + 1)] = x;
        self.adopt(root, x);
        self.root = root;
    }

    /// Take a node off the list for repair. It was the last one listed.
    fn unmark(&mut self, x: u32) {
        let node = &mut self.nodes[x as usize];
        node.dirty = false;
        self.dirty[node.height as usize].pop();
    }

    /// Recompute what is marked below a node; all of it is off the spines.
    fn repair_below(&mut self, top: u32) -> Result<(), M::Failure> {
        for height in 0..self.height(top) as usize {
            while let Some(x) = self.dirty[height].pop() {
                self.nodes[x as usize].dirty = false;
                self.refresh(x, Side::Inner)?;
            }
        }
        Ok(())
    }
}
