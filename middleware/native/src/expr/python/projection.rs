//! Selection and projection of events, a batch at a time.
//!
//! Twin of the comprehensions that `detectors.cql` compiles, which say what it means. Whatever is not decided here as Python would
//! decide it (a value of another type, an overflow) leaves the whole batch to them.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString};

use crate::event::python::fields::{Field, Maker, Stamps};
use crate::expr::node::Node;
use crate::expr::program::{Place, Program};
use crate::expr::value::{Unsure, Value};

/// A column of a result: a field as it is, of one of the tuples, or calculated.
enum Column {
    Field(usize, usize),
    Calculated(Program),
}

#[pyclass(module = "middleware.native")]
pub struct Projection {
    maker: Maker,
    test: Option<Program>,
    columns: Vec<Column>,
    /// The fields that are read of each tuple.
    fields: Vec<Vec<Field>>,
    source: Py<PyString>,
    level: Py<PyInt>,
}

#[pymethods]
impl Projection {
    /// `test`, `columns`: expressions as nested tuples; `fields`: the names that they read, for each tuple. None if results are
    /// not to be made here.
    #[staticmethod]
    fn of(
        recipe: &Bound<'_, PyAny>,
        test: Option<Bound<'_, PyAny>>,
        columns: Vec<Bound<'_, PyAny>>,
        fields: Vec<Vec<Field>>,
        source: Py<PyString>,
        level: Py<PyInt>,
    ) -> PyResult<Option<Self>> {
        let Some(maker) = Maker::new(recipe)? else { return Ok(None) };
        let test = test.map(|test| Program::parse(&test)).transpose()?;
        let columns = columns.iter().map(Column::parse).collect::<PyResult<_>>()?;
        Ok(Some(Self { maker, test, columns, fields, source, level }))
    }

    /// The results of tuples one by one, with the identity id ^ hash of the source; None: ask Python.
    fn of_tuples<'py>(&self, events: &Bound<'py, PyList>, hashes: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyList>>> {
        let (py, stamps) = (events.py(), Stamps::get(events.py())?);
        let mut results = Vec::new();
        let mut values = Vec::with_capacity(self.columns.len() + Stamps::COUNT);
        let mut last: Option<(Bound<'_, PyString>, i64)> = None;
        for event in events {
            let tuple = [&event];
            match self.chosen(&tuple) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(Unsure) => return Ok(None),
            }
            let source = stamps.source(&event)?;
            let hash = match &last {
                Some((before, hash)) if before.is(&source) => *hash,
                _ => {
                    let Some(hash) = hashes.get_item(&source)? else { return Ok(None) };
                    let hash = hash.extract()?;
                    last = Some((source, hash));
                    hash
                }
            };
            let Ok(id) = stamps.id(&event)?.extract::<i64>() else { return Ok(None) };
            let Some(made) = self.result(py, &tuple, stamps.time(&event)?, id ^ hash, &mut values)? else { return Ok(None) };
            results.push(made);
        }
        Ok(Some(PyList::new(py, results)?))
    }

    /// The results of pairs, each at the time of the later tuple, with these identities; None: ask Python.
    fn of_pairs<'py>(
        &self,
        left: &Bound<'py, PyList>,
        right: &Bound<'py, PyList>,
        identities: Vec<i64>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let (py, stamps) = (left.py(), Stamps::get(left.py())?);
        let mut results = Vec::new();
        let mut values = Vec::with_capacity(self.columns.len() + Stamps::COUNT);
        for ((one, other), identity) in left.iter().zip(right).zip(identities) {
            let pair = [&one, &other];
            match self.chosen(&pair) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(Unsure) => return Ok(None),
            }
            let later = if stamps.ts(&one)? < stamps.ts(&other)? { &other } else { &one };
            let Some(made) = self.result(py, &pair, stamps.time(later)?, identity, &mut values)? else { return Ok(None) };
            results.push(made);
        }
        Ok(Some(PyList::new(py, results)?))
    }
}

impl Projection {
    fn chosen(&self, tuple: &[&Bound<'_, PyAny>]) -> Result<bool, Unsure> {
        match &self.test {
            None => Ok(true),
            Some(test) => test.holds(&|place| Ok(self.read(tuple, place))),
        }
    }

    /// A value as far as expressions know it.
    fn read(&self, tuple: &[&Bound<'_, PyAny>], (which, at): &Place) -> Value {
        self.fields[*which][*at].of(tuple[*which]).map_or(Value::Other, |value| Value::of(&value))
    }

    /// A result; None if it is for Python to make. `values`: room for those of its fields.
    fn result<'py>(
        &self,
        py: Python<'py>,
        tuple: &[&Bound<'py, PyAny>],
        ts: Bound<'py, PyAny>,
        identity: i64,
        values: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        values.clear();
        for column in &self.columns {
            values.push(match column {
                Column::Field(which, at) => self.fields[*which][*at].of(tuple[*which])?,
                Column::Calculated(program) => match program.value(&|place| Ok(self.read(tuple, place))) {
                    Ok(Value::Null) => py.None().into_bound(py),
                    Ok(Value::Int(number)) => number.into_bound_py_any(py)?,
                    Ok(Value::Float(number)) => number.into_bound_py_any(py)?,
                    Ok(Value::Bool(truth)) => truth.into_bound_py_any(py)?,
                    Ok(Value::Text(text)) => text.into_bound_py_any(py)?,
                    _ => return Ok(None),
                },
            });
        }
        values.push(ts);
        values.push(identity.into_bound_py_any(py)?);
        values.push(self.source.bind(py).clone().into_any());
        values.push(self.level.bind(py).clone().into_any());
        self.maker.make(py, values)
    }
}

impl Column {
    fn parse(node: &Bound<'_, PyAny>) -> PyResult<Self> {
        let program = Program::parse(node)?;
        Ok(match program.node {
            Node::Field((which, at)) => Self::Field(which, at),
            _ => Self::Calculated(program),
        })
    }
}
