//! Every result anew from all values: O(n).

use std::collections::VecDeque;

use crate::windows::fiba::monoid::Monoid;

use super::in_order::{Operator, Queue};

pub struct Recompute<M: Monoid>(VecDeque<M::Slot>);

impl<M: Monoid> Default for Recompute<M> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<M: Monoid> Queue<M> for Recompute<M> {
    fn push(&mut self, slot: M::Slot, _: &mut Operator<M>) -> Result<(), M::Failure> {
        self.0.push_back(slot);
        Ok(())
    }

    fn pop(&mut self, _: &mut Operator<M>) -> Result<(), M::Failure> {
        self.0.pop_front();
        Ok(())
    }

    fn query(&mut self, operator: &mut Operator<M>) -> Result<Option<M::Agg>, M::Failure> {
        let mut agg = None;
        self.0.iter().try_for_each(|slot| operator.absorb(&mut agg, slot))?;
        Ok(agg)
    }
}
