//! `Baseline`: the aggregators that FiBA is measured against, behind the part of its interface that all have.

use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::windows::fiba::numbers::{Last, Max, SumInt};
use crate::windows::fiba::python::columns::numbers;
use crate::windows::fiba::python::errors::{same_length, window_error};
use crate::windows::fiba::python::object::{Known, Python_};
use crate::windows::fiba::python::sketches::bloom;
use crate::windows::fiba::python::values::{Of, Sums, Values};
use crate::windows::fiba::python::window::Object;

use super::classic::Classic;
use super::daba_lite::DabaLite;
use super::in_order::InOrder;
use super::reactive::Reactive;
use super::recompute::Recompute;
use super::two_stacks::TwoStacks;

/// An aggregator of a sliding window. If the operator raises, it is of no more use.
pub trait Contender<M: Values>: Send + Sync {
    fn monoid(&self) -> &M;
    fn len(&self) -> usize;
    fn oldest(&self) -> Option<i64>;
    fn insert(&mut self, time: i64, slot: M::Slot) -> PyResult<()>;
    /// There must be one.
    fn evict_oldest(&mut self) -> PyResult<()>;
    fn query(&mut self) -> PyResult<Option<M::Agg>>;
    fn combines(&self) -> u64;
    fn fault(&self) -> PyResult<Option<String>> {
        Ok(None)
    }
}

/// A contender, whatever its monoid.
trait AnyContender: Send + Sync {
    fn len(&self) -> usize;
    fn insert(&mut self, time: i64, value: &Object<'_>) -> PyResult<()>;
    fn evict_oldest(&mut self) -> PyResult<()>;
    fn query<'py>(&mut self, py: Python<'py>) -> PyResult<Object<'py>>;
    fn round<'py>(&mut self, last: i64, time: i64, value: &Object<'py>) -> PyResult<Object<'py>>;
    fn rounds<'py>(&mut self, lasts: &Object<'py>, times: &Object<'py>, values: &Object<'py>) -> PyResult<Object<'py>>;
    fn combines(&self) -> u64;
    fn fault(&self) -> PyResult<Option<String>>;
}

struct Of_<M, C>(C, std::marker::PhantomData<M>);

impl<M: Values, C: Contender<M>> Of_<M, C> {
    /// Evict, insert, query.
    #[inline]
    fn one_round(&mut self, last: i64, time: i64, slot: M::Slot) -> PyResult<M::Out> {
        while self.0.oldest().is_some_and(|oldest| oldest <= last) {
            self.0.evict_oldest()?;
        }
        self.0.insert(time, slot)?;
        let agg = self.0.query()?;
        self.0.monoid().lower(agg.as_ref())
    }
}

impl<M: Values, C: Contender<M>> AnyContender for Of_<M, C> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn insert(&mut self, time: i64, value: &Object<'_>) -> PyResult<()> {
        let slot = self.0.monoid().take(value)?;
        self.0.insert(time, slot)
    }

    fn evict_oldest(&mut self) -> PyResult<()> {
        self.0.evict_oldest()
    }

    fn query<'py>(&mut self, py: Python<'py>) -> PyResult<Object<'py>> {
        let agg = self.0.query()?;
        let out = self.0.monoid().lower(agg.as_ref())?;
        self.0.monoid().give(py, out)
    }

    fn round<'py>(&mut self, last: i64, time: i64, value: &Object<'py>) -> PyResult<Object<'py>> {
        let slot = self.0.monoid().take(value)?;
        let out = self.one_round(last, time, slot)?;
        self.0.monoid().give(value.py(), out)
    }

    fn rounds<'py>(&mut self, lasts: &Object<'py>, times: &Object<'py>, values: &Object<'py>) -> PyResult<Object<'py>> {
        let slots = self.0.monoid().column(values)?;
        let (lasts, times) = (numbers::<i64>(lasts)?, numbers::<i64>(times)?);
        same_length(lasts.len(), slots.len())?;
        same_length(times.len(), slots.len())?;
        let rounds = lasts.into_iter().zip(times).zip(slots);
        let outs = rounds.map(|((last, time), slot)| self.one_round(last, time, slot)).collect::<PyResult<Vec<_>>>()?;
        self.0.monoid().pack(values.py(), outs)
    }

    fn combines(&self) -> u64 {
        self.0.combines()
    }

    fn fault(&self) -> PyResult<Option<String>> {
        self.0.fault()
    }
}

