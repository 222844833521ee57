//! The counts of work that the lanes of one unit have done.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyInt;

/// Python reads these while they grow. The lanes alone write, one call at a time.
#[pyclass(frozen, get_all, module = "middleware.native")]
#[derive(Default)]
pub struct Counts {
    pub executed: Count,
    pub rollbacks: Count,
    pub stops: Count,
    pub snapshots: Count,
    pub failures: Count,
    pub left_out: Count,
    pub duplicates: Count,
    pub unknown: Count,
}

#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    #[inline]
    pub fn add(&self, number: u64) {
        // Two plain moves: with one writer there is no need of an atomic addition, which costs 5 ns.
        self.0.store(self.0.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }
}

impl<'py> IntoPyObject<'py> for &Count {
    type Target = PyInt;
    type Output = Bound<'py, PyInt>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        self.0.load(Ordering::Relaxed).into_pyobject(py)
    }
}
