//! Identities in columns: which of them are new, and the runs that they make. Twins of `plain_take_ids` and `plain_runs_of` in
//! `middleware.broker.ingress.seen`.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::event::fields::Stamps;
use crate::ingress::seen::Intervals;

/// Source, id and place of an event; sources are numbered.
pub type Entry = (u32, i64, usize);

/// Ids that lie in a range of not more than so many for each of them are close together.
const SPREAD: usize = 64;

/// First and last id of each run.
type Spans = Vec<(i64, i64)>;

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

/// The number of the one source that all identities are of, and their ids as runs (None if one is there twice); None if they
/// are of several, or far apart. O(n): nothing is sorted.
fn dense(ids: &[i64], mut codes: impl Iterator<Item = u32>) -> Option<(u32, Option<Spans>)> {
    let (low, high) = (ids.iter().min()?, ids.iter().max()?);
    let span = usize::try_from(high.checked_sub(*low)?).ok()?;
    let code = codes.next()?;
    if span / SPREAD > ids.len() || codes.any(|other| other != code) {
        return None;
    }
    let mut bits = vec![0u64; span / 64 + 1];
    for id in ids {
        let at = (id - low) as usize;
        bits[at / 64] |= 1 << (at % 64);
    }
    if bits.iter().map(|word| word.count_ones() as usize).sum::<usize>() < ids.len() {
        return Some((code, None));
    }
    let mut runs = Spans::new();
    for (at, word) in bits.into_iter().enumerate() {
        let (mut left, mut from) = (word, at as i64 * 64);
        while left != 0 {
            let gap = left.trailing_zeros();
            let count = (left >> gap).trailing_ones();
            left = left.checked_shr(gap + count).unwrap_or(0);
            let (first, last) = (low + from + i64::from(gap), low + (from + i64::from(gap + count) - 1));
            match runs.last_mut().filter(|run| run.1 == first - 1) {
                Some(run) => run.1 = last,
                None => runs.push((first, last)),
            }
            from += i64::from(gap + count);
        }
    }
    Some((code, Some(runs)))
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
    codes: impl Iterator<Item = u32> + Clone,
    of: &[Bound<'py, Intervals>],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let intervals = |code: u32| {
        let found = of.get(code as usize).ok_or_else(|| PyValueError::new_err("a source without intervals"))?;
        Ok::<_, PyErr>(found.borrow_mut())
    };
    let mut new = vec![1u8; ids.len()];
    if let Some((code, runs)) = dense(ids, codes.clone()) {
        let Some(runs) = runs else { return Ok(None) };
        if intervals(code)?.take_all(&runs) {
            return Ok(Some(PyBytes::new(py, &new)));
        }
    }
    let entries = codes.zip(ids).enumerate().map(|(at, (code, id))| (code, *id, at)).collect();
    let Some(entries) = in_order(entries) else { return Ok(None) };
    for own in entries.chunk_by(|one, other| one.0 == other.0) {
        let mut intervals = intervals(own[0].0)?;
        let runs: Vec<_> = own.chunk_by(follows).map(|run| (run[0].1, run[run.len() - 1].1)).collect();
        if intervals.take_all(&runs) {
            continue;
        }
        for run in own.chunk_by(follows) {
            if intervals.take(run[0].1, run[run.len() - 1].1) {
                continue;
            }
            for (_, id, at) in run {
                new[*at] = u8::from(intervals.take(*id, *id));
            }
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
    let (mut ids, mut codes) = (Vec::with_capacity(events.len()), Vec::with_capacity(events.len()));
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut now = 0;
    for event in events {
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
        ids.push(stamps.id(&event)?.extract()?);
        codes.push(u32::try_from(now)?);
    }
    let runs = runs(&ids, codes.into_iter(), most)
        .map(|runs| runs.into_iter().map(|(at, first, last)| (names[at].clone(), first, last)));
    Ok(runs.map(Iterator::collect))
}

/// Identities as runs: number of the source, first and last id; None as above.
pub fn runs(ids: &[i64], codes: impl Iterator<Item = u32> + Clone, most: usize) -> Option<Vec<(usize, i64, i64)>> {
    let found = match dense(ids, codes.clone()) {
        Some((code, runs)) => runs?.into_iter().map(|(first, last)| (code as usize, first, last)).collect(),
        None => {
            let entries = in_order(codes.zip(ids).enumerate().map(|(at, (code, id))| (code, *id, at)).collect())?;
            let runs = entries.chunk_by(follows).take(most + 1);
            runs.map(|run| (run[0].0 as usize, run[0].1, run[run.len() - 1].1)).collect::<Vec<_>>()
        }
    };
    (found.len() <= most).then_some(found)
}
