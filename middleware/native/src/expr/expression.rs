//! Conditions: compiled expressions on plain fields, each with the Python function that decides where this cannot.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::aggregate::Aggregate;
use super::value::{Operation, Sign, Unsure, Value};

/// Which event of a component: of a Kleene component, `Each` stands for one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Each,
    /// The one before that.
    Before,
    /// The oldest.
    First,
    /// The one of that number, from 0.
    At(usize),
    /// None of them: how many there are, instead of a value.
    Count,
}

pub enum Expression {
    Constant(Value),
    /// The component, which of the values taken of its event, and which event that is.
    Field(usize, usize, Which),
    Compute(Operation, Box<Self>, Box<Self>),
    Compare(Sign, Box<Self>, Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    In(Box<Self>, Vec<Self>),
    IsNull(Box<Self>),
    /// Of all events of a Kleene component; which of their values.
    Aggregate(Aggregate, usize, Option<usize>),
}

impl Expression {
    /// From nested tuples, as `detectors.sequence.strategies.native_plan` writes them.
    pub fn parse(node: &Bound<'_, PyAny>) -> PyResult<Self> {
        let node = node.cast::<PyTuple>()?;
        let kind: String = node.get_item(0)?.extract()?;
        let one = |at: usize| Ok::<_, PyErr>(Box::new(Self::parse(&node.get_item(at)?)?));
        let many = |from: usize| node.iter().skip(from).map(|each| Self::parse(&each)).collect::<PyResult<Vec<_>>>();
        Ok(match kind.as_str() {
            "constant" => Self::Constant(Value::of(&node.get_item(1)?)),
            "field" => Self::field(node, Which::Each)?,
            "before" => Self::field(node, Which::Before)?,
            "first" => Self::field(node, Which::First)?,
            "all" => Self::All(many(1)?),
            "any" => Self::Any(many(1)?),
            "not" => Self::Not(one(1)?),
            "in" => Self::In(one(1)?, many(2)?),
            "null" => Self::IsNull(one(1)?),
            "aggregate" => {
                let name: String = node.get_item(1)?.extract()?;
                let kind =
                    Aggregate::named(&name).ok_or_else(|| PyValueError::new_err(format!("unknown aggregate {name:?}")))?;
                Self::Aggregate(kind, node.get_item(2)?.extract()?, node.get_item(3)?.extract()?)
            }
            other => match (sign(other), operation(other)) {
                (Some(sign), _) => Self::Compare(sign, one(1)?, one(2)?),
                (_, Some(operation)) => Self::Compute(operation, one(1)?, one(2)?),
                _ => return Err(PyValueError::new_err(format!("unknown expression {other:?}"))),
            },
        })
    }

    fn field(node: &Bound<'_, PyTuple>, which: Which) -> PyResult<Self> {
        Ok(Self::Field(node.get_item(1)?.extract()?, node.get_item(2)?.extract()?, which))
    }

    /// Its value, given those of fields: component, which of its values, and of which of its events.
    pub fn value(&self, values: &impl Fn(usize, usize, Which) -> Value) -> Result<Value, Unsure> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Field(slot, at, which) => Ok(values(*slot, *at, *which)),
            Self::Compute(operation, one, other) => one.lent(values)?.compute(*operation, &*other.lent(values)?),
            Self::Compare(sign, one, other) => one.lent(values)?.compare(*sign, &*other.lent(values)?),
            Self::All(terms) => junction(terms, values, false),
            Self::Any(terms) => junction(terms, values, true),
            Self::Not(term) => Ok(term.value(values)?.truth()?.map_or(Value::Null, |truth| Value::Bool(!truth))),
            Self::In(one, options) => Self::among(&one.value(values)?, options, values),
            Self::IsNull(one) => match one.value(values)? {
                Value::Other => Err(Unsure),
                value => Ok(Value::Bool(value == Value::Null)),
            },
            Self::Aggregate(kind, slot, at) => {
                let Value::Int(count) = values(*slot, 0, Which::Count) else { return Err(Unsure) };
                let Some(at) = at else { return Ok(Value::Int(count)) };
                kind.of((0..count as usize).map(|number| values(*slot, *at, Which::At(number))))
            }
        }
    }

    /// The same, with no copy of a constant.
    #[inline]
    fn lent(&self, values: &impl Fn(usize, usize, Which) -> Value) -> Result<Cow<'_, Value>, Unsure> {
        match self {
            Self::Constant(value) => Ok(Cow::Borrowed(value)),
            Self::Field(slot, at, which) => Ok(Cow::Owned(values(*slot, *at, *which))),
            _ => self.value(values).map(Cow::Owned),
        }
    }

    fn among(one: &Value, options: &[Self], values: &impl Fn(usize, usize, Which) -> Value) -> Result<Value, Unsure> {
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
fn junction(terms: &[Expression], values: &impl Fn(usize, usize, Which) -> Value, decisive: bool) -> Result<Value, Unsure> {
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
    /// The Kleene component of which it must hold for each event, and whether it reads the one before each, too.
    each: Option<(usize, bool)>,
    expression: Option<Expression>,
    call: Py<PyAny>,
}

impl Condition {
    /// From a tuple (slots, expression or None, function, (Kleene component, whether it reads the event before) or None).
    pub fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        type Spec<'py> = (Vec<usize>, Bound<'py, PyAny>, Py<PyAny>, Option<(usize, bool)>);
        let (slots, expression, call, each): Spec<'_> = spec.extract()?;
        let expression = if expression.is_none() { None } else { Some(Expression::parse(&expression)?) };
        Ok(Self { slots, each, expression, call })
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
        if let Some(expression) = &self.expression
            && let Ok(holds) = self.decided(expression, count, values)
        {
            return Ok(holds);
        }
        let arguments = self.slots.iter().map(|slot| argument(*slot)).collect::<PyResult<Vec<_>>>()?;
        self.call.bind(py).call1(PyTuple::new(py, arguments)?)?.is_truthy()
    }

    #[inline]
    fn decided(
        &self,
        expression: &Expression,
        count: impl Fn(usize) -> usize,
        values: impl Fn(usize, usize, usize) -> Value,
    ) -> Result<bool, Unsure> {
        let Some((group, reads_before)) = self.each else {
            let of = |slot, at, which| match which {
                Which::At(number) => values(slot, at, number),
                Which::Count => Value::Int(count(slot) as i64),
                _ => values(slot, at, 0),
            };
            return Ok(expression.value(&of)?.truth()? == Some(true));
        };
        for event in usize::from(reads_before)..count(group) {
            let of = |slot, at, which| match which {
                Which::Each if slot == group => values(slot, at, event),
                Which::Before => values(slot, at, event - 1),
                Which::At(number) => values(slot, at, number),
                Which::Count => Value::Int(count(slot) as i64),
                _ => values(slot, at, 0),
            };
            if expression.value(&of)?.truth()? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
