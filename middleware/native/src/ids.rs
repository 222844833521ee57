//! Identities in columns: which of them are new, and the runs that they make. Twins of `plain_take_ids` and `plain_runs_of` in
//! `middleware.broker.ingress.seen`.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::fields::Stamps;
use crate::seen::Intervals;

/// Source, id and place of an event; sources are numbered.
pub type Entry = (u32, i64, usize);

type Runs<'py> = Vec<(Bound<'py, PyString>, i64, i64)>;

fn numbers<const N: usize, T>(bytes: &[u8], of: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().copied().map(of).collect()
}

/// The identities by source and id; None if one is there twice.
fn in_order(mut entries: Vec<Entry>) -> Option<Vec<Entry>> {
    if !entries.is_sorted() {
        entries.sort_unstable();
    }
    entries.windows(2).all(|pair| (pair[0].0, pair[0].1) != (pair[1].0, pair[1].1)).then_some(entries)
}

/// Whether an identity follows directly on another of the same source.
fn follows(before: &Entry, after: &Entry) -> bool {
    before.0 == after.0 && before.1.checked_add(1) == Some(after.1)
}

/// Add identities to the intervals of their sources, unless they are there: a byte for each, 1 if it was new. None, and nothing
/// is added, if one is there twice among them.
#[pyfunction]
pub fn take_ids<'py>(
    py: Python<'py>,
    ids: &[u8],
    codes: &[u8],
    of: Vec<Bound<'py, Intervals>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let (ids, codes) = (numbers(ids, i64::from_le_bytes), numbers(codes, u32::from_le_bytes));
    if ids.len() != codes.len() || codes.iter().any(|code| *code as usize >= of.len()) {
        return Err(PyValueError::new_err("one source for each id"));
    }
    take(py, &ids, codes.into_iter(), &of)
}

/// The same, where each code is known to be that of a source.
pub fn take<'py>(
    py: Python<'py>,
    ids: &[i64],
    codes: impl Iterator<Item = u32>,
    of: &[Bound<'py, Intervals>],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let entries = codes.zip(ids).enumerate().map(|(at, (code, id))| (code, *id, at)).collect();
    let Some(entries) = in_order(entries) else { return Ok(None) };
    let mut new = vec![1u8; entries.len()];
    for run in entries.chunk_by(follows) {
        let Some(intervals) = of.get(run[0].0 as usize) else {
            return Err(PyValueError::new_err("a source without intervals"));
        };
        let mut intervals = intervals.borrow_mut();
        if intervals.take(run[0].1, run[run.len() - 1].1) {
            continue;
        }
        for (_, id, at) in run {
            new[*at] = u8::from(intervals.take(*id, *id));
        }
    }
    Ok(Some(PyBytes::new(py, &new)))
}

/// The identities of events as runs (source, first, last); None if that takes more than `most`, or if one is there twice.
#[pyfunction]
pub fn runs_of<'py>(events: &Bound<'py, PyList>, most: usize) -> PyResult<Option<Runs<'py>>> {
    let py = events.py();
    let stamps = Stamps::get(py)?;
    let mut names: Vec<Bound<'_, PyString>> = Vec::new();
    let mut entries: Vec<Entry> = Vec::with_capacity(events.len());
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut now = 0;
    for (at, event) in events.iter().enumerate() {
        let name = stamps.source(&event)?;
        if !names.get(now).is_some_and(|last| last.is(&name)) {
            now = match known.get(name.to_str()?) {
                Some(at) => *at,
                None if names.len() == most => return Ok(None),
                None => {
                    known.insert(name.to_str()?.to_owned(), names.len());
                    names.push(name);
                    names.len() - 1
                }
            };
        }
        entries.push((u32::try_from(now)?, stamps.id(&event)?.extract()?, at));
    }
    let runs = runs(entries, most).map(|runs| runs.into_iter().map(|(at, first, last)| (names[at].clone(), first, last)));
    Ok(runs.map(Iterator::collect))
}

/// Identities as runs: number of the source, first and last id; None as above.
pub fn runs(entries: Vec<Entry>, most: usize) -> Option<Vec<(usize, i64, i64)>> {
    let entries = in_order(entries)?;
    let runs = entries.chunk_by(follows).take(most + 1);
    let runs: Vec<_> = runs.map(|run| (run[0].0 as usize, run[0].1, run[run.len() - 1].1)).collect();
    (runs.len() <= most).then_some(runs)
}
