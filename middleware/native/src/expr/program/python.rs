//! Programs, and what they make, as Python writes them down.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::{Kind, Made, Place, Program, Projector};
use crate::expr::python::Read;

impl Read for Place {
    fn parse(kind: &str, node: &Bound<'_, PyTuple>) -> PyResult<Option<Self>> {
        if kind == "field" { Ok(Some((node.get_item(1)?.extract()?, node.get_item(2)?.extract()?))) } else { Ok(None) }
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
