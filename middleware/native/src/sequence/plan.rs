//! The plan of a query, as `detectors.sequence.native` hands it over.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::expression::Condition;
use crate::fields::{Field, Maker};

/// The conditions (by number) to check when a place is bound, and for Kleene steps event by event.
pub struct Schedule {
    pub at: Vec<Vec<usize>>,
    pub stepwise: Vec<Vec<usize>>,
}

pub struct Component {
    pub slot: usize,
    /// Among the positive components; for a negated one, how many positive ones stand before it.
    pub place: usize,
    pub kleene: bool,
    /// The number of a negated component among the negated ones.
    pub negation: Option<usize>,
    /// The fields that place its events in a partition; None: it belongs to all.
    pub key: Option<Vec<Field>>,
    /// The fields that conditions read.
    pub fields: Vec<Field>,
    /// Conditions on its event alone.
    pub filters: Vec<usize>,
    /// For a negated one: what makes an event rule a match out.
    pub conditions: Vec<usize>,
}

pub struct Plan {
    pub steps: Vec<usize>,
    pub negations: Vec<usize>,
    pub components: Vec<Component>,
    /// For each event type (by address), the components that its events may be, negated ones first.
    pub roles: Vec<(Py<PyType>, Vec<usize>)>,
    pub conditions: Vec<Condition>,
    /// For each place whose event is given; the last one for when none is.
    pub schedules: Vec<Schedule>,
    pub within: i64,
    pub reach: i64,
    /// Whether negation stands at the end, so that matches wait for their window to pass.
    pub trails: bool,
    /// Whether there are Kleene steps.
    pub has_groups: bool,
    /// The function of a match's events that gives the values of its result.
    pub values: Py<PyAny>,
    /// The same as (place, field), if those are all its values.
    pub plain: Option<Vec<(usize, Field)>>,
    /// Makes results; None if they are left to Python as rows.
    pub maker: Option<Maker>,
    pub source: Py<PyAny>,
    pub level: Py<PyAny>,
    pub seed: u64,
}

impl Plan {
    pub fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let of = |name: &str| spec.get_item(name);
        let list = |name: &str| of(name)?.try_iter()?.collect::<PyResult<Vec<_>>>();
        let components = list("components")?.iter().map(Component::parse).collect::<PyResult<Vec<_>>>()?;
        let schedules = list("schedules")?
            .iter()
            .map(|each| each.extract().map(|(at, stepwise)| Schedule { at, stepwise }))
            .collect::<PyResult<_>>()?;
        let positive = |component: &&Component| component.negation.is_none();
        Ok(Self {
            steps: components.iter().filter(positive).map(|each| each.slot).collect(),
            negations: components.iter().filter(|each| !positive(each)).map(|each| each.slot).collect(),
            has_groups: components.iter().any(|each| each.kleene),
            components,
            roles: of("roles")?.extract()?,
            conditions: list("conditions")?.iter().map(Condition::parse).collect::<PyResult<_>>()?,
            schedules,
            within: of("within")?.extract()?,
            reach: of("reach")?.extract()?,
            trails: of("trails")?.extract()?,
            values: of("values")?.unbind(),
            plain: of("plain")?.extract()?,
            maker: Maker::new(&of("recipe")?)?,
            source: of("source")?.unbind(),
            level: of("level")?.unbind(),
            seed: of("seed")?.extract()?,
        })
    }

    /// The component of a positive place.
    #[inline]
    pub fn step(&self, place: usize) -> &Component {
        &self.components[self.steps[place]]
    }

    /// The result of a match, or the row of its fields if that is left to Python: its values, ts, id, source and level.
    pub fn result<'py>(
        &self,
        py: Python<'py>,
        mut row: Vec<Bound<'py, PyAny>>,
        ts: i64,
        identity: i64,
        in_rows: bool,
    ) -> PyResult<Py<PyAny>> {
        row.push(ts.into_pyobject(py)?.into_any());
        row.push(identity.into_pyobject(py)?.into_any());
        row.push(self.source.bind(py).clone());
        row.push(self.level.bind(py).clone());
        let made = self.maker.as_ref().filter(|_| !in_rows).map(|maker| maker.make(py, &row)).transpose()?.flatten();
        made.map_or_else(|| Ok(PyTuple::new(py, row)?.into_any().unbind()), |made| Ok(made.unbind()))
    }

    /// The components that events of a type may be.
    #[inline]
    pub fn roles_of(&self, event_type: &Bound<'_, PyType>) -> &[usize] {
        self.roles.iter().find(|(known, _)| known.is(event_type)).map_or(&[], |(_, roles)| roles)
    }
}

impl Component {
    fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let of = |name: &str| spec.get_item(name);
        Ok(Self {
            slot: of("slot")?.extract()?,
            place: of("place")?.extract()?,
            kleene: of("kleene")?.extract()?,
            negation: of("negation")?.extract()?,
            key: of("key")?.extract()?,
            fields: of("fields")?.extract()?,
            filters: of("filters")?.extract()?,
            conditions: of("conditions")?.extract()?,
        })
    }
}
