//! How each built-in monoid meets Python: what it takes, what it gives.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::columns::{Number, array, numbers};
use crate::windows::fiba::exact::Exact;
use crate::windows::fiba::moments::{Few, Growing, Grown, Moments, Spread};
use crate::windows::fiba::monoid::Monoid;
use crate::windows::fiba::numbers::{Count, First, Last, Max, MaxCount, Min, Range, Scalar, SumInt};

/// A monoid with its way in and out.
pub trait Values: Monoid<Failure: Into<PyErr>> {
    /// A result, as it is kept until it goes to Python.
    type Out: Send;

    fn take(&self, value: &Bound<'_, PyAny>) -> PyResult<Self::Slot>;

    /// A column of values. By default one by one.
    fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<Self::Slot>> {
        values.try_iter()?.map(|value| self.take(&value?)).collect()
    }

    /// The result of an aggregate, or of nothing.
    fn lower(&self, agg: Option<&Self::Agg>) -> PyResult<Self::Out>;

    fn give<'py>(&self, py: Python<'py>, out: Self::Out) -> PyResult<Bound<'py, PyAny>>;

    /// The content of an entry, as Python pickles it.
    fn save<'py>(&self, py: Python<'py>, slot: &Self::Slot) -> PyResult<Bound<'py, PyAny>>;

    /// The way back.
    fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Self::Slot>;

    /// Many results; by default a list.
    fn pack<'py>(&self, py: Python<'py>, outs: Vec<Self::Out>) -> PyResult<Bound<'py, PyAny>> {
        let items = outs.into_iter().map(|out| self.give(py, out)).collect::<PyResult<Vec<_>>>()?;
        items.into_pyobject(py)
    }
}

/// An aggregate as Python pickles it.
pub trait Pickled: Growing {
    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
    fn load(saved: &Bound<'_, PyAny>) -> PyResult<Self>;
}

impl Pickled for Moments {
    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        (self.count, self.sum.save()).into_bound_py_any(py)
    }

    fn load(saved: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (count, sum): (i64, Vec<Vec<f64>>) = saved.extract()?;
        Ok(Self { count, sum: exact(&sum)? })
    }
}

impl Pickled for Spread {
    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        (self.count, self.sum.save(), self.squares.save()).into_bound_py_any(py)
    }

    fn load(saved: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (count, sum, squares): (i64, Vec<Vec<f64>>, Vec<Vec<f64>>) = saved.extract()?;
        Ok(Self { count, sum: exact(&sum)?, squares: exact(&squares)? })
    }
}

fn exact(saved: &[Vec<f64>]) -> PyResult<Exact> {
    Exact::load(saved).ok_or_else(|| PyValueError::new_err("this is no saved sum"))
}

impl<V, A: Pickled<Value = V>> Few<V, A>
where
    V: Copy + Default + for<'py> IntoPyObject<'py> + for<'a, 'py> FromPyObject<'a, 'py>,
{
    /// A number, or a tuple of one aggregate.
    pub fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::One(value) => value.into_bound_py_any(py),
            Self::Many(agg) => (agg.save(py)?,).into_bound_py_any(py),
        }
    }

    pub fn load(saved: &Bound<'_, PyAny>) -> PyResult<Self> {
        match saved.cast::<PyTuple>() {
            Ok(tuple) => Ok(Self::Many(Box::new(A::load(&tuple.get_item(0)?)?))),
            Err(_) => saved.extract().map(Self::One).map_err(Into::into),
        }
    }
}

/// Results of numbers: None where there is no value; in arrays of floats that is NaN, integers go to a list then.
trait Result: Number + Scalar {
    fn pack(py: Python<'_>, outs: Vec<Option<Self>>) -> PyResult<Bound<'_, PyAny>>;
}

impl Result for f64 {
    fn pack(py: Python<'_>, outs: Vec<Option<Self>>) -> PyResult<Bound<'_, PyAny>> {
        array(py, &outs.into_iter().map(|out| out.unwrap_or(f64::NAN)).collect::<Vec<_>>())
    }
}

impl Result for i64 {
    fn pack(py: Python<'_>, outs: Vec<Option<Self>>) -> PyResult<Bound<'_, PyAny>> {
        match outs.iter().copied().collect::<Option<Vec<_>>>() {
            Some(all) => array(py, &all),
            None => outs.into_pyobject(py),
        }
    }
}

impl Values for Count {
    type Out = i64;

    fn save<'py>(&self, py: Python<'py>, slot: &Self::Slot) -> PyResult<Bound<'py, PyAny>> {
        (*slot).into_bound_py_any(py)
    }

    fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        saved.extract()
    }

    fn take(&self, _: &Bound<'_, PyAny>) -> PyResult<i64> {
        Ok(1)
    }

    fn lower(&self, agg: Option<&i64>) -> PyResult<i64> {
        Ok(agg.copied().unwrap_or(0))
    }

    fn give<'py>(&self, py: Python<'py>, out: i64) -> PyResult<Bound<'py, PyAny>> {
        Ok(out.into_pyobject(py)?.into_any())
    }

    fn pack<'py>(&self, py: Python<'py>, outs: Vec<i64>) -> PyResult<Bound<'py, PyAny>> {
        array(py, &outs)
    }
}

impl Values for SumInt {
    type Out = i128;

    fn save<'py>(&self, py: Python<'py>, slot: &Self::Slot) -> PyResult<Bound<'py, PyAny>> {
        (*slot).into_bound_py_any(py)
    }

    fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        saved.extract()
    }

    #[inline]
    fn take(&self, value: &Bound<'_, PyAny>) -> PyResult<i128> {
        Ok(value.extract::<i64>()?.into())
    }

    fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<i128>> {
        Ok(numbers::<i64>(values)?.into_iter().map(i128::from).collect())
    }

    #[inline]
    fn lower(&self, agg: Option<&i128>) -> PyResult<i128> {
        Ok(agg.copied().unwrap_or(0))
    }

    #[inline]
    fn give<'py>(&self, py: Python<'py>, out: i128) -> PyResult<Bound<'py, PyAny>> {
        Ok(match i64::try_from(out) {
            Ok(out) => out.into_pyobject(py)?.into_any(),
            Err(_) => out.into_pyobject(py)?.into_any(),
        })
    }

    fn pack<'py>(&self, py: Python<'py>, outs: Vec<i128>) -> PyResult<Bound<'py, PyAny>> {
        match outs.iter().map(|&out| i64::try_from(out)).collect::<std::result::Result<Vec<_>, _>>() {
            Ok(all) => array(py, &all),
            Err(_) => outs.into_pyobject(py),
        }
    }
}

/// Write down the way in and out of a monoid whose slot is made of one number.
macro_rules! scalar_values {
    ($type:ident, $out:ty, $slot:expr, $lower:expr, $give:expr, $pack:expr) => {
        impl<T: Result> Values for $type<T>
        where
            for<'py> T: IntoPyObject<'py>,
        {
            type Out = $out;

            fn save<'py>(&self, py: Python<'py>, slot: &Self::Slot) -> PyResult<Bound<'py, PyAny>> {
                (*slot).into_bound_py_any(py)
            }

            fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
                saved.extract().map_err(Into::into)
            }

            #[inline]
            fn take(&self, value: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
                let slot: fn(T) -> Self::Slot = $slot;
                value.extract::<T>().map(slot).map_err(Into::into)
            }

            fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<Self::Slot>> {
                let slot: fn(T) -> Self::Slot = $slot;
                Ok(numbers::<T>(values)?.into_iter().map(slot).collect())
            }

            #[inline]
            fn lower(&self, agg: Option<&Self::Agg>) -> PyResult<Self::Out> {
                let lower: fn(Option<&Self::Agg>) -> Self::Out = $lower;
                Ok(lower(agg))
            }

            #[inline]
            fn give<'py>(&self, py: Python<'py>, out: Self::Out) -> PyResult<Bound<'py, PyAny>> {
                $give(py, out)
            }

            fn pack<'py>(&self, py: Python<'py>, outs: Vec<Self::Out>) -> PyResult<Bound<'py, PyAny>> {
                $pack(py, outs)
            }
        }
    };
}

