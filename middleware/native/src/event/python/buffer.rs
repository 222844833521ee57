//! Sorted buffers of events in Python lists. Tests hold them against `tests.oracles.buffers`.

use std::cmp::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::event::order::{TotalOrder, merged};
use crate::event::python::entry::Entry;
use crate::event::python::fields::Stamps;
use crate::event::search::partition;

/// Events are inserted one by one while they are fewer than the sorted tail they fall into divided by this.
const FEW: usize = 8;

/// Part a batch into the run that gets ahead of `top`, strictly increasing, and the rest, in arrival order. O(n).
#[pyfunction]
pub fn split<'py>(events: &Bound<'py, PyList>, mut top: i64) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
    let py = events.py();
    let stamps = Stamps::get(py)?;
    let (mut ahead, mut behind) = (Vec::with_capacity(events.len()), Vec::new());
    for event in events {
        let ts = stamps.ts(&event)?;
        if ts > top {
            top = ts;
            ahead.push(event);
        } else {
            behind.push(event);
        }
    }
    Ok((PyList::new(py, ahead)?, PyList::new(py, behind)?))
}

/// Put events in order of time, those of one time in the order they have. Gives how far each then lies above `start`, at least
/// 0; None if none does. O(n) if they are in order.
#[pyfunction]
pub fn in_time(events: &Bound<'_, PyList>, start: i64) -> PyResult<Option<Vec<i64>>> {
    let py = events.py();
    let stamps = Stamps::get(py)?;
    let mut times = events.iter().map(|event| stamps.ts(&event)).collect::<PyResult<Vec<_>>>()?;
    if !times.is_sorted() {
        let mut timed: Vec<_> = times.iter().copied().zip(events).collect();
        timed.sort_by_key(|each| each.0);
        times.sort_unstable();
        let ordered = PyList::new(py, timed.iter().map(|each| &each.1))?;
        events.set_slice(0, events.len(), &ordered)?;
    }
    let is_above = times.last().is_some_and(|last| *last > start);
    Ok(is_above.then(|| times.iter().map(|ts| ts.saturating_sub(start).max(0)).collect()))
}

/// Merge `events` into `buffer`, both in strict total order.
///
/// Returns the events that went in, and the number of duplicates, which stay out: what is in the buffer came first.
/// O(k log n) for few events, O(tail they fall into) for many.
#[pyfunction]
pub fn merge<'py>(buffer: &Bound<'py, PyList>, events: Bound<'py, PyList>) -> PyResult<(Bound<'py, PyList>, usize)> {
    if events.is_empty() {
        return Ok((events, 0));
    }
    let start = place(buffer, &Entry::new(&events.get_item(0)?)?, 0)?.unwrap_or_else(|at| at);
    if start == buffer.len() {
        buffer.set_slice(start, start, &events)?;
        return Ok((events, 0));
    }
    let few = events.len() * FEW < buffer.len() - start;
    let came = if few { insert(buffer, &events, start)? } else { merge_tail(buffer, &events, start)? };
    let duplicates = events.len() - came.len();
    Ok((came, duplicates))
}

/// Insert few events, all at or behind `start`, each at its place; returns those that were not there.
fn insert<'py>(buffer: &Bound<'py, PyList>, events: &Bound<'py, PyList>, start: usize) -> PyResult<Bound<'py, PyList>> {
    let came = PyList::empty(buffer.py());
    let mut at = start;
    for event in events {
        match place(buffer, &Entry::new(&event)?, at)? {
            Ok(there) => at = there,
            Err(free) => {
                buffer.insert(free, &event)?;
                came.append(event)?;
                at = free + 1;
            }
        }
    }
    Ok(came)
}

/// Merge many events with the tail of the buffer from `start` on; returns those that were not there.
fn merge_tail<'py>(buffer: &Bound<'py, PyList>, events: &Bound<'py, PyList>, start: usize) -> PyResult<Bound<'py, PyList>> {
    let py = buffer.py();
    let tail = buffer.get_slice(start, buffer.len());
    let (merged, came) = merged(py, entries(&tail)?, entries(events)?)?;
    let came = PyList::new(py, came.into_iter().map(|at| &merged[at].event))?;
    let merged = PyList::new(py, merged.into_iter().map(|entry| entry.event))?;
    buffer.set_slice(start, buffer.len(), &merged)?;
    Ok(came)
}

fn entries(events: &Bound<'_, PyList>) -> PyResult<Vec<Entry>> {
    events.iter().map(|event| Entry::new(&event)).collect()
}

/// Where the event stands, or else where it would stand, in the buffer from `start` on.
fn place(buffer: &Bound<'_, PyList>, sought: &Entry, start: usize) -> PyResult<Result<usize, usize>> {
    let compare = |at: usize| buffer.py().compare(&Entry::new(&buffer.get_item(start + at)?)?, sought);
    let length = buffer.len() - start;
    let at = partition(length, |at| Ok::<_, PyErr>(compare(at)? == Ordering::Less))?;
    let is_there = at < length && compare(at)? == Ordering::Equal;
    Ok(if is_there { Ok(start + at) } else { Err(start + at) })
}
