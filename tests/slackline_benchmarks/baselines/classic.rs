//! The classic B-tree with augmented aggregates: FiBA's own tree without fingers, each node with the aggregate of its subtree.

use pyo3::PyResult;

use crate::windows::fiba::monoid::Monoid;
use crate::windows::fiba::python::values::Values;
use crate::windows::fiba::tree::Tree;

use super::python::Contender;

/// A monoid for trees without fingers.
pub struct WithoutFingers<M>(M);

impl<M: Monoid> Monoid for WithoutFingers<M> {
    type Slot = M::Slot;
    type Agg = M::Agg;
    type Failure = M::Failure;

    const FALLIBLE: bool = M::FALLIBLE;
    const FINGERS: bool = false;

    fn commutes(&self) -> bool {
        self.0.commutes()
    }

    fn lift(&self, slot: &M::Slot) -> Result<M::Agg, M::Failure> {
        self.0.lift(slot)
    }

    #[inline]
    fn absorb(&self, agg: &mut M::Agg, slot: &M::Slot) -> Result<(), M::Failure> {
        self.0.absorb(agg, slot)
    }

    #[inline]
    fn combine(&self, agg: &mut M::Agg, right: &M::Agg) -> Result<(), M::Failure> {
        self.0.combine(agg, right)
    }

    fn merge(&self, slot: &mut M::Slot, later: &M::Slot) -> Result<(), M::Failure> {
        self.0.merge(slot, later)
    }

    fn same(&self, one: &M::Agg, other: &M::Agg) -> Result<bool, M::Failure> {
        self.0.same(one, other)
    }
}

pub struct Classic<M: Monoid>(Tree<i64, WithoutFingers<M>>);

impl<M: Monoid> Classic<M> {
    pub fn new(monoid: M, min_arity: usize) -> Self {
        Self(Tree::new(WithoutFingers(monoid), min_arity))
    }
}

impl<M: Values> Contender<M> for Classic<M> {
    fn monoid(&self) -> &M {
        &self.0.monoid.0
    }

    fn len(&self) -> usize {
        self.0.len
    }

    #[inline]
    fn oldest(&self) -> Option<i64> {
        self.0.oldest()
    }

    #[inline]
    fn insert(&mut self, time: i64, slot: M::Slot) -> PyResult<()> {
        self.0.insert(time, slot, false).map_err(Into::into)
    }

    #[inline]
    fn evict_oldest(&mut self) -> PyResult<()> {
        self.0.evict_oldest().map_err(Into::into)
    }

    #[inline]
    fn query(&mut self) -> PyResult<Option<M::Agg>> {
        self.0.query().map_err(Into::into)
    }

    fn combines(&self) -> u64 {
        self.0.work.combines
    }

    fn fault(&self) -> PyResult<Option<String>> {
        self.0.fault().map_err(Into::into)
    }
}
