//! Expressions over columns, compiled to a small program that runs a block of rows at a time. The code that runs event by event
//! (`detectors.language`) says what they mean. What a program cannot decide just as Python would is left to Python.

mod input;
mod made;
mod projector;
mod values;

pub use input::{Cell, Input, Sources, gathered};
pub use made::{Column, Kind, Made, bytes};
pub use projector::{Projector, Rows, Spec, passing};
pub use values::Values;

use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};

use values::{Arithmetic, Data, Sign, There, both, choice, compared, computed, either, negated, quotient, reals};

/// Rows that are computed at once: their columns stay in the processor's nearest cache.
pub const BLOCK: usize = 2048;

/// Python must do it.
#[derive(Debug)]
pub struct Unsuited;

type Found<'a> = Result<Rc<Values<'a>>, Unsuited>;

enum Constant {
    Null,
    Flag(bool),
    Int(i64),
    /// A whole number of more than 64 bits; whether it is positive.
    Beyond(bool),
    Float(f64),
    Text(Box<[u8]>),
}

enum Node {
    Constant(Constant),
    /// A field: of which tuple, and which of those that are read of it.
    Field(usize, usize),
    /// Keeps a value under a number, for `Kept`.
    Keep(usize, Box<Self>),
    Kept(usize),
    Compute(Arithmetic, Box<Self>, Box<Self>),
    Compare(Sign, Box<Self>, Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    IsThere(Box<Self>),
    Choose(Box<Self>, Box<Self>, Box<Self>),
    Negate(Box<Self>),
    Quotient(Box<Self>, Box<Self>),
    Real(Box<Self>),
}

/// An expression.
pub struct Program {
    node: Node,
    /// How many values it keeps.
    kept: usize,
}

impl Program {
    /// From nested tuples, as `detectors.language.written` makes them.
    pub fn parse(node: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut kept = 0;
        Ok(Self { node: Node::parse(node, &mut kept)?, kept })
    }

    /// Its values for `count` rows, given those of fields.
    pub fn run<'a>(&'a self, count: usize, field: &dyn Fn(usize, usize) -> Result<Values<'a>, Unsuited>) -> Found<'a> {
        Run { count, field, kept: vec![None; self.kept] }.value(&self.node)
    }

    /// For which of `count` rows it is true.
    pub fn holds<'a>(
        &'a self,
        count: usize,
        field: &dyn Fn(usize, usize) -> Result<Values<'a>, Unsuited>,
    ) -> Result<Vec<u8>, Unsuited> {
        let found = self.run(count, field)?;
        let mut flags = found.flags(count)?;
        if let There::Some(there) = &found.there {
            flags.iter_mut().zip(there.iter()).for_each(|(flag, there)| *flag &= there);
        }
        Ok(flags)
    }
}

impl Node {
    fn parse(node: &Bound<'_, PyAny>, kept: &mut usize) -> PyResult<Self> {
        let node = node.cast::<PyTuple>()?;
        let kind: String = node.get_item(0)?.extract()?;
        let mut one = |at: usize| Ok::<_, PyErr>(Box::new(Self::parse(&node.get_item(at)?, kept)?));
        Ok(match kind.as_str() {
            "constant" => Self::Constant(Constant::parse(&node.get_item(1)?)?),
            "field" => Self::Field(node.get_item(1)?.extract()?, node.get_item(2)?.extract()?),
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
            "quotient" => Self::Quotient(one(1)?, one(2)?),
            "float" => Self::Real(one(1)?),
            "all" | "any" => {
                let terms = node.iter().skip(1).map(|each| Self::parse(&each, kept)).collect::<PyResult<_>>()?;
                if kind == "all" { Self::All(terms) } else { Self::Any(terms) }
            }
            other => match (Sign::named(other), Arithmetic::named(other)) {
                (Some(sign), _) => Self::Compare(sign, one(1)?, one(2)?),
                (_, Some(operation)) => Self::Compute(operation, one(1)?, one(2)?),
                _ => return Err(PyValueError::new_err(format!("unknown expression {other:?}"))),
            },
        })
    }
}

impl Constant {
    fn parse(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(if let Ok(flag) = value.cast_exact::<PyBool>() {
            Self::Flag(flag.is_true())
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            match number.extract() {
                Ok(number) => Self::Int(number),
                Err(_) => Self::Beyond(number.gt(0)?),
            }
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            Self::Float(number.value())
        } else if let Ok(text) = value.cast_exact::<PyString>() {
            Self::Text(text.to_str()?.as_bytes().into())
        } else if value.is_none() {
            Self::Null
        } else {
            return Err(PyValueError::new_err("a constant of this type is none of these"));
        })
    }

    fn values(&self) -> Values<'_> {
        match self {
            Self::Null => Values { data: Data::Null, there: There::None },
            Self::Flag(flag) => Values::new(Data::Flag(*flag)),
            Self::Int(number) => Values::new(Data::Int(*number)),
            Self::Beyond(positive) => Values::new(Data::Beyond(*positive)),
            Self::Float(number) => Values::new(Data::Float(*number)),
            Self::Text(text) => Values::new(Data::Text(text)),
        }
    }
}

/// A program as it runs over some rows.
struct Run<'a, 'f> {
    count: usize,
    field: &'f dyn Fn(usize, usize) -> Result<Values<'a>, Unsuited>,
    kept: Vec<Option<Rc<Values<'a>>>>,
}

impl<'a> Run<'a, '_> {
    fn value(&mut self, node: &'a Node) -> Found<'a> {
        let count = self.count;
        Ok(Rc::new(match node {
            Node::Constant(constant) => constant.values(),
            Node::Field(which, at) => (self.field)(*which, *at)?,
            Node::Keep(number, node) => {
                let made = self.value(node)?;
                self.kept[*number] = Some(Rc::clone(&made));
                return Ok(made);
            }
            Node::Kept(number) => return self.kept[*number].clone().ok_or(Unsuited),
            Node::Compute(operation, one, other) => computed(*operation, &*self.value(one)?, &*self.value(other)?, count)?,
            Node::Compare(sign, one, other) => compared(*sign, &*self.value(one)?, &*self.value(other)?, count)?,
            Node::All(terms) => self.junction(terms, both)?,
            Node::Any(terms) => self.junction(terms, either)?,
            Node::Not(node) => Values::of_flags(self.truth(node)?.iter().map(|flag| 1 - flag).collect()),
            Node::IsThere(node) => Values::of_flags(self.value(node)?.there.flags(count)),
            Node::Choose(test, one, other) => choice(&self.truth(test)?, &*self.value(one)?, &*self.value(other)?)?,
            Node::Negate(node) => negated(&*self.value(node)?)?,
            Node::Quotient(one, other) => quotient(&*self.value(one)?, &*self.value(other)?, count)?,
            Node::Real(node) => Values::of_reals(reals(&*self.value(node)?, i64::MAX, count)?.into_owned()),
        }))
    }

    /// All terms are computed, as none does harm.
    fn junction(&mut self, terms: &'a [Node], join: fn(&mut [u8], &[u8])) -> Result<Values<'a>, Unsuited> {
        let (first, others) = terms.split_first().ok_or(Unsuited)?;
        let mut found = self.truth(first)?;
        for term in others {
            join(&mut found, &self.truth(term)?);
        }
        Ok(Values::of_flags(found))
    }

    fn truth(&mut self, node: &'a Node) -> Result<Vec<u8>, Unsuited> {
        let found = self.value(node)?;
        if matches!(found.there, There::All) { found.flags(self.count) } else { Err(Unsuited) }
    }
}
