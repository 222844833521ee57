//! Times as Python sees them.

use pyo3::prelude::*;

use super::columns::numbers;
use super::monoid::Monoid;
use super::tree::{Time, Tree};

/// What stands for a time in the tree, and how to get there and back.
pub trait Stamps: Send + Sync + 'static {
    type Time: Time;

    fn take<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>) -> PyResult<Self::Time>;

    /// A time as a lower bound, which is included.
    fn low<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>) -> PyResult<Self::Time>;

    /// A time as an upper bound, which is included.
    fn high<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>) -> PyResult<Self::Time>;

    fn column<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>) -> PyResult<Vec<Self::Time>>;

    fn column_high<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>)
    -> PyResult<Vec<Self::Time>>;

    fn give<'py>(&self, py: Python<'py>, time: Self::Time) -> PyResult<Bound<'py, PyAny>>;
}

/// Plain times: 64-bit integers.
pub struct Plain;

impl Stamps for Plain {
    type Time = i64;

    #[inline]
    fn take<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<i64> {
        time.extract()
    }

    #[inline]
    fn low<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<i64> {
        time.extract()
    }

    #[inline]
    fn high<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<i64> {
        time.extract()
    }

    fn column<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<Vec<i64>> {
        numbers(times)
    }

    fn column_high<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<Vec<i64>> {
        numbers(times)
    }

    fn give<'py>(&self, py: Python<'py>, time: i64) -> PyResult<Bound<'py, PyAny>> {
        Ok(time.into_pyobject(py)?.into_any())
    }
}
