//! Events in strict total order: where one stands, and how many are put in order.

use std::cmp::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::event::entry::Entry;
use crate::event::model::Model;
use crate::event::search::partition;

/// Where the event with this order key stands, or else where it would stand. O(log n).
pub fn place_of(py: Python<'_>, history: &[Entry], sought: &Entry) -> PyResult<Result<usize, usize>> {
    let at = partition(history.len(), |at| Ok::<_, PyErr>(history[at].compare(py, sought)? == Ordering::Less))?;
    let there = at < history.len() && history[at].compare(py, sought)? == Ordering::Equal;
    Ok(if there { Ok(at) } else { Err(at) })
}

/// Where to insert events, which are in strict total order, and how many repeats of what is in the history stay out. O(k log n),
/// O(1) for those behind it.
pub fn insertions(py: Python<'_>, history: &[Entry], events: Vec<Entry>) -> PyResult<(Vec<(usize, Entry)>, u64)> {
    let (mut found, mut repeats, mut from) = (Vec::with_capacity(events.len()), 0, 0);
    for entry in events {
        if history.last().is_some_and(|last| entry.ts <= last.ts) {
            match place_of(py, &history[from..], &entry)? {
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
pub fn arranged(py: Python<'_>, mut events: Vec<Entry>) -> PyResult<(Vec<Entry>, u64)> {
    events.sort_by_key(|entry| entry.ts);
    if events.windows(2).all(|pair| pair[0].ts < pair[1].ts) {
        return Ok((events, 0));
    }
    let (count, mut unique, mut rest) = (events.len(), Vec::with_capacity(events.len()), events.into_iter().peekable());
    while let Some(first) = rest.next() {
        let mut tied = vec![first];
        while let Some(next) = rest.next_if(|next| next.ts == tied[0].ts) {
            tied.push(next);
        }
        if tied.len() == 1 {
            unique.append(&mut tied);
        } else {
            unique.append(&mut untied(py, &tied)?);
        }
    }
    let repeats = count - unique.len();
    Ok((unique, repeats as u64))
}

/// Events of one time in strict total order; of those with one key the first.
fn untied(py: Python<'_>, tied: &[Entry]) -> PyResult<Vec<Entry>> {
    let order = Model::get(py)?.order.bind(py);
    let keys = tied.iter().enumerate().map(|(at, entry)| Ok((order.call1((&entry.event,))?, at)));
    let keys = PyList::new(py, keys.collect::<PyResult<Vec<_>>>()?)?;
    keys.sort()?;
    let (mut unique, mut last): (Vec<Entry>, Option<Bound<'_, PyAny>>) = (Vec::with_capacity(tied.len()), None);
    for pair in keys {
        let (key, at): (Bound<'_, PyAny>, usize) = pair.extract()?;
        if last.as_ref().map_or(Ok(false), |last| last.eq(&key))? {
            continue;
        }
        unique.push(Entry { ts: tied[at].ts, event: tied[at].event.clone_ref(py) });
        last = Some(key);
    }
    Ok(unique)
}
