//! One tree behind one interface, whatever its times and its monoid are.

use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::errors::{same_length, window_error};
use super::times::Stamps;
use super::values::Values;
use crate::windows::fiba::tree::{Time, Tree};

pub type Object<'py> = Bound<'py, PyAny>;

/// The operations of `Fiba` on a tree.
pub trait Window: Send + Sync {
    fn len(&self) -> usize;
    fn insert(&mut self, time: &Object<'_>, value: &Object<'_>, replace: bool) -> PyResult<()>;
    fn evict(&mut self, time: &Object<'_>) -> PyResult<bool>;
    fn evict_oldest(&mut self) -> PyResult<()>;
    fn query<'py>(&mut self, py: Python<'py>) -> PyResult<Object<'py>>;
    fn range<'py>(&mut self, low: &Object<'py>, high: &Object<'py>) -> PyResult<Object<'py>>;
    fn bulk_insert(&mut self, times: &Object<'_>, values: &Object<'_>, replace: bool) -> PyResult<()>;
    fn bulk_evict(&mut self, last: &Object<'_>) -> PyResult<usize>;
    fn round<'py>(&mut self, last: &Object<'py>, time: &Object<'py>, value: &Object<'py>) -> PyResult<Object<'py>>;
    fn rounds<'py>(&mut self, lasts: &Object<'py>, times: &Object<'py>, values: &Object<'py>) -> PyResult<Object<'py>>;
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>>;
    fn oldest<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>>;
    fn youngest<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>>;
    fn clear(&mut self);
    fn work<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>>;
    fn check(&self) -> PyResult<()>;
    /// Times, and what is held at them, as Python pickles it.
    fn save<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)>;
    /// The way back, into an empty window.
    fn load(&mut self, times: &Object<'_>, slots: &Object<'_>) -> PyResult<()>;
}

pub struct Typed<S: Stamps, M: Values> {
    pub stamps: S,
    pub tree: Tree<S::Time, M>,
}

impl<S: Stamps, M: Values> Typed<S, M> {
    pub fn boxed(stamps: S, monoid: M, min: usize) -> Box<dyn Window> {
        Box::new(Self { stamps, tree: Tree::new(monoid, min) })
    }
}

/// Evict, insert, query.
#[inline]
fn one_round<K: Time, M: Values>(tree: &mut Tree<K, M>, last: K, time: K, slot: M::Slot) -> PyResult<M::Out> {
    tree.advance(last).map_err(Into::into)?;
    tree.insert(time, slot, false).map_err(Into::into)?;
    let agg = tree.query().map_err(Into::into)?;
    tree.monoid.lower(agg.as_ref())
}

impl<S: Stamps, M: Values> Window for Typed<S, M> {
    fn len(&self) -> usize {
        self.tree.len
    }

    fn insert(&mut self, time: &Object<'_>, value: &Object<'_>, replace: bool) -> PyResult<()> {
        let slot = self.tree.monoid.take(value)?;
        let time = self.stamps.take(time, &mut self.tree)?;
        self.tree.insert(time, slot, replace).map_err(Into::into)
    }

    fn evict(&mut self, time: &Object<'_>) -> PyResult<bool> {
        let time = self.stamps.take(time, &mut self.tree)?;
        self.tree.evict(time).map_err(Into::into)
    }

    fn evict_oldest(&mut self) -> PyResult<()> {
        self.tree.evict_oldest().map_err(Into::into)
    }

