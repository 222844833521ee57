//! Aggregators of windows that are first in, first out.

use std::collections::VecDeque;

use pyo3::PyResult;

use crate::windows::fiba::monoid::Monoid;
use crate::windows::fiba::python::errors::window_error;
use crate::windows::fiba::python::values::Values;

use super::python::Contender;

/// The operator, and how often it was used.
pub struct Operator<M> {
    pub monoid: M,
    pub combines: u64,
}

impl<M: Monoid> Operator<M> {
    /// one * other; None is the identity.
    #[inline]
    pub fn join(&mut self, one: Option<M::Agg>, other: Option<&M::Agg>) -> Result<Option<M::Agg>, M::Failure> {
        let Some(other) = other else { return Ok(one) };
        let Some(mut one) = one else { return Ok(Some(other.clone())) };
        self.combines += 1;
        self.monoid.combine(&mut one, other)?;
        Ok(Some(one))
    }

    /// agg := agg * slot; None is the identity.
    #[inline]
    pub fn absorb(&mut self, agg: &mut Option<M::Agg>, slot: &M::Slot) -> Result<(), M::Failure> {
        if let Some(agg) = agg {
            self.combines += 1;
            return self.monoid.absorb(agg, slot);
        }
        *agg = Some(self.monoid.lift(slot)?);
        Ok(())
    }
}

/// A queue of values that knows its aggregate.
pub trait Queue<M: Monoid>: Default + Send + Sync {
    fn push(&mut self, slot: M::Slot, operator: &mut Operator<M>) -> Result<(), M::Failure>;
    /// Drop the oldest; there must be one.
    fn pop(&mut self, operator: &mut Operator<M>) -> Result<(), M::Failure>;
    fn query(&mut self, operator: &mut Operator<M>) -> Result<Option<M::Agg>, M::Failure>;
}

/// A queue, and the times of what is in it.
pub struct InOrder<M, Q> {
    operator: Operator<M>,
    queue: Q,
    times: VecDeque<i64>,
}

impl<M: Monoid, Q: Queue<M>> InOrder<M, Q> {
    pub fn new(monoid: M) -> Self {
        Self { operator: Operator { monoid, combines: 0 }, queue: Q::default(), times: VecDeque::new() }
    }
}

impl<M: Values, Q: Queue<M>> Contender<M> for InOrder<M, Q> {
    fn monoid(&self) -> &M {
        &self.operator.monoid
    }

    fn len(&self) -> usize {
        self.times.len()
    }

    #[inline]
    fn oldest(&self) -> Option<i64> {
        self.times.front().copied()
    }

    #[inline]
    fn insert(&mut self, time: i64, slot: M::Slot) -> PyResult<()> {
        if self.times.back().is_some_and(|&youngest| youngest >= time) {
            return Err(window_error(format!("{time} is out of order: this aggregator takes events in order alone")));
        }
        self.queue.push(slot, &mut self.operator).map_err(Into::into)?;
        self.times.push_back(time);
        Ok(())
    }

    #[inline]
    fn evict_oldest(&mut self) -> PyResult<()> {
        self.times.pop_front();
        self.queue.pop(&mut self.operator).map_err(Into::into)
    }

    #[inline]
    fn query(&mut self) -> PyResult<Option<M::Agg>> {
        self.queue.query(&mut self.operator).map_err(Into::into)
    }

    fn combines(&self) -> u64 {
        self.operator.combines
    }
}
