//! The net change of one step: matches that stand now and did not before, and the reverse; and their results.

use std::collections::hash_map::Entry;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::block::Blocks;
use super::identity::Encoder;
use super::plan::Plan;
use super::stack::Instance;
use super::standing::{Bound, View};
use crate::block::python::blocks::Block;
use crate::event::python::fields::Stamps;
use crate::expr::program::gathered;
use crate::hashing::Scattered;

/// Matches that were made or withdrawn, one after the other. Their results are made at the end of the step, of those that are left.
#[derive(Default)]
pub struct Changes {
    all: Vec<Change>,
    /// The instances of all of them, place by place, and where each place ends.
    instances: Vec<Instance>,
    ends: Vec<u32>,
    encoder: Encoder,
}

struct Change {
    makes: bool,
    ts: i64,
    identity: i64,
}

/// Rows of new matches and of withdrawn ones; or the new ones as a block, in order of time.
pub type Results<'py> = (pyo3::Bound<'py, PyList>, pyo3::Bound<'py, PyList>, Option<Block>);

impl Changes {
    pub fn clear(&mut self) {
        self.all.clear();
        self.instances.clear();
        self.ends.clear();
    }

    #[inline]
    pub fn note(&mut self, view: &View<'_, '_>, bound: &Bound, makes: bool) {
        for place in 0..view.plan.steps.len() {
            self.instances.extend(view.instances(bound, place));
            self.ends.push(self.instances.len() as u32);
        }
        self.all.push(Change { makes, ts: view.ts(bound), identity: 0 });
    }

    /// The results of what is left of them; new ones as columns if `as_columns`, none replaces a withdrawn one, and they can be.
    pub fn results<'py>(&mut self, py: Python<'py>, plan: &Plan, blocks: &Blocks, as_columns: bool) -> PyResult<Results<'py>> {
        for at in 0..self.all.len() {
            self.all[at].identity = self.identity(py, plan, blocks, at)?;
        }
        let (mut made, withdrawn, are_apart) = self.net();
        let mut columns = None;
        if as_columns && are_apart && !made.is_empty() {
            made.sort_by_key(|at| self.all[*at].ts);
            columns = self.columns(py, plan, blocks, &made);
            if columns.is_some() {
                made.clear();
            }
        }
        let rows = |chosen: Vec<usize>| {
            let rows = chosen.into_iter().map(|at| self.row(py, plan, blocks, at)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, rows)
        };
        Ok((rows(made)?, rows(withdrawn)?, columns))
    }

    /// Which matches are made, and which withdrawn, by identity: what was made in this step leaves no trace when it is withdrawn.
    /// And whether none is among both.
    fn net(&self) -> (Vec<usize>, Vec<usize>, bool) {
        if self.all.iter().all(|each| each.makes) {
            return ((0..self.all.len()).collect(), Vec::new(), true);
        }
        let (mut made, mut withdrawn) = (Scattered::<i64, usize>::default(), Scattered::<i64, usize>::default());
        for (at, each) in self.all.iter().enumerate() {
            if each.makes {
                made.insert(each.identity, at);
            } else if made.remove(&each.identity).is_none()
                && let Entry::Vacant(first) = withdrawn.entry(each.identity)
            {
                first.insert(at);
            }
        }
        let in_order = |chosen: Scattered<i64, usize>| {
            let mut places: Vec<usize> = chosen.into_values().collect();
            places.sort_unstable();
            places
        };
        let are_apart = made.keys().all(|identity| !withdrawn.contains_key(identity));
        (in_order(made), in_order(withdrawn), are_apart)
    }

    /// The instances of a place of a match.
    fn place(&self, plan: &Plan, at: usize, place: usize) -> &[Instance] {
        &self.instances[self.range(at * plan.steps.len() + place)]
    }

    fn range(&self, number: usize) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[number] as usize
    }

    /// The identity of a match, as `Origin.id` has it.
    fn identity(&mut self, py: Python<'_>, plan: &Plan, blocks: &Blocks, at: usize) -> PyResult<i64> {
        let mut encoder = std::mem::take(&mut self.encoder);
        encoder.clear();
        encoder.array(plan.steps.len());
        for place in 0..plan.steps.len() {
            let instances = self.place(plan, at, place);
            if plan.step(place).kleene {
                encoder.array(instances.len());
            }
            for each in instances {
                blocks.identify(py, *each, &mut encoder)?;
            }
        }
        let identity = encoder.hash(plan.seed);
        self.encoder = encoder;
        Ok(identity)
    }

    /// The result of a match, or the row of its fields.
    fn row(&self, py: Python<'_>, plan: &Plan, blocks: &Blocks, at: usize) -> PyResult<Py<PyAny>> {
        let mut values = Vec::with_capacity(plan.plain.as_ref().map_or(0, Vec::len) + Stamps::COUNT);
        if let Some(fields) = &plan.plain {
            for each in fields {
                values.push(blocks.attribute(py, self.place(plan, at, each.place)[0], &each.field, each.number)?);
            }
        } else {
            let part = |place| {
                let events = self.place(plan, at, place).iter().map(|each| blocks.event(py, *each));
                let events = events.collect::<PyResult<Vec<_>>>()?;
                if plan.step(place).kleene { Ok(PyTuple::new(py, events)?.into_any()) } else { Ok(events[0].clone()) }
            };
            let parts = (0..plan.steps.len()).map(part).collect::<PyResult<Vec<_>>>()?;
            values.extend(plan.values.bind(py).call1(PyTuple::new(py, parts)?)?.cast::<PyTuple>()?.iter());
        }
        plan.result(py, values, self.all[at].ts, self.all[at].identity)
    }

    /// Results as columns; None if they cannot be.
    fn columns(&self, py: Python<'_>, plan: &Plan, blocks: &Blocks, chosen: &[usize]) -> Option<Block> {
        let (fields, (kinds, stamping)) = plan.plain.as_ref().zip(plan.gives.as_ref())?;
        let mut given = Vec::with_capacity(fields.len());
        for (each, made) in fields.iter().zip(kinds) {
            let cell = |at: &usize| blocks.cell(py, self.place(plan, *at, each.place)[0], &each.field, each.number);
            let mut column = made.column(chosen.len());
            let values = gathered(made.kind(), chosen.iter().map(cell), chosen.len()).ok()?;
            column.add(&values, chosen.len()).ok()?;
            given.push(column);
        }
        let of = |number: fn(&Change) -> i64| chosen.iter().map(|at| number(&self.all[*at])).collect();
        stamping.block(given, of(|each| each.ts), of(|each| each.identity))
    }
}
