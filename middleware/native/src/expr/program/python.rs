//! Programs as Python writes them down: nested tuples, which `detectors.language.written` makes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple};

use super::values::{Arithmetic, Sign};
use super::{Constant, Kind, Made, Node, Program, Projector};

impl Program {
    /// From nested tuples, as `detectors.language.written` makes them.
    pub fn parse(node: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut kept = 0;
        Ok(Self { node: Node::parse(node, &mut kept)?, kept })
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
}

impl Kind {
    /// "i", "f" or "b", as numpy has them, or "s" for texts.
    pub fn named(name: &str) -> PyResult<Self> {
        Ok(match name {
            "i" => Self::Ints,
            "f" => Self::Floats,
            "b" => Self::Flags,
            "s" => Self::Texts,
            _ => return Err(PyValueError::new_err(format!("no column is of kind {name:?}"))),
        })
    }
}

impl Made {
    /// `kind`: see `Kind::named`.
    pub fn new(kind: &str, may_miss: bool) -> PyResult<Self> {
        Ok(Self { kind: Kind::named(kind)?, may_miss })
    }
}

/// A field: an expression as nested tuples, the kind of its values, and whether they may be missing.
pub type Spec<'py> = (Bound<'py, PyAny>, String, bool);

impl Projector {
    pub fn new(test: Option<&Bound<'_, PyAny>>, fields: Vec<Spec<'_>>) -> PyResult<Self> {
        let field = |(node, kind, may_miss): Spec<'_>| Ok((Program::parse(&node)?, Made::new(&kind, may_miss)?));
        let fields = fields.into_iter().map(field).collect::<PyResult<_>>()?;
        Ok(Self { test: test.map(Program::parse).transpose()?, fields })
    }
}

/// `count` numbers as the bytes of an array.
pub fn bytes<'py>(py: Python<'py>, count: usize, numbers: impl Iterator<Item = [u8; 8]>) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, 8 * count, |room| {
        room.as_chunks_mut::<8>().0.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
        Ok(())
    })
}