#[pyclass(module = "middleware.native")]
pub struct Baseline(Box<dyn AnyContender>);

#[pymethods]
impl Baseline {
    #[new]
    #[pyo3(signature = (kind, monoid, *, min_arity = 8))]
    fn new(kind: &str, monoid: Bound<'_, PyAny>, min_arity: usize) -> PyResult<Self> {
        let native = monoid.extract::<Known>()?.native;
        let native = native.as_ref().map(|(name, of)| (name.as_str(), of.as_str()));
        Ok(Self(match native {
            Some(("sum", "int")) => contender(kind, SumInt, min_arity)?,
            Some(("max", "int")) => contender(kind, Max(0_i64), min_arity)?,
            Some(("last", "int")) => contender(kind, Last(0_i64), min_arity)?,
            Some(("geomean", "float")) => contender(kind, Sums::new(Of::GeometricMean), min_arity)?,
            Some(("bloom", _)) => contender(kind, bloom(&monoid)?, min_arity)?,
            _ => contender(kind, monoid.extract::<Python_>()?, min_arity)?,
        }))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn insert(&mut self, ts: i64, value: &Object<'_>) -> PyResult<()> {
        self.0.insert(ts, value)
    }

    fn evict_oldest(&mut self) -> PyResult<()> {
        if self.0.len() == 0 {
            return Err(window_error("the window is empty: there is nothing to evict".into()));
        }
        self.0.evict_oldest()
    }

    fn query<'py>(&mut self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.0.query(py)
    }

    fn bulk_insert(&mut self, times: &Object<'_>, values: &Object<'_>) -> PyResult<()> {
        for (time, value) in numbers::<i64>(times)?.into_iter().zip(values.try_iter()?) {
            self.0.insert(time, &value?)?;
        }
        Ok(())
    }

    fn round<'py>(&mut self, evict_upto: i64, ts: i64, value: &Object<'py>) -> PyResult<Object<'py>> {
        self.0.round(evict_upto, ts, value)
    }

    fn rounds<'py>(&mut self, evict_upto: &Object<'py>, times: &Object<'py>, values: &Object<'py>) -> PyResult<Object<'py>> {
        self.0.rounds(evict_upto, times, values)
    }

    #[getter]
    fn work<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let work = PyDict::new(py);
        work.set_item("combines", self.0.combines())?;
        Ok(work)
    }

    fn check(&self) -> PyResult<()> {
        self.0.fault()?.map_or(Ok(()), |fault| Err(PyAssertionError::new_err(fault)))
    }
}

fn contender<M: Values>(kind: &str, monoid: M, min_arity: usize) -> PyResult<Box<dyn AnyContender>> {
    fn boxed<M: Values, C: Contender<M> + 'static>(contender: C) -> Box<dyn AnyContender> {
        Box::new(Of_(contender, std::marker::PhantomData::<M>))
    }
    Ok(match kind {
        "b-tree" => boxed(Classic::new(monoid, min_arity)),
        "two-stacks" => boxed(InOrder::<M, TwoStacks<M>>::new(monoid)),
        "daba-lite" => boxed(InOrder::<M, DabaLite<M>>::new(monoid)),
        "reactive" => boxed(InOrder::<M, Reactive<M>>::new(monoid)),
        "recompute" => boxed(InOrder::<M, Recompute<M>>::new(monoid)),
        _ => {
            return Err(window_error(format!(
                "there is no baseline {kind:?}: say b-tree, two-stacks, daba-lite, reactive or recompute"
            )));
        }
    })
}
