//! Values and expressions of Python, and patterns as Python sees them.

pub mod projection;
pub mod selection;
pub mod tuples;

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};
use regex::bytes::Regex;

use crate::expr::node::{Expression, Membership, Node};
use crate::expr::pattern::compiled;
use crate::expr::value::{Arithmetic, Division, Join, Sign, Value};

impl Value {
    pub fn of(object: &Bound<'_, PyAny>) -> Self {
        if let Ok(number) = object.cast_exact::<PyInt>() {
            number.extract().map_or_else(|_| number.gt(0).map_or(Self::Other, Self::Beyond), Self::Int)
        } else if let Ok(number) = object.cast_exact::<PyFloat>() {
            Self::Float(number.value())
        } else if let Ok(text) = object.cast_exact::<PyString>() {
            text.to_str().map_or(Self::Other, |text| Self::Text(text.into()))
        } else if let Ok(truth) = object.cast_exact::<PyBool>() {
            Self::Bool(truth.is_true())
        } else if object.is_none() {
            Self::Null
        } else {
            Self::Other
        }
    }
}

/// What tells apart the fields of an expression, as Python writes it down.
pub trait Read: Sized {
    /// None: a node of this kind is no field.
    fn parse(kind: &str, node: &Bound<'_, PyTuple>) -> PyResult<Option<Self>>;
}

impl<F: Read> Expression<F> {
    /// From nested tuples, as `detectors.language.written` makes them.
    pub fn parse(node: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut kept = 0;
        Ok(Self { node: Node::parse(node, &mut kept)?, kept })
    }
}

impl<F: Read> Node<F> {
    fn parse(node: &Bound<'_, PyAny>, kept: &mut usize) -> PyResult<Self> {
        let node = node.cast::<PyTuple>()?;
        let kind: String = node.get_item(0)?.extract()?;
        if let Some(field) = F::parse(&kind, node)? {
            return Ok(Self::Field(field));
        }
        let mut one = |at: usize| Ok::<_, PyErr>(Box::new(Self::parse(&node.get_item(at)?, kept)?));
        Ok(match kind.as_str() {
            "constant" => match Value::of(&node.get_item(1)?) {
                Value::Other => return Err(PyValueError::new_err("a constant of this type is none of these")),
                value => Self::Constant(value),
            },
            "keep" => {
                let (number, value) = (node.get_item(1)?.extract()?, one(2)?);
                *kept = (*kept).max(number + 1);
                Self::Keep(number, value)
            }
            "kept" => {
                let number = node.get_item(1)?.extract()?;
                *kept = (*kept).max(number + 1);
                Self::Kept(number)
            }
            "not" => Self::Not(one(1)?),
            "there" => Self::IsThere(one(1)?),
            "choose" => Self::Choose(one(1)?, one(2)?, one(3)?),
            "negate" => Self::Negate(one(1)?),
            "float" => Self::Real(one(1)?),
            "nullable" => one(1)?.nullable(),
            "strict" => match *one(1)? {
                Self::Constant(otherwise) => one(2)?.strict(otherwise),
                _ => return Err(PyValueError::new_err("what stands for NULL is no constant")),
            },
            "whole" => Self::Whole(one(1)?),
            "all" => Self::All(Self::parse_from(1, node, kept)?),
            "any" => Self::Any(Self::parse_from(1, node, kept)?),
            name => {
                if let Some(membership) = Membership::named(name) {
                    let value = one(1)?;
                    return Ok(Self::In(membership, value, Self::parse_from(2, node, kept)?));
                }
                let (value, other) = (one(1)?, one(2)?);
                if let Some(sign) = Sign::named(name) {
                    Self::Compare(sign, value, other)
                } else if let Some(operation) = Arithmetic::named(name) {
                    Self::Compute(operation, value, other)
                } else if let Some(division) = Division::named(name) {
                    Self::Divide(division, value, other)
                } else if let Some(join) = Join::named(name) {
                    Self::Join(join, value, other)
                } else {
                    return Err(PyValueError::new_err(format!("unknown expression {name:?}")));
                }
            }
        })
    }

    fn parse_from(first: usize, node: &Bound<'_, PyTuple>, kept: &mut usize) -> PyResult<Vec<Self>> {
        node.iter().skip(first).map(|each| Self::parse(&each, kept)).collect()
    }
}

/// A compiled pattern that texts are searched for.
#[pyclass(frozen, module = "middleware.native")]
pub struct Pattern(Regex);

#[pymethods]
impl Pattern {
    /// Raises ValueError that says what is wrong with the pattern. `memory`: bytes that it may take, compiled.
    #[new]
    fn new(pattern: &str, memory: usize) -> PyResult<Self> {
        compiled(pattern, memory).map(Self).map_err(PyValueError::new_err)
    }

    /// Whether the pattern is somewhere in a text. Half of a surrogate pair, which is no character, counts as `?`. O(text).
    fn is_in(&self, text: &Bound<'_, PyString>) -> PyResult<bool> {
        if let Ok(text) = text.to_str() {
            return Ok(self.0.is_match(text.as_bytes()));
        }
        let replaced = text.call_method1("encode", ("utf-8", "replace"))?;
        Ok(self.0.is_match(replaced.extract::<Cow<'_, [u8]>>()?.as_ref()))
    }
}
