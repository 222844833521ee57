//! Two stacks: aggregates from each old entry to the middle, and one of all behind it. O(1) amortised, O(n) at worst.

use crate::windows::fiba::monoid::Monoid;

use super::in_order::{Operator, Queue};

pub struct TwoStacks<M: Monoid> {
    /// From each entry to the last of the front; the oldest on top.
    front: Vec<M::Agg>,
    back: Vec<M::Slot>,
    behind: Option<M::Agg>,
}

impl<M: Monoid> Default for TwoStacks<M> {
    fn default() -> Self {
        Self { front: Vec::new(), back: Vec::new(), behind: None }
    }
}

impl<M: Monoid> Queue<M> for TwoStacks<M> {
    #[inline]
    fn push(&mut self, slot: M::Slot, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        operator.absorb(&mut self.behind, &slot)?;
        self.back.push(slot);
        Ok(())
    }

    #[inline]
    fn pop(&mut self, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        if self.front.is_empty() {
            self.flip(operator)?;
        }
        self.front.pop();
        Ok(())
    }

    #[inline]
    fn query(&mut self, operator: &mut Operator<M>) -> Result<Option<M::Agg>, M::Failure> {
        operator.join(self.front.last().cloned(), self.behind.as_ref())
    }
}

impl<M: Monoid> TwoStacks<M> {
    fn flip(&mut self, operator: &mut Operator<M>) -> Result<(), M::Failure> {
        while let Some(slot) = self.back.pop() {
            let agg = match self.front.last() {
                Some(last) => {
                    let mut agg = last.clone();
                    operator.combines += 1;
                    operator.monoid.prepend(&slot, &mut agg)?;
                    agg
                }
                None => operator.monoid.lift(&slot)?,
            };
            self.front.push(agg);
        }
        self.behind = None;
        Ok(())
    }
}
