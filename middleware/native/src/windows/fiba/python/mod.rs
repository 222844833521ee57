//! `middleware.native.Fiba`: the class that Python sees.

pub mod columns;
pub mod errors;
pub mod object;
pub mod sketches;
mod times;
pub mod values;
pub mod window;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList};

use crate::windows::fiba::numbers::{Count, First, Last, Max, MaxCount, Min, Range, SumInt};
use errors::window_error;
use object::{Known, Python_};
use sketches::{bloom, distinct};
use times::{Ordered, Plain, Stamps};
use values::{Of, Sums, Values, Variance};
use window::{Object, Typed, Window};

/// Holds a mutable borrow of itself while Python runs: an operator that came back in would get a `RuntimeError`.
#[pyclass(module = "middleware.native")]
pub struct Fiba {
    window: Box<dyn Window>,
    #[pyo3(get)]
    monoid: Py<PyAny>,
    #[pyo3(get)]
    min_arity: usize,
    #[pyo3(get)]
    ordered: bool,
}

#[pymethods]
impl Fiba {
    #[new]
    #[pyo3(signature = (monoid, *, min_arity = 8, ordered = false))]
    fn new(monoid: Bound<'_, PyAny>, min_arity: usize, ordered: bool) -> PyResult<Self> {
        if !(2..=128).contains(&min_arity) {
            return Err(window_error(format!("min_arity must be between 2 and 128, not {min_arity}")));
        }
        let window = if ordered { window(Ordered::default(), &monoid, min_arity)? } else { window(Plain, &monoid, min_arity)? };
        Ok(Self { window, monoid: monoid.unbind(), min_arity, ordered })
    }

    fn __len__(&self) -> usize {
        self.window.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.window.items(py)?.try_iter()
    }

    #[pyo3(signature = (ts, value, *, replace = false))]
    fn insert(&mut self, ts: &Object<'_>, value: &Object<'_>, replace: bool) -> PyResult<()> {
        self.window.insert(ts, value, replace)
    }

    fn evict(&mut self, ts: &Object<'_>) -> PyResult<bool> {
        self.not_empty()?;
        self.window.evict(ts)
    }

    fn evict_oldest(&mut self) -> PyResult<()> {
        self.not_empty()?;
        self.window.evict_oldest()
    }

    fn query<'py>(&mut self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.window.query(py)
    }

    fn range_query<'py>(&mut self, low: &Object<'py>, high: &Object<'py>) -> PyResult<Object<'py>> {
        self.window.range(low, high)
    }

    #[pyo3(signature = (times, values, *, replace = false))]
    fn bulk_insert(&mut self, times: &Object<'_>, values: &Object<'_>, replace: bool) -> PyResult<()> {
        self.window.bulk_insert(times, values, replace)
    }

    fn bulk_evict(&mut self, upto: &Object<'_>) -> PyResult<usize> {
        self.window.bulk_evict(upto)
    }

    fn round<'py>(&mut self, evict_upto: &Object<'py>, ts: &Object<'py>, value: &Object<'py>) -> PyResult<Object<'py>> {
        self.window.round(evict_upto, ts, value)
    }

    fn rounds<'py>(&mut self, evict_upto: &Object<'py>, times: &Object<'py>, values: &Object<'py>) -> PyResult<Object<'py>> {
        self.window.rounds(evict_upto, times, values)
    }

    #[getter]
    fn oldest<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.window.oldest(py)
    }

    #[getter]
    fn youngest<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.window.youngest(py)
    }

    fn clear(&mut self) {
        self.window.clear();
    }

    #[getter]
    fn work<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        Ok(self.window.work(py)?.into_any())
    }

    fn check(&self) -> PyResult<()> {
        self.window.check()
    }

    /// Pickling: as far as the monoid can be. What comes back holds the same entries; its work is counted anew.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((Py<PyAny>,), Bound<'py, PyDict>)> {
        let options = PyDict::new(py);
        options.set_item("min_arity", self.min_arity)?;
        options.set_item("ordered", self.ordered)?;
        Ok(((self.monoid.clone_ref(py),), options))
    }

    fn __getstate__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        self.window.save(py)
    }

    fn __setstate__(&mut self, state: (Object<'_>, Object<'_>)) -> PyResult<()> {
        self.window.clear();
        self.window.load(&state.0, &state.1)
    }
}

impl Fiba {
    fn not_empty(&self) -> PyResult<()> {
        if self.window.len() == 0 { Err(window_error("the window is empty: there is nothing to evict".into())) } else { Ok(()) }
    }
}

/// The tree for a monoid: built in, by what its `native` says, or any other.
fn window<S: Stamps>(stamps: S, monoid: &Object<'_>, min: usize) -> PyResult<Box<dyn Window>> {
    fn typed<S: Stamps, M: Values>(stamps: S, monoid: M, min: usize) -> PyResult<Box<dyn Window>> {
        Ok(Typed::boxed(stamps, monoid, min))
    }
    let Some((name, of)) = monoid.extract::<Known>()?.native else { return typed(stamps, monoid.extract::<Python_>()?, min) };
    match (name.as_str(), of.as_str()) {
        ("count", _) => typed(stamps, Count, min),
        ("sum", "int") => typed(stamps, SumInt, min),
        ("sum", "float") => typed(stamps, Sums::new(Of::Sum), min),
        ("mean", "float") => typed(stamps, Sums::new(Of::Mean), min),
        ("geomean", "float") => typed(stamps, Sums::new(Of::GeometricMean), min),
        ("variance", "float") => typed(stamps, Variance::new(0, false), min),
        ("stddev", "float") => typed(stamps, Variance::new(0, true), min),
        ("sample_variance", "float") => typed(stamps, Variance::new(1, false), min),
        ("sample_stddev", "float") => typed(stamps, Variance::new(1, true), min),
        ("min", "int") => typed(stamps, Min(0_i64), min),
        ("min", "float") => typed(stamps, Min(0.0), min),
        ("max", "int") => typed(stamps, Max(0_i64), min),
        ("max", "float") => typed(stamps, Max(0.0), min),
        ("range", "int") => typed(stamps, Range(0_i64), min),
        ("range", "float") => typed(stamps, Range(0.0), min),
        ("first", "int") => typed(stamps, First(0_i64), min),
        ("first", "float") => typed(stamps, First(0.0), min),
        ("last", "int") => typed(stamps, Last(0_i64), min),
        ("last", "float") => typed(stamps, Last(0.0), min),
        ("maxcount", "int") => typed(stamps, MaxCount(0_i64), min),
        ("maxcount", "float") => typed(stamps, MaxCount(0.0), min),
        ("bloom", _) => typed(stamps, bloom(monoid)?, min),
        ("distinct", _) => typed(stamps, distinct(monoid)?, min),
        _ => Err(window_error(format!("the native core knows no monoid {name} over {of}; leave its `native` None"))),
    }
}
