//! The plan of a query, as `detectors.sequence.strategies.native_plan` hands it over.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::condition::Condition;
use crate::block::python::results::{Stamping, StampingSpec};
use crate::event::python::fields::{Field, Maker};
use crate::expr::program::Made;
use crate::sequence::pattern::{Component, Pattern, Schedule};

/// The fields that are read of the events of a component.
pub struct Reading {
    /// The fields that place its events in a partition; None: it belongs to all.
    pub key: Option<Vec<Field>>,
    /// The fields that conditions read.
    pub fields: Vec<Field>,
    /// Conditions on its event alone.
    pub filters: Vec<usize>,
    /// The numbers of the names of `key` and of `fields`.
    pub key_numbers: Option<Vec<usize>>,
    pub read: Vec<usize>,
}

/// A field of one of a match's events, which is a value of its result.
pub struct Plain {
    pub place: usize,
    pub field: Field,
    /// The number of its name.
    pub number: usize,
}

/// Where in a record batch of a type the fields lie that are read of it.
pub struct Layout {
    /// By the number of a name; None: it is not read.
    pub places: Vec<Option<usize>>,
}

/// Names of fields that are read of events, each once; each has its number.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn number(&mut self, py: Python<'_>, field: &Field) -> PyResult<usize> {
        let name = field.name().bind(py).to_str()?;
        Ok(self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        }))
    }

    fn numbers(&mut self, py: Python<'_>, fields: &[Field]) -> PyResult<Vec<usize>> {
        fields.iter().map(|field| self.number(py, field)).collect()
    }
}

pub struct Plan {
    pub pattern: Pattern,
    /// By component.
    pub readings: Vec<Reading>,
    /// For each event type (by address), the components that its events may be, negated ones first.
    pub roles: Vec<(Py<PyType>, Vec<usize>)>,
    /// For each of them, how it is read in columns; None: it is not.
    layouts: Vec<Option<Layout>>,
    pub conditions: Vec<Condition>,
    /// The function of a match's events that gives the values of its result.
    pub values: Py<PyAny>,
    /// The plain fields, if all its values are such.
    pub plain: Option<Vec<Plain>>,
    /// The fields of result columns, and the maker of their blocks; None: results are no columns.
    pub gives: Option<(Vec<Made>, Stamping)>,
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
        let mut names = Names::default();
        let parsed = |each: &Bound<'_, PyAny>| parsed(each, &mut names);
        let (components, readings) = list("components")?.iter().map(parsed).collect::<PyResult<(Vec<_>, Vec<_>)>>()?;
        let plain = |(place, field): (usize, Field)| Ok(Plain { place, number: names.number(spec.py(), &field)?, field });
        let plain: Option<PyResult<Vec<_>>> =
            of("plain")?.extract::<Option<Vec<(usize, Field)>>>()?.map(|fields| fields.into_iter().map(plain).collect());
        let layout =
            |places: HashMap<String, usize>| Layout { places: names.0.iter().map(|name| places.get(name).copied()).collect() };
        let layouts = of("columns")?.extract::<Vec<Option<_>>>()?.into_iter().map(|each| each.map(layout)).collect();
        let gives = of("gives")?.extract::<Option<(Vec<(String, bool)>, StampingSpec<'_>)>>()?;
        let gives = gives.map(|(fields, results)| {
            let made = fields.iter().map(|(kind, may_miss)| Made::new(kind, *may_miss)).collect::<PyResult<_>>();
            made.map(|made| (made, Stamping::new(results)))
        });
        let schedules = list("schedules")?
            .iter()
            .map(|each| each.extract().map(|(at, stepwise)| Schedule { at, stepwise }))
            .collect::<PyResult<_>>()?;
        let (within, reach, trails) = (of("within")?.extract()?, of("reach")?.extract()?, of("trails")?.extract()?);
        Ok(Self {
            pattern: Pattern::new(components, schedules, within, reach, trails),
            readings,
            roles: of("roles")?.extract()?,
            conditions: list("conditions")?.iter().map(Condition::parse).collect::<PyResult<_>>()?,
            values: of("values")?.unbind(),
            plain: plain.transpose()?,
            gives: gives.transpose()?,
            layouts,
            maker: Maker::new(&of("recipe")?)?,
            source: of("source")?.unbind(),
            level: of("level")?.unbind(),
            seed: of("seed")?.extract()?,
        })
    }

    /// The result of a match, or the row of its fields if it is left to Python: its values, ts, id, source and level.
    pub fn result<'py>(&self, py: Python<'py>, mut row: Vec<Bound<'py, PyAny>>, ts: i64, identity: i64) -> PyResult<Py<PyAny>> {
        row.push(ts.into_pyobject(py)?.into_any());
        row.push(identity.into_pyobject(py)?.into_any());
        row.push(self.source.bind(py).clone());
        row.push(self.level.bind(py).clone());
        let made = self.maker.as_ref().map(|maker| maker.make(py, &row)).transpose()?.flatten();
        made.map_or_else(|| Ok(PyTuple::new(py, row)?.into_any().unbind()), |made| Ok(made.unbind()))
    }

    /// The components that events of a type may be, and how it is read in columns, if it is.
    pub fn layout_of(&self, event_type: &Bound<'_, PyAny>) -> Option<(&[usize], &Layout)> {
        let at = self.roles.iter().position(|(known, _)| known.is(event_type))?;
        Some((&self.roles[at].1, self.layouts[at].as_ref()?))
    }

    /// The components that events of a type may be.
    #[inline]
    pub fn roles_of(&self, event_type: &Bound<'_, PyType>) -> &[usize] {
        self.roles.iter().find(|(known, _)| known.is(event_type)).map_or(&[], |(_, roles)| roles)
    }
}

fn parsed(spec: &Bound<'_, PyAny>, names: &mut Names) -> PyResult<(Component, Reading)> {
    let of = |name: &str| spec.get_item(name);
    let (key, fields): (Option<Vec<Field>>, Vec<Field>) = (of("key")?.extract()?, of("fields")?.extract()?);
    let component = Component {
        slot: of("slot")?.extract()?,
        place: of("place")?.extract()?,
        kleene: of("kleene")?.extract()?,
        negation: of("negation")?.extract()?,
        is_keyed: key.is_some(),
        conditions: of("conditions")?.extract()?,
    };
    let reading = Reading {
        key_numbers: key.as_ref().map(|key| names.numbers(spec.py(), key)).transpose()?,
        read: names.numbers(spec.py(), &fields)?,
        key,
        fields,
        filters: of("filters")?.extract()?,
    };
    Ok((component, reading))
}
