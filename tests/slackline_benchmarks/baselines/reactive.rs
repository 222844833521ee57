//! The Reactive Aggregator (Tangwongsan et al., VLDB 2015): a perfect binary tree without pointers over a ring. O(log n).

use crate::windows::fiba::monoid::Monoid;

use super::in_order::{Operator, Queue};

pub struct Reactive<M: Monoid> {
    /// The root is 1, the children of i are 2 i and 2 i + 1; the second half are the leaves. None: nothing there.
    tree: Vec<Option<M::Agg>>,
    first: usize,
    count: usize,
}

impl<M: Monoid> Default for Reactive<M> {
    fn default() -> Self {
        Self { tree: vec![None; 2], first: 0, count: 0 }
    }
}

impl<M: Monoid> Queue<M> for Reactive<M> {
    fn push(&mut self, slot: M::Slot, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        if self.count == self.room() {
            self.resize(2 * self.room(), operator)?;
        }
        let at = (self.first + self.count) % self.room();
        self.count += 1;
        let agg = operator.monoid.lift(&slot)?;
        self.set(at, Some(agg), operator)
    }

    fn pop(&mut self, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        let at = self.first;
        self.first = (self.first + 1) % self.room();
        self.count -= 1;
        self.set(at, None, operator)?;
        if self.room() > 2 && self.count < self.room() / 4 {
            self.resize(self.room() / 2, operator)?;
        }
        Ok(())
    }

    fn query(&mut self, operator: &mut Operator<M>) -> Result<Option<M::Agg>, M::Failure> {
        if self.first + self.count <= self.room() {
            return Ok(self.tree[1].clone());
        }
        let old = self.suffix(self.first, operator)?;
        let young = self.prefix((self.first + self.count - 1) % self.room(), operator)?;
        operator.join(old, young.as_ref())
    }
}

impl<M: Monoid> Reactive<M> {
    fn room(&self) -> usize {
        self.tree.len() / 2
    }

    fn set(&mut self, leaf: usize, agg: Option<M::Agg>, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        let mut i = leaf + self.room();
        self.tree[i] = agg;
        while i > 1 {
            i /= 2;
            self.tree[i] = operator.join(self.tree[2 * i].clone(), self.tree[2 * i + 1].as_ref())?;
        }
        Ok(())
    }

    /// Of all leaves from this one to the last.
    fn suffix(&self, leaf: usize, operator: &mut Operator<M>) -> Result<Option<M::Agg>, M::Failure> {
        let mut i = leaf + self.room();
        let mut agg = self.tree[i].clone();
        while i > 1 {
            if i.is_multiple_of(2) {
                agg = operator.join(agg, self.tree[i + 1].as_ref())?;
            }
            i /= 2;
        }
        Ok(agg)
    }

    /// Of all leaves up to this one.
    fn prefix(&self, leaf: usize, operator: &mut Operator<M>) -> Result<Option<M::Agg>, M::Failure> {
        let mut i = leaf + self.room();
        let mut agg = self.tree[i].clone();
        while i > 1 {
            if !i.is_multiple_of(2) {
                agg = operator.join(self.tree[i - 1].clone(), agg.as_ref())?;
            }
            i /= 2;
        }
        Ok(agg)
    }

    fn resize(&mut self, room: usize, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        let mut tree = vec![None; 2 * room];
        for offset in 0..self.count {
            let leaf = self.room() + (self.first + offset) % self.room();
            tree[room + offset] = self.tree[leaf].take();
        }
        for i in (1..room).rev() {
            tree[i] = operator.join(tree[2 * i].clone(), tree[2 * i + 1].as_ref())?;
        }
        (self.tree, self.first) = (tree, 0);
        Ok(())
    }
}
