//! Events as columns, and the survey of their times.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList};

use crate::block::python::event_batch::integers;
use crate::event::python::fields::{Field, Stamps};
use crate::event::survey::{Moves, Survey, Tick, moves, seen};

/// The end of time, and its negative the time before all.
const END: i64 = 1 << 62;

/// One pass over the times of events; see the twin for what each of them is. O(n).
#[pyfunction]
pub fn survey_events(events: &Bound<'_, PyList>, top: i64, clk: i64, only_earliest: bool) -> PyResult<Survey> {
    let stamps = Stamps::get(events.py())?;
    seen(events.iter().map(|event| stamps.ts(&event)), top, clk, only_earliest)
}

/// How events move a clock. `times`, `less`, `ticks`: of each event, its time, the same less its K+, and whether it may move the
/// clock; whole numbers. O(n).
#[pyfunction]
pub fn clock_moves(
    times: &Bound<'_, PyAny>,
    less: &Bound<'_, PyAny>,
    ticks: &Bound<'_, PyAny>,
    clk: i64,
    only_earliest: bool,
) -> PyResult<Moves> {
    let (times, less, ticks) = (integers(times)?, integers(less)?, integers(ticks)?);
    let each = times.into_iter().zip(less).zip(ticks);
    let events: Vec<Tick> = each.map(|((ts, less), ticks)| Tick { ts, less, ticks: ticks != 0 }).collect();
    Ok(moves(&events, clk, only_earliest))
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
