//! What a unit must know of the times in a batch, which tests hold against `tests.oracles.surveys`. And events as columns.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList};

use crate::event::fields::{Field, Stamps};

/// The end of time, and its negative the time before all.
const END: i64 = 1 << 62;

/// Newest time ahead, earliest time, first time ahead of the clock, times that the clock had passed, times behind the newest.
pub type Survey = (i64, i64, Option<i64>, Vec<i64>, Vec<i64>);

/// One pass over the times of events; see the twin for what each of them is. O(n).
#[pyfunction]
pub fn survey_events(events: &Bound<'_, PyList>, top: i64, clk: i64, only_earliest: bool) -> PyResult<Survey> {
    let stamps = Stamps::get(events.py())?;
    seen(events.iter().map(|event| stamps.ts(&event)), top, clk, only_earliest)
}

/// The earliest and the latest time of events, and whether all are raw.
#[pyfunction]
pub fn span(events: &Bound<'_, PyList>) -> PyResult<(i64, i64, bool)> {
    let stamps = Stamps::get(events.py())?;
    let (mut earliest, mut newest, mut are_raw) = (END, -END, true);
    for event in events {
        let ts = stamps.ts(&event)?;
        (earliest, newest) = (earliest.min(ts), newest.max(ts));
        are_raw &= stamps.level(&event)? == 0;
    }
    Ok((earliest, newest, are_raw))
}

pub fn seen(times: impl Iterator<Item = PyResult<i64>>, top: i64, clk: i64, only_earliest: bool) -> PyResult<Survey> {
    if only_earliest {
        return soonest(times, top, clk);
    }
    let (mut newest, mut earliest, mut first) = (top, i64::MAX, None);
    let [mut delayed, mut passed, mut after] = [const { Vec::new() }; 3];
    for ts in times {
        let ts = ts?;
        earliest = earliest.min(ts);
        if ts > newest {
            newest = ts;
            after.clear();
            if ts < clk {
                passed.push(ts);
            } else if ts > clk && first.is_none() {
                first = Some(ts);
            }
        } else {
            delayed.push(ts);
            after.push(ts);
        }
    }
    delayed.append(&mut passed);
    Ok((newest, earliest, first, delayed, after))
}

/// The same with the earliest alone of those delayed, and of those behind. No branch depends on a time: the processor would guess
/// it wrong for each late event.
fn soonest(times: impl Iterator<Item = PyResult<i64>>, top: i64, clk: i64) -> PyResult<Survey> {
    const NONE: i64 = i64::MAX;
    let (mut newest, mut earliest, mut first, mut delayed, mut after) = (top, NONE, NONE, NONE, NONE);
    for ts in times {
        let ts = ts?;
        let is_ahead = ts > newest;
        earliest = earliest.min(ts);
        newest = newest.max(ts);
        first = first.min(if is_ahead & (ts > clk) { ts } else { NONE }); // each that is ahead is later than those before it
        delayed = delayed.min(if is_ahead & (ts >= clk) { NONE } else { ts });
        after = if is_ahead { NONE } else { after.min(ts) };
    }
    let some = |ts: i64| (ts != NONE).then_some(ts);
    Ok((newest, earliest, some(first), some(delayed).into_iter().collect(), some(after).into_iter().collect()))
}

/// The numbers of a field, one after the other: of 8 bytes each, truth values of one. None if a value is not of that very type. O(n).
#[pyfunction]
pub fn column_of<'py>(events: &Bound<'py, PyList>, field: Field, kind: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let found = match kind {
        "float64" => packed(events, &field, |value| Some(value.cast_exact::<PyFloat>().ok()?.value().to_ne_bytes())),
        "int64" => packed(events, &field, |value| Some(value.cast_exact::<PyInt>().ok()?.extract::<i64>().ok()?.to_ne_bytes())),
        "bool" => packed(events, &field, |value| Some([u8::from(value.cast_exact::<PyBool>().ok()?.is_true())])),
        _ => Ok(None),
    }?;
    Ok(found.map(|bytes| PyBytes::new(events.py(), &bytes)))
}

fn packed<const N: usize>(
    events: &Bound<'_, PyList>,
    field: &Field,
    bytes_of: impl Fn(&Bound<'_, PyAny>) -> Option<[u8; N]>,
) -> PyResult<Option<Vec<u8>>> {
    let mut packed = Vec::with_capacity(events.len() * N);
    for event in events {
        match bytes_of(&field.of(&event)?) {
            Some(bytes) => packed.extend_from_slice(&bytes),
            None => return Ok(None),
        }
    }
    Ok(Some(packed))
}
