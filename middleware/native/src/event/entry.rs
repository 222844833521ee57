//! An event with its time stamp at hand, and its place in the total order.

use std::cmp::Ordering;

use pyo3::prelude::*;

use crate::event::fields::Stamps;
use crate::event::model::Model;

/// The time stamp before all events.
pub const NEVER: i64 = i64::MIN;

pub struct Entry {
    pub ts: i64,
    pub event: Py<PyAny>,
}

impl Entry {
    pub fn new(event: &Bound<'_, PyAny>) -> PyResult<Self> {
        let ts = Stamps::get(event.py())?.ts(event)?;
        Ok(Self { ts, event: event.clone().unbind() })
    }

    /// Time stamps decide; only where they tie is Python asked for the rest of the order.
    pub fn compare(&self, py: Python<'_>, other: &Self) -> PyResult<Ordering> {
        if self.ts != other.ts || self.event.is(&other.event) {
            return Ok(self.ts.cmp(&other.ts));
        }
        let order = Model::get(py)?.order.bind(py);
        order.call1((&self.event,))?.compare(order.call1((&other.event,))?)
    }
}
