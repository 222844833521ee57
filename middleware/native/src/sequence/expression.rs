//! Conditions: compiled expressions on plain fields, each with the Python function that decides where this cannot.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::value::{Operation, Sign, Unsure, Value};

pub enum Expression {
    Constant(Value),
    /// The component, and which of the values taken of its event.
    Field(usize, usize),
    Compute(Operation, Box<Self>, Box<Self>),
    Compare(Sign, Box<Self>, Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    In(Box<Self>, Vec<Self>),
    IsNull(Box<Self>),
}

impl Expression {
    /// From nested tuples, as `detectors.sequence.native` writes them.
    pub fn parse(node: &Bound<'_, PyAny>) -> PyResult<Self> {
        let node = node.cast::<PyTuple>()?;
        let kind: String = node.get_item(0)?.extract()?;
        let one = |at: usize| Ok::<_, PyErr>(Box::new(Self::parse(&node.get_item(at)?)?));
        let many = |from: usize| node.iter().skip(from).map(|each| Self::parse(&each)).collect::<PyResult<Vec<_>>>();
        Ok(match kind.as_str() {
            "constant" => Self::Constant(Value::of(&node.get_item(1)?)),
            "field" => Self::Field(node.get_item(1)?.extract()?, node.get_item(2)?.extract()?),
            "all" => Self::All(many(1)?),
            "any" => Self::Any(many(1)?),
            "not" => Self::Not(one(1)?),
            "in" => Self::In(one(1)?, many(2)?),
            "null" => Self::IsNull(one(1)?),
            other => match (sign(other), operation(other)) {
                (Some(sign), _) => Self::Compare(sign, one(1)?, one(2)?),
                (_, Some(operation)) => Self::Compute(operation, one(1)?, one(2)?),
                _ => return Err(PyValueError::new_err(format!("unknown expression {other:?}"))),
            },
        })
    }

    fn value(&self, values: &impl Fn(usize, usize) -> Value) -> Result<Value, Unsure> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Field(slot, at) => Ok(values(*slot, *at)),
            Self::Compute(operation, one, other) => one.value(values)?.compute(*operation, &other.value(values)?),
            Self::Compare(sign, one, other) => one.value(values)?.compare(*sign, &other.value(values)?),
            Self::All(terms) => junction(terms, values, false),
            Self::Any(terms) => junction(terms, values, true),
            Self::Not(term) => Ok(term.value(values)?.truth()?.map_or(Value::Null, |truth| Value::Bool(!truth))),
            Self::In(one, options) => Self::among(&one.value(values)?, options, values),
            Self::IsNull(one) => match one.value(values)? {
                Value::Other => Err(Unsure),
                value => Ok(Value::Bool(value == Value::Null)),
            },
        }
    }

    fn among(one: &Value, options: &[Self], values: &impl Fn(usize, usize) -> Value) -> Result<Value, Unsure> {
        let mut unknown = *one == Value::Null;
        for option in options {
            match one.compare(Sign::Equal, &option.value(values)?)?.truth()? {
                Some(true) => return Ok(Value::Bool(true)),
                Some(false) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { Value::Null } else { Value::Bool(false) })
    }
}

/// Three-valued AND (`decisive` is false) or OR (it is true).
fn junction(terms: &[Expression], values: &impl Fn(usize, usize) -> Value, decisive: bool) -> Result<Value, Unsure> {
    let mut unknown = false;
    for term in terms {
        match term.value(values)?.truth()? {
            Some(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(!decisive) })
}

fn sign(text: &str) -> Option<Sign> {
    Some(match text {
        "=" => Sign::Equal,
        "<>" => Sign::Unequal,
        "<" => Sign::Below,
        "<=" => Sign::UpTo,
        ">" => Sign::Above,
        ">=" => Sign::From,
        _ => return None,
    })
}

fn operation(text: &str) -> Option<Operation> {
    Some(match text {
        "+" => Operation::Add,
        "-" => Operation::Subtract,
        "*" => Operation::Multiply,
        "/" => Operation::Divide,
        "%" => Operation::Modulo,
        _ => return None,
    })
}

pub struct Condition {
    /// The components that it reads.
    pub slots: Vec<usize>,
    expression: Option<Expression>,
    call: Py<PyAny>,
}

impl Condition {
    /// From a tuple (slots, expression or None, function).
    pub fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (slots, expression, call): (Vec<usize>, Bound<'_, PyAny>, Py<PyAny>) = spec.extract()?;
        let expression = if expression.is_none() { None } else { Some(Expression::parse(&expression)?) };
        Ok(Self { slots, expression, call })
    }

    /// Whether it holds, given the values of events, and how to get what Python is called with for a component.
    #[inline]
    pub fn holds<'py>(
        &self,
        py: Python<'py>,
        values: impl Fn(usize, usize) -> Value,
        argument: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        if let Some(expression) = &self.expression
            && let Ok(truth) = expression.value(&values).and_then(|value| value.truth())
        {
            return Ok(truth == Some(true));
        }
        let arguments = self.slots.iter().map(|slot| argument(*slot)).collect::<PyResult<Vec<_>>>()?;
        self.call.bind(py).call1(PyTuple::new(py, arguments)?)?.is_truthy()
    }
}
