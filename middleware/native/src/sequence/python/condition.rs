//! Conditions: expressions on plain fields of events, each with the Python function that decides where these cannot.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::expr::node::Expression;
use crate::expr::python::Read;
use crate::expr::value::Value;
use crate::sequence::aggregate::Aggregate;
use crate::sequence::condition::{Reading, Test};

impl Read for Reading {
    fn parse(kind: &str, node: &Bound<'_, PyTuple>) -> PyResult<Option<Self>> {
        let part = |at| node.get_item(at)?.extract();
        Ok(Some(match kind {
            "field" => Self::Each(part(1)?, part(2)?),
            "before" => Self::Before(part(1)?, part(2)?),
            "first" => Self::First(part(1)?, part(2)?),
            "aggregate" => {
                let name: String = node.get_item(1)?.extract()?;
                let kind =
                    Aggregate::named(&name).ok_or_else(|| PyValueError::new_err(format!("unknown aggregate {name:?}")))?;
                Self::Group(kind, part(2)?, node.get_item(3)?.extract()?)
            }
            _ => return Ok(None),
        }))
    }
}

pub struct Condition {
    /// The components that it reads.
    pub slots: Vec<usize>,
    test: Option<Test>,
    call: Py<PyAny>,
}

impl Condition {
    /// From a tuple (slots, expression or None, function, (Kleene component, whether it reads the event before) or None).
    pub fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        type Spec<'py> = (Vec<usize>, Bound<'py, PyAny>, Py<PyAny>, Option<(usize, bool)>);
        let (slots, expression, call, each): Spec<'_> = spec.extract()?;
        let expression = if expression.is_none() { None } else { Some(Expression::parse(&expression)?) };
        Ok(Self { slots, test: expression.map(|expression| Test { expression, each }), call })
    }

    /// Whether it holds, given how many events a Kleene component has, the values of events (component, value, and which of its
    /// events, from 0), and what Python is called with for a component.
    #[inline]
    pub fn holds<'py>(
        &self,
        py: Python<'py>,
        count: impl Fn(usize) -> usize,
        values: impl Fn(usize, usize, usize) -> Value,
        argument: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        if let Some(test) = &self.test
            && let Ok(holds) = test.holds(count, values)
        {
            return Ok(holds);
        }
        let arguments = self.slots.iter().map(|slot| argument(*slot)).collect::<PyResult<Vec<_>>>()?;
        self.call.bind(py).call1(PyTuple::new(py, arguments)?)?.is_truthy()
    }
}
