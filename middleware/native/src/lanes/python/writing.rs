//! Lanes that are being written down: a few at a time, and yet all as they were at one moment.

use std::collections::HashMap;
use std::ops::Range;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::running::Objects;
use super::shared::Shared;
use crate::lanes::lane::Lane;

/// The lanes from `next` to `end` have yet to be given. One that is touched before its turn is copied first.
#[derive(Default)]
pub struct Writing {
    next: usize,
    end: usize,
    /// How far the unit had got.
    settled: i64,
    copies: HashMap<usize, Py<PyTuple>>,
}

impl Writing {
    pub fn of(lanes: usize, settled: i64) -> Self {
        Self { next: 0, end: lanes, settled, copies: HashMap::new() }
    }

    /// A lane is about to be touched.
    #[inline]
    pub fn before(&mut self, py: Python<'_>, number: usize, lane: &mut Lane<Objects>, shared: &mut Shared) -> PyResult<()> {
        if number < self.end && number >= self.next { self.copy(py, number, lane, shared) } else { Ok(()) }
    }

    #[cold]
    fn copy(&mut self, py: Python<'_>, number: usize, lane: &mut Lane<Objects>, shared: &mut Shared) -> PyResult<()> {
        if !self.copies.contains_key(&number) {
            self.copies.insert(number, lane.whole_state(py, self.settled, shared)?.unbind());
        }
        Ok(())
    }

    /// The numbers of the lanes to be given next; `state_of` is to be asked for each of them.
    pub fn next(&mut self, count: usize) -> Range<usize> {
        let first = self.next;
        self.next = self.end.min(first + count);
        first..self.next
    }

    pub fn state_of<'py>(
        &mut self,
        py: Python<'py>,
        number: usize,
        lane: &mut Lane<Objects>,
        shared: &mut Shared,
    ) -> PyResult<Bound<'py, PyTuple>> {
        match self.copies.remove(&number) {
            Some(copy) => Ok(copy.into_bound(py)),
            None => lane.whole_state(py, self.settled, shared),
        }
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.copies.values().try_for_each(|copy| visit.call(copy))
    }
}
