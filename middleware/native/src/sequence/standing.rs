//! Which matches of a partition stand, and the results that they give.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::identity::Encoder;
use super::plan::{Component, Plan};
use super::rows::Cell;
use super::search::{Found, Scratch, Search};
use super::stack::{Instance, Partition, Stack};
use crate::fields::{Field, Stamps};

/// A partition, with all that says which of its matches stand.
pub struct View<'a, 'py> {
    pub py: Python<'py>,
    pub plan: &'a Plan,
    pub partition: &'a Partition,
    pub common: &'a [Stack],
}

impl<'a, 'py> View<'a, 'py> {
    /// The matches of a search that are complete by `emitted`, and that no negative rules out.
    pub fn standing(&self, mut search: Search<'a, 'py>, emitted: i64) -> PyResult<(Vec<Found>, Box<Scratch>)> {
        let complete = if self.plan.trails { emitted.saturating_sub(self.plan.within) } else { i64::MAX };
        if self.plan.trails && !self.plan.step(0).kleene {
            search.ceilings()[0] = search.ceilings()[0].min(complete);
        }
        let (found, scratch) = search.run()?;
        if self.plan.negations.is_empty() {
            return Ok((found, scratch));
        }
        let mut standing = Vec::with_capacity(found.len());
        for each in found {
            if each.ends(self.plan, self.partition, 0).0.ts <= complete && !self.is_ruled_out(&each)? {
                standing.push(each);
            }
        }
        Ok((standing, scratch))
    }

    fn is_ruled_out(&self, found: &Found) -> PyResult<bool> {
        for (negation, slot) in self.plan.negations.iter().enumerate() {
            let component = &self.plan.components[*slot];
            let stack = if component.key.is_none() { &self.common[negation] } else { self.partition.negated(negation) };
            if stack.items.is_empty() {
                continue;
            }
            let (low, high) = self.range(component.place, found);
            for at in stack.below(low)..stack.up_to(high) {
                if self.rules_out(component, &stack.items[at], found)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The first and the last time at which a negative before `place` rules a match out.
    fn range(&self, place: usize, found: &Found) -> (i64, i64) {
        let ends = |place| found.ends(self.plan, self.partition, place);
        let last = self.plan.steps.len() - 1;
        let low = match place.checked_sub(1) {
            Some(before) => ends(before).1.ts + 1,
            None => ends(last).1.ts.saturating_sub(self.plan.within),
        };
        let high = if place <= last { ends(place).0.ts - 1 } else { ends(0).0.ts.saturating_add(self.plan.within) };
        (low, high)
    }

    /// Whether the conditions on a negative hold for it and a match.
    pub fn rules_out(&self, component: &Component, negative: &Instance, found: &Found) -> PyResult<bool> {
        let (plan, partition) = (self.plan, self.partition);
        for number in &component.conditions {
            let value = |slot, at: usize, number| {
                let instance = if slot == component.slot { negative } else { found.instance(plan, partition, slot, number) };
                instance.values[at].clone()
            };
            let part = |slot: usize| {
                if slot == component.slot {
                    return negative.event.event(self.py);
                }
                found.part(self.py, plan, partition, plan.components[slot].place)
            };
            if !plan.conditions[*number].holds(self.py, |slot| found.count(plan, slot), value, part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The identity of a match, as `Origin.id` has it.
    pub fn identity(&self, found: &Found, encoder: &mut Encoder) -> PyResult<i64> {
        encoder.clear();
        encoder.array(self.plan.steps.len());
        for place in 0..self.plan.steps.len() {
            let items = &self.partition.positive(place).items;
            if self.plan.step(place).kleene {
                encoder.array(found.groups[place].len());
                for at in &found.groups[place] {
                    encoder.event(self.py, &items[*at].event)?;
                }
            } else {
                encoder.event(self.py, &items[found.bound[place]].event)?;
            }
        }
        Ok(encoder.hash(self.plan.seed))
    }

    /// The values that RETURN gives.
    fn values(&self, found: &Found) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (py, plan) = (self.py, self.plan);
        if let Some(fields) = &plan.plain {
            let mut values = Vec::with_capacity(fields.len() + Stamps::COUNT);
            for (place, name) in fields {
                let instance = &self.partition.positive(*place).items[found.bound[*place]];
                values.push(instance.event.attribute(py, name)?);
            }
            return Ok(values);
        }
        let parts = (0..plan.steps.len()).map(|place| found.part(py, plan, self.partition, place));
        let parts = parts.collect::<PyResult<Vec<_>>>()?;
        Ok(plan.values.bind(py).call1(PyTuple::new(py, parts)?)?.cast::<PyTuple>()?.iter().collect())
    }

    /// When the result of a match happens.
    pub fn ts(&self, found: &Found) -> i64 {
        let (plan, partition) = (self.plan, self.partition);
        if plan.trails {
            return found.ends(plan, partition, 0).0.ts.saturating_add(plan.within);
        }
        found.ends(plan, partition, plan.steps.len() - 1).1.ts
    }

    /// What RETURN gives as cells of columns; None if it gives more than fields.
    pub fn cells(&self, found: &Found) -> PyResult<Option<Box<[Cell]>>> {
        let Some(fields) = &self.plan.plain else { return Ok(None) };
        let cell = |(place, name): &(usize, Field)| {
            self.partition.positive(*place).items[found.bound[*place]].event.cell(self.py, name)
        };
        fields.iter().map(cell).collect::<PyResult<_>>().map(Some)
    }

    /// The result of a match, or the row of its fields.
    pub fn result(&self, found: &Found, identity: i64, in_rows: bool) -> PyResult<Py<PyAny>> {
        self.plan.result(self.py, self.values(found)?, self.ts(found), identity, in_rows)
    }
}
