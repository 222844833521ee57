//! An event with its time stamp at hand, and its place in the total order.

use std::cmp::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::event::order::TotalOrder;
use crate::event::python::fields::Stamps;
use crate::event::python::model::Model;

pub struct Entry {
    pub ts: i64,
    pub event: Py<PyAny>,
}

impl Entry {
    pub fn new(event: &Bound<'_, PyAny>) -> PyResult<Self> {
        let ts = Stamps::get(event.py())?.ts(event)?;
        Ok(Self { ts, event: event.clone().unbind() })
    }
}

impl TotalOrder<Entry> for Python<'_> {
    type Failure = PyErr;

    #[inline]
    fn ts(self, entry: &Entry) -> i64 {
        entry.ts
    }

    /// Time stamps decide; only where they tie is Python asked for the rest of the order.
    #[inline]
    fn compare(self, one: &Entry, other: &Entry) -> PyResult<Ordering> {
        if one.ts != other.ts || one.event.is(&other.event) {
            return Ok(one.ts.cmp(&other.ts));
        }
        let order = Model::get(self)?.order.bind(self);
        order.call1((&one.event,))?.compare(order.call1((&other.event,))?)
    }

    fn untie(self, tied: Vec<Entry>) -> PyResult<Vec<Entry>> {
        let order = Model::get(self)?.order.bind(self);
        let keys = tied.iter().enumerate().map(|(at, entry)| Ok((order.call1((&entry.event,))?, at)));
        let keys = PyList::new(self, keys.collect::<PyResult<Vec<_>>>()?)?;
        keys.sort()?;
        let (mut unique, mut last): (Vec<Entry>, Option<Bound<'_, PyAny>>) = (Vec::with_capacity(tied.len()), None);
        for pair in keys {
            let (key, at): (Bound<'_, PyAny>, usize) = pair.extract()?;
            if last.as_ref().map_or(Ok(false), |last| last.eq(&key))? {
                continue;
            }
            unique.push(Entry { ts: tied[at].ts, event: tied[at].event.clone_ref(self) });
            last = Some(key);
        }
        Ok(unique)
    }
}