fn give_scalar<T>(py: Python<'_>, out: Option<T>) -> PyResult<Bound<'_, PyAny>>
where
    for<'py> T: IntoPyObject<'py>,
{
    match out {
        Some(out) => out.into_bound_py_any(py),
        None => Ok(py.None().into_bound(py)),
    }
}

fn give_list<T>(py: Python<'_>, outs: Vec<T>) -> PyResult<Bound<'_, PyAny>>
where
    for<'py> T: IntoPyObject<'py>,
{
    outs.into_iter().map(|out| out.into_bound_py_any(py)).collect::<PyResult<Vec<_>>>()?.into_pyobject(py)
}

scalar_values!(Min, Option<T>, |v| v, |agg| agg.copied(), give_scalar, T::pack);
scalar_values!(Max, Option<T>, |v| v, |agg| agg.copied(), give_scalar, T::pack);
scalar_values!(First, Option<T>, |v| v, |agg| agg.copied(), give_scalar, T::pack);
scalar_values!(Last, Option<T>, |v| v, |agg| agg.copied(), give_scalar, T::pack);
scalar_values!(MaxCount, Option<(T, i64)>, |v| (v, 1), |agg| agg.copied(), give_scalar, give_list);
scalar_values!(Range, Option<(T, T)>, |v| (v, v), |agg| agg.copied(), give_range, give_ranges);

/// Largest minus smallest; integers as Python's own, which cannot overflow.
fn give_range<T>(py: Python<'_>, out: Option<(T, T)>) -> PyResult<Bound<'_, PyAny>>
where
    for<'py> T: IntoPyObject<'py>,
{
    match out {
        Some((least, most)) => most.into_bound_py_any(py)?.sub(least.into_bound_py_any(py)?),
        None => Ok(py.None().into_bound(py)),
    }
}

fn give_ranges<T>(py: Python<'_>, outs: Vec<Option<(T, T)>>) -> PyResult<Bound<'_, PyAny>>
where
    for<'py> T: IntoPyObject<'py>,
{
    outs.into_iter().map(|out| give_range(py, out)).collect::<PyResult<Vec<_>>>()?.into_pyobject(py)
}

/// The result that is computed from the sum of floats.
#[derive(Clone, Copy)]
pub enum Of {
    Sum,
    Mean,
    /// The mean of logarithms, which are taken on the way in.
    GeometricMean,
}

/// Sum, mean or geometric mean.
pub type Sums = Grown<Moments, Of>;

impl Sums {
    pub fn new(of: Of) -> Self {
        Self { empty: Moments::default(), how: of }
    }

    #[inline]
    fn slot(&self, value: f64) -> Few<f64, Moments> {
        Few::One(if matches!(self.how, Of::GeometricMean) { value.ln() } else { value })
    }
}

impl Values for Sums {
    type Out = Option<f64>;

    fn save<'py>(&self, py: Python<'py>, slot: &Self::Slot) -> PyResult<Bound<'py, PyAny>> {
        slot.save(py)
    }

    fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        Few::load(saved)
    }

    #[inline]
    fn take(&self, value: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        Ok(self.slot(value.extract::<f64>()?))
    }

    fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<Self::Slot>> {
        Ok(numbers::<f64>(values)?.into_iter().map(|value| self.slot(value)).collect())
    }

    #[inline]
    fn lower(&self, agg: Option<&Moments>) -> PyResult<Option<f64>> {
        Ok(match (self.how, agg) {
            (Of::Sum, None) => Some(0.0),
            (_, None) => None,
            (Of::Sum, Some(agg)) => Some(agg.sum.value()),
            (Of::Mean, Some(agg)) => Some(agg.sum.value() / agg.count as f64),
            (Of::GeometricMean, Some(agg)) => Some((agg.sum.value() / agg.count as f64).exp()),
        })
    }

    fn give<'py>(&self, py: Python<'py>, out: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        give_scalar(py, out)
    }

    fn pack<'py>(&self, py: Python<'py>, outs: Vec<Option<f64>>) -> PyResult<Bound<'py, PyAny>> {
        f64::pack(py, outs)
    }
}

/// Variance with a correction of the count (0: of a population, 1: of a sample), or its square root.
pub struct Correction {
    pub by: i64,
    pub root: bool,
}

pub type Variance = Grown<Spread, Correction>;

impl Variance {
    pub fn new(by: i64, root: bool) -> Self {
        Self { empty: Spread::default(), how: Correction { by, root } }
    }
}

impl Values for Variance {
    type Out = Option<f64>;

    fn save<'py>(&self, py: Python<'py>, slot: &Self::Slot) -> PyResult<Bound<'py, PyAny>> {
        slot.save(py)
    }

    fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        Few::load(saved)
    }

    fn take(&self, value: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        Ok(Few::One(value.extract::<f64>()?))
    }

    fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<Self::Slot>> {
        Ok(numbers::<f64>(values)?.into_iter().map(Few::One).collect())
    }

    fn lower(&self, agg: Option<&Spread>) -> PyResult<Option<f64>> {
        let variance = agg.filter(|agg| agg.count > self.how.by).map(|agg| agg.variance(self.how.by));
        Ok(if self.how.root { variance.map(f64::sqrt) } else { variance })
    }

    fn give<'py>(&self, py: Python<'py>, out: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        give_scalar(py, out)
    }

    fn pack<'py>(&self, py: Python<'py>, outs: Vec<Option<f64>>) -> PyResult<Bound<'py, PyAny>> {
        f64::pack(py, outs)
    }
}