    fn query<'py>(&mut self, py: Python<'py>) -> PyResult<Object<'py>> {
        let agg = self.tree.query().map_err(Into::into)?;
        let out = self.tree.monoid.lower(agg.as_ref())?;
        self.tree.monoid.give(py, out)
    }

    fn range<'py>(&mut self, low: &Object<'py>, high: &Object<'py>) -> PyResult<Object<'py>> {
        if S::MOVES {
            self.stamps.high(high, &mut self.tree)?;
        }
        let low_time = self.stamps.low(low, &mut self.tree)?;
        let high_time = self.stamps.high(high, &mut self.tree)?;
        let agg = self.tree.range(low_time, high_time).map_err(Into::into)?;
        let out = self.tree.monoid.lower(agg.as_ref())?;
        self.tree.monoid.give(low.py(), out)
    }

    fn bulk_insert(&mut self, times: &Object<'_>, values: &Object<'_>, replace: bool) -> PyResult<()> {
        let slots = self.tree.monoid.column(values)?;
        let times = self.stamps.column(times, &mut self.tree)?;
        same_length(times.len(), slots.len())?;
        if let Some(at) = (1..times.len()).find(|&at| times[at] < times[at - 1]) {
            return Err(window_error(format!("the times are not sorted: the one at {at} is before the one at {}", at - 1)));
        }
        self.tree.bulk_insert(times.into_iter().zip(slots), replace).map_err(Into::into)
    }

    fn bulk_evict(&mut self, last: &Object<'_>) -> PyResult<usize> {
        let last = self.stamps.high(last, &mut self.tree)?;
        self.tree.bulk_evict(last).map_err(Into::into)
    }

    #[inline]
    fn round<'py>(&mut self, last: &Object<'py>, time: &Object<'py>, value: &Object<'py>) -> PyResult<Object<'py>> {
        let slot = self.tree.monoid.take(value)?;
        if S::MOVES {
            self.stamps.take(time, &mut self.tree)?;
        }
        let last = self.stamps.high(last, &mut self.tree)?;
        let time = self.stamps.take(time, &mut self.tree)?;
        let out = self.tree.atomic(|tree| one_round(tree, last, time, slot))?;
        self.tree.monoid.give(value.py(), out)
    }

    fn rounds<'py>(&mut self, lasts: &Object<'py>, times: &Object<'py>, values: &Object<'py>) -> PyResult<Object<'py>> {
        let slots = self.tree.monoid.column(values)?;
        if S::MOVES {
            self.stamps.column(times, &mut self.tree)?;
        }
        let lasts = self.stamps.column_high(lasts, &mut self.tree)?;
        let times = self.stamps.column(times, &mut self.tree)?;
        same_length(lasts.len(), slots.len())?;
        same_length(times.len(), slots.len())?;
        let rounds = lasts.into_iter().zip(times).zip(slots);
        let outs = self.tree.atomic(|tree| {
            rounds.map(|((last, time), slot)| one_round(tree, last, time, slot)).collect::<PyResult<Vec<_>>>()
        })?;
        self.tree.monoid.pack(values.py(), outs)
    }

    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let items = PyList::empty(py);
        let tree = &self.tree;
        tree.each(tree.root, &mut |time, slot| {
            let value = tree.monoid.lower(Some(&tree.monoid.lift(slot).map_err(Into::into)?))?;
            items.append((self.stamps.give(py, time)?, tree.monoid.give(py, value)?))
        })?;
        Ok(items)
    }

    fn oldest<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.tree.oldest().map_or_else(|| Ok(py.None().into_bound(py)), |time| self.stamps.give(py, time))
    }

    fn youngest<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.tree.youngest().map_or_else(|| Ok(py.None().into_bound(py)), |time| self.stamps.give(py, time))
    }

    fn clear(&mut self) {
        self.tree.clear();
    }

    fn work<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let work = PyDict::new(py);
        work.set_item("combines", self.tree.work.combines)?;
        work.set_item("visits", self.tree.work.visits)?;
        Ok(work)
    }

    fn save<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let (times, slots) = (PyList::empty(py), PyList::empty(py));
        self.tree.each(self.tree.root, &mut |time, slot| {
            times.append(self.stamps.give(py, time)?)?;
            slots.append(self.tree.monoid.save(py, slot)?)
        })?;
        Ok((times, slots))
    }

    fn load(&mut self, times: &Object<'_>, slots: &Object<'_>) -> PyResult<()> {
        let times = self.stamps.column(times, &mut self.tree)?;
        let slots = slots.try_iter()?.map(|slot| self.tree.monoid.load(&slot?)).collect::<PyResult<Vec<_>>>()?;
        same_length(times.len(), slots.len())?;
        self.tree.bulk_insert(times.into_iter().zip(slots), true).map_err(Into::into)
    }

    fn check(&self) -> PyResult<()> {
        self.tree.fault().map_err(Into::into)?.map_or(Ok(()), |fault| Err(PyAssertionError::new_err(fault)))
    }
}
