//! The face of ingress to Python, and the reading of events that are objects.

use std::collections::HashMap;

use pyo3::exceptions::{PyAssertionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString};

use crate::event::python::fields::Stamps;
use crate::ingress::claims::{self, Named};
use crate::ingress::ids;
use crate::ingress::seen::Intervals;

#[pymethods]
impl Intervals {
    #[new]
    #[pyo3(signature = (starts = Vec::new(), stops = Vec::new()))]
    fn new(starts: Vec<i64>, stops: Vec<Bound<'_, PyAny>>) -> PyResult<Self> {
        let last = |stop: Bound<'_, PyAny>| match stop.extract::<i64>() {
            Ok(stop) => Ok(stop - 1),
            Err(_) => i64::try_from(stop.extract::<i128>()? - 1).map_err(PyErr::from),
        };
        let lasts = stops.into_iter().map(last).collect::<PyResult<Vec<_>>>()?;
        Ok(Self { spans: starts.into_iter().zip(lasts).collect() })
    }

    fn __contains__(&self, number: i64) -> bool {
        self.has_any(number, number)
    }

    fn __len__(&self) -> usize {
        self.spans.len()
    }

    fn overlaps(&self, first: i64, last: i64) -> bool {
        self.has_any(first, last)
    }

    fn add(&mut self, number: i64) -> bool {
        self.take(number, number)
    }

    fn add_new_run(&mut self, first: i64, last: i64) -> bool {
        self.take(first, last)
    }

    fn bounds<'py>(&self, py: Python<'py>) -> PyResult<(Vec<i64>, Vec<Bound<'py, PyInt>>)> {
        let stop = |last: i64| match last.checked_add(1) {
            Some(stop) => Ok(stop.into_pyobject(py)?),
            None => Ok(i128::from(i64::MAX).wrapping_add(1).into_pyobject(py)?),
        };
        let stops = self.spans.iter().map(|span| stop(span.1)).collect::<PyResult<_>>()?;
        Ok((self.spans.iter().map(|span| span.0).collect(), stops))
    }

    fn check(&self) -> PyResult<()> {
        self.fault().map_or(Ok(()), |fault| Err(PyAssertionError::new_err(fault)))
    }
}

/// The events whose ids were not there, in order; their ids are there now. The list itself if there is no other.
/// `of`: a source's intervals, or None if none of its events is to be taken. Called once a source.
#[pyfunction]
pub fn take_new<'py>(events: &Bound<'py, PyList>, of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let py = events.py();
    let stamps = Stamps::get(py)?;
    let mut known: HashMap<String, Option<Py<Intervals>>> = HashMap::new();
    let mut now: Option<(Bound<'_, PyString>, Option<Py<Intervals>>)> = None;
    let mut kept: Option<Vec<Bound<'_, PyAny>>> = None;
    for (at, event) in events.iter().enumerate() {
        let name = stamps.source(&event)?;
        let is_same = match &now {
            Some((last, _)) => last.is(&name) || last.to_str()? == name.to_str()?,
            None => false,
        };
        if !is_same {
            let intervals = match known.get(name.to_str()?) {
                Some(found) => found.as_ref().map(|found| found.clone_ref(py)),
                None => {
                    let found: Option<Py<Intervals>> = of.call1((&name,))?.extract()?;
                    known.insert(name.to_str()?.to_owned(), found.as_ref().map(|found| found.clone_ref(py)));
                    found
                }
            };
            now = Some((name, intervals));
        }
        let number: i64 = stamps.id(&event)?.extract()?;
        let is_new = match &now {
            Some((_, Some(intervals))) => intervals.bind(py).borrow_mut().take(number, number),
            _ => false,
        };
        match &mut kept {
            Some(kept) if is_new => kept.push(event),
            None if !is_new => kept = Some(events.get_slice(0, at).iter().collect()),
            _ => {}
        }
    }
    match kept {
        Some(kept) => PyList::new(py, kept),
        None => Ok(events.clone()),
    }
}

type Runs<'py> = Vec<(Bound<'py, PyString>, i64, i64)>;

fn numbers<const N: usize, T>(bytes: &[u8], of: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().copied().map(of).collect()
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

/// Take identities whose codes are all known to be those of a source.
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
    Ok(ids::take(ids, codes, intervals)?.map(|new| PyBytes::new(py, &new)))
}

/// The identities of events as runs (source, first, last); None if that takes more than `most`, or if one is there twice.
#[pyfunction]
pub fn runs_of<'py>(events: &Bound<'py, PyList>, most: usize) -> PyResult<Option<Runs<'py>>> {
    let py = events.py();
    let stamps = Stamps::get(py)?;
    let mut names: Vec<Bound<'_, PyString>> = Vec::new();
    let (mut numbers, mut codes) = (Vec::with_capacity(events.len()), Vec::with_capacity(events.len()));
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
        numbers.push(stamps.id(&event)?.extract()?);
        codes.push(u32::try_from(now)?);
    }
    let runs = ids::runs(&numbers, codes.into_iter(), most)
        .map(|runs| runs.into_iter().map(|(at, first, last)| (names[at].clone(), first, last)));
    Ok(runs.map(Iterator::collect))
}

/// See `claims`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what comes from Python is owned")]
pub fn times_of_claimed(block: &[u8], rows: usize, runs: Vec<Named>) -> Option<(i64, i64)> {
    claims::times_of_claimed(block, rows, &runs)
}

/// See `claims`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what comes from Python is owned")]
pub fn times_of_claimed_columns(
    times: &[u8],
    ids: &[u8],
    codes: &[u8],
    names: Vec<String>,
    runs: Vec<Named>,
) -> Option<(i64, i64)> {
    claims::times_of_claimed_columns(times, ids, codes, &names, &runs)
}
