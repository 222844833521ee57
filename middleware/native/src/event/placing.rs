//! Events in strict total order: where one stands, and how many are put in order.

use std::cmp::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::event::entry::Entry;
use crate::event::search::partition;
use crate::event::twins::Twins;

/// Where the event with this order key stands, or else where it would stand. O(log n).
pub fn place_of(py: Python<'_>, history: &[Entry], sought: &Entry, twins: &Twins) -> PyResult<Result<usize, usize>> {
    let at = partition(history.len(), |at| Ok::<_, PyErr>(history[at].compare(py, sought, twins)? == Ordering::Less))?;
    let there = at < history.len() && history[at].compare(py, sought, twins)? == Ordering::Equal;
    Ok(if there { Ok(at) } else { Err(at) })
}

/// Where to insert events, which are in strict total order, and how many repeats of what is in the history stay out. O(k log n),
/// O(1) for those behind it.
pub fn insertions(
    py: Python<'_>,
    history: &[Entry],
    events: Vec<Entry>,
    twins: &Twins,
) -> PyResult<(Vec<(usize, Entry)>, u64)> {
    let (mut found, mut repeats, mut from) = (Vec::with_capacity(events.len()), 0, 0);
    for entry in events {
        if history.last().is_some_and(|last| entry.ts <= last.ts) {
            match place_of(py, &history[from..], &entry, twins)? {
                Ok(_) => {
                    repeats += 1;
                    continue;
                }
                Err(offset) => from += offset,
            }
        } else {
            from = history.len();
        }
        found.push((from, entry));
    }
    Ok((found, repeats))
}

/// The events in strict total order, and how many repeats were left out. O(n log n).
pub fn arranged(py: Python<'_>, mut events: Vec<Entry>, twins: &Twins) -> PyResult<(Vec<Entry>, u64)> {
    events.sort_by_key(|entry| entry.ts);
    if events.windows(2).all(|pair| pair[0].ts < pair[1].ts) {
        return Ok((events, 0));
    }
    let list = PyList::new(py, events.iter().map(|entry| &entry.event))?;
    let (unique, repeats): (Vec<Bound<'_, PyAny>>, u64) = twins.arranged.bind(py).call1((list,))?.extract()?;
    let entries = unique.iter().map(|event| Entry::new(event)).collect::<PyResult<_>>()?;
    Ok((entries, repeats))
}
