//! Queries: the whole window in O(1), a range of it in O(log of its distance from the ends and of its size).

use super::monoid::{Monoid, Product};
use super::search::rank;
use super::tree::{Side, Time, Tree};

impl<K: Time, M: Monoid> Tree<K, M> {
    /// The product of all values in order; None of none.
    #[inline]
    pub fn query(&mut self) -> Result<Option<M::Agg>, M::Failure> {
        if self.len == 0 {
            return Ok(None);
        }
        if self.height(self.root) == 0 || !M::FINGERS {
            return Ok(Some(self.aggs[self.root as usize].clone()));
        }
        let mut value = self.aggs[self.left as usize].clone();
        self.monoid.combine(&mut value, &self.aggs[self.root as usize])?;
        self.monoid.combine(&mut value, &self.aggs[self.right as usize])?;
        self.work.combines += 2;
        Ok(Some(value))
    }

    /// The product of the values from `low` to `high`, both included (section 4).
    pub fn range(&mut self, low: K, high: K) -> Result<Option<M::Agg>, M::Failure> {
        let (Some(oldest), Some(youngest)) = (self.oldest(), self.youngest()) else { return Ok(None) };
        if low <= oldest && high >= youngest {
            return self.query();
        }
        if low > high || low > youngest || high < oldest {
            return Ok(None);
        }
        self.settle();
        let x = self.common_ancestor(low, high);
        let mut product = Product::new(&self.monoid);
        let visits = self.between(x, low, high, &mut product)?;
        let combines = product.combines();
        let value = product.finish();
        self.work.combines += combines;
        self.work.visits += visits;
        Ok(value)
    }

    /// The lowest node with the whole range in its subtree.
    fn common_ancestor(&mut self, low: K, high: K) -> u32 {
        let root = self.root;
        let mut x = if self.height(root) == 0 || !M::FINGERS {
            root
        } else if low > self.last_time(root) {
            self.climb_right(low)
        } else if high < self.first_time(root) {
            self.climb_left(high)
        } else {
            root
        };
        loop {
            self.work.visits += 1;
            let times = self.times_of(x);
            let i = rank(times, low);
            if self.height(x) == 0 || times.get(i).is_some_and(|&time| time <= high) {
                return x;
            }
            x = self.kid(x, i);
        }
    }

    /// The aggregate between the bounds in the subtree of x. These four return how many nodes they looked at.
    fn between(&self, x: u32, low: K, high: K, product: &mut Product<'_, M>) -> Result<u64, M::Failure> {
        let (times, slots) = (self.times_of(x), self.slots_of(x));
        let from = rank(times, low);
        let to = times.iter().filter(|&&time| time <= high).count();
        if self.height(x) == 0 {
            slots[from..to.max(from)].iter().try_for_each(|slot| product.slot(slot))?;
            return Ok(1);
        }
        let mut visits = 1;
        if times[from] != low {
            visits += self.at_or_above(self.kid(x, from), low, product)?;
        }
        for (i, slot) in slots.iter().enumerate().take(to).skip(from) {
            product.slot(slot)?;
            if i + 1 < to {
                visits += self.whole(self.kid(x, i + 1), product)?;
            }
        }
        if times[to - 1] != high {
            visits += self.at_or_below(self.kid(x, to), high, product)?;
        }
        Ok(visits)
    }

    fn at_or_above(&self, x: u32, low: K, product: &mut Product<'_, M>) -> Result<u64, M::Failure> {
        let (times, slots, mut visits) = (self.times_of(x), self.slots_of(x), 1);
        let from = rank(times, low);
        let inner = self.height(x) > 0;
        if inner && times.get(from) != Some(&low) {
            visits += self.at_or_above(self.kid(x, from), low, product)?;
        }
        for (i, slot) in slots.iter().enumerate().skip(from) {
            product.slot(slot)?;
            if inner {
                visits += self.whole(self.kid(x, i + 1), product)?;
            }
        }
        Ok(visits)
    }

    fn at_or_below(&self, x: u32, high: K, product: &mut Product<'_, M>) -> Result<u64, M::Failure> {
        let (times, slots, mut visits) = (self.times_of(x), self.slots_of(x), 1);
        let to = times.iter().filter(|&&time| time <= high).count();
        let inner = self.height(x) > 0;
        for (i, slot) in slots.iter().enumerate().take(to) {
            if inner {
                visits += self.whole(self.kid(x, i), product)?;
            }
            product.slot(slot)?;
        }
        if inner && (to == 0 || times[to - 1] != high) {
            visits += self.at_or_below(self.kid(x, to), high, product)?;
        }
        Ok(visits)
    }

    /// A whole subtree. Nodes on a spine do not know theirs: below the root the finger does, elsewhere it is put together.
    fn whole(&self, x: u32, product: &mut Product<'_, M>) -> Result<u64, M::Failure> {
        match self.covers(x) {
            Side::Inner => product.agg(&self.aggs[x as usize]).map(|()| 1),
            Side::Left if self.parent(x) == self.root => product.agg(&self.aggs[self.left as usize]).map(|()| 1),
            Side::Right if self.parent(x) == self.root => product.agg(&self.aggs[self.right as usize]).map(|()| 1),
            _ => {
                let inner = self.height(x) > 0;
                let mut visits = 1;
                for (i, slot) in self.slots_of(x).iter().enumerate() {
                    if inner {
                        visits += self.whole(self.kid(x, i), product)?;
                    }
                    product.slot(slot)?;
                }
                if inner {
                    visits += self.whole(self.kid(x, self.count(x)), product)?;
                }
                Ok(visits)
            }
        }
    }

    /// All entries of a subtree in order, to `visit`.
    pub fn each<E>(&self, x: u32, visit: &mut impl FnMut(K, &M::Slot) -> Result<(), E>) -> Result<(), E> {
        let inner = self.height(x) > 0;
        for (i, (&time, slot)) in self.times_of(x).iter().zip(self.slots_of(x)).enumerate().skip(self.evicted(x)) {
            if inner {
                self.each(self.kid(x, i), visit)?;
            }
            visit(time, slot)?;
        }
        if inner { self.each(self.kid(x, self.count(x)), visit) } else { Ok(()) }
    }
}
