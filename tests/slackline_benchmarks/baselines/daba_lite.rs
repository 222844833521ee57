//! DABA Lite (Tangwongsan, Hirzel and Schneider, 2021): first in, first out, O(1) at worst.
//!
//! The two stacks' flip, done a step at each change. The queue falls into parts, each up to the next border:
//! front: aggregates up to `back`; `left`: aggregates up to `right`; `right`: values; `accumulated`: aggregates up to `back`;
//! `back`: values. Borders count from the first entry there ever was.

use std::collections::VecDeque;

use crate::windows::fiba::monoid::Monoid;

use super::in_order::{Operator, Queue};

pub struct DabaLite<M: Monoid> {
    items: VecDeque<M::Agg>,
    first: usize,
    left: usize,
    right: usize,
    accumulated: usize,
    back: usize,
    /// Of all from `right` to `back`, as they were when the queue was flipped.
    of_middle: Option<M::Agg>,
    /// Of all from `back` on.
    of_back: Option<M::Agg>,
}

impl<M: Monoid> Default for DabaLite<M> {
    fn default() -> Self {
        Self { items: VecDeque::new(), first: 0, left: 0, right: 0, accumulated: 0, back: 0, of_middle: None, of_back: None }
    }
}

impl<M: Monoid> Queue<M> for DabaLite<M> {
    #[inline]
    fn push(&mut self, slot: M::Slot, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        operator.absorb(&mut self.of_back, &slot)?;
        self.items.push_back(operator.monoid.lift(&slot)?);
        self.step(operator)
    }

    #[inline]
    fn pop(&mut self, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        self.items.pop_front();
        self.first += 1;
        self.step(operator)
    }

    #[inline]
    fn query(&mut self, operator: &mut Operator<M>) -> Result<Option<M::Agg>, M::Failure> {
        operator.join(self.items.front().cloned(), self.of_back.as_ref())
    }
}

impl<M: Monoid> DabaLite<M> {
    #[inline]
    fn step(&mut self, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        let end = self.first + self.items.len();
        if self.first == self.back {
            (self.left, self.right, self.accumulated, self.back) = (end, end, end, end);
            (self.of_middle, self.of_back) = (None, None);
            return Ok(());
        }
        if self.left == self.back {
            (self.left, self.right, self.accumulated, self.back) = (self.first, self.back, end, end);
            self.of_middle = self.of_back.take();
        }
        if self.left == self.right {
            self.left += 1;
            self.right += 1;
            self.accumulated += 1;
            return Ok(());
        }
        self.shrink(operator)
    }

    /// One more of the left part is known up to `back`, and one more of the right part.
    #[inline]
    fn shrink(&mut self, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        if let Some(of_middle) = &self.of_middle {
            operator.combines += 1;
            operator.monoid.combine(&mut self.items[self.left - self.first], of_middle)?;
        }
        self.left += 1;
        self.accumulated -= 1;
        let at = self.accumulated - self.first;
        if self.accumulated + 1 != self.back {
            let next = std::mem::take(&mut self.items[at + 1]);
            operator.combines += 1;
            operator.monoid.combine(&mut self.items[at], &next)?;
            self.items[at + 1] = next;
        }
        Ok(())
    }
}
