//! The results of the net change of one step.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::block::Rows;
use super::plan::Plan;
use crate::block::python::blocks::Block;
use crate::event::python::fields::Stamps;
use crate::expr::program::gathered;
use crate::sequence::changes::{Change, Changes};
use crate::sequence::encoder::Encoder;

/// Rows of new matches and of withdrawn ones; or the new ones as a block, in order of time.
pub type Results<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Option<Block>);

/// The results of what is left of changes; new ones as columns if `as_columns`, none replaces a withdrawn one, and they can be.
pub fn results<'py>(
    py: Python<'py>,
    plan: &Plan,
    rows: &Rows,
    changes: &mut Changes,
    encoder: &mut Encoder,
    as_columns: bool,
) -> PyResult<Results<'py>> {
    changes.identify(|changes, at| identity(py, plan, rows, changes, at, encoder))?;
    let (mut made, withdrawn, are_apart) = changes.net();
    let mut block = None;
    if as_columns && are_apart && !made.is_empty() {
        made.sort_by_key(|at| changes.get(*at).ts);
        block = columns(py, plan, rows, changes, &made);
        if block.is_some() {
            made.clear();
        }
    }
    let rows = |chosen: Vec<usize>| {
        let rows = chosen.into_iter().map(|at| row(py, plan, rows, changes, at)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, rows)
    };
    Ok((rows(made)?, rows(withdrawn)?, block))
}

/// The identity of a match, as `Origin.id` has it.
fn identity(py: Python<'_>, plan: &Plan, rows: &Rows, changes: &Changes, at: usize, encoder: &mut Encoder) -> PyResult<i64> {
    encoder.clear();
    encoder.array(plan.pattern.steps.len());
    for place in 0..plan.pattern.steps.len() {
        let instances = changes.place(at, place);
        if plan.pattern.step(place).kleene {
            encoder.array(instances.len());
        }
        for each in instances {
            rows.identify(py, *each, encoder)?;
        }
    }
    Ok(encoder.hash(plan.seed))
}

/// The result of a match, or the row of its fields.
fn row(py: Python<'_>, plan: &Plan, rows: &Rows, changes: &Changes, at: usize) -> PyResult<Py<PyAny>> {
    let mut values = Vec::with_capacity(plan.plain.as_ref().map_or(0, Vec::len) + Stamps::COUNT);
    if let Some(fields) = &plan.plain {
        for each in fields {
            values.push(rows.attribute(py, changes.place(at, each.place)[0], &each.field, each.number)?);
        }
    } else {
        let part = |place| {
            let events = changes.place(at, place).iter().map(|each| rows.event(py, *each));
            let events = events.collect::<PyResult<Vec<_>>>()?;
            if plan.pattern.step(place).kleene { Ok(PyTuple::new(py, events)?.into_any()) } else { Ok(events[0].clone()) }
        };
        let parts = (0..plan.pattern.steps.len()).map(part).collect::<PyResult<Vec<_>>>()?;
        values.extend(plan.values.bind(py).call1(PyTuple::new(py, parts)?)?.cast::<PyTuple>()?.iter());
    }
    plan.result(py, values, changes.get(at).ts, changes.get(at).identity)
}

/// Results as columns; None if they cannot be.
fn columns(py: Python<'_>, plan: &Plan, rows: &Rows, changes: &Changes, chosen: &[usize]) -> Option<Block> {
    let (fields, (kinds, stamping)) = plan.plain.as_ref().zip(plan.gives.as_ref())?;
    let mut given = Vec::with_capacity(fields.len());
    for (each, made) in fields.iter().zip(kinds) {
        let cell = |at: &usize| rows.cell(py, changes.place(*at, each.place)[0], &each.field, each.number);
        let mut column = made.column(chosen.len());
        let values = gathered(made.kind(), chosen.iter().map(cell), chosen.len()).ok()?;
        column.add(&values, chosen.len()).ok()?;
        given.push(column);
    }
    let of = |number: fn(&Change) -> i64| chosen.iter().map(|at| number(changes.get(*at))).collect();
    stamping.block(given, of(|each| each.ts), of(|each| each.identity))
}
