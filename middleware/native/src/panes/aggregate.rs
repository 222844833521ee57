//! Aggregates of a window, calculated from the values it holds. Sums of floats are exact: order never shows.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::fiba::exact::Exact;
use crate::fiba::numbers::Scalar;

/// What is asked of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Count,
    Sum,
    Mean,
    Min,
    Max,
    Range,
}

impl What {
    pub fn new(name: &str) -> PyResult<Self> {
        Ok(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "mean" => Self::Mean,
            "min" => Self::Min,
            "max" => Self::Max,
            "range" => Self::Range,
            _ => return Err(PyValueError::new_err(format!("windows in the native core know no aggregate {name}"))),
        })
    }
}

/// A result: a number, or none.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Nothing,
    Float(f64),
    Int(i128),
}

impl Value {
    /// Whether nobody could tell them apart.
    pub fn same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::Float(one), Self::Float(other)) => one.same(other),
            (Self::Int(one), Self::Int(other)) => one == other,
            _ => false,
        }
    }

    /// Whether it is a whole number beyond 64 bits.
    #[inline]
    pub fn is_beyond(self) -> bool {
        matches!(self, Self::Int(value) if i64::try_from(value).is_err())
    }

    pub fn give(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Nothing => Ok(py.None().into_bound(py)),
            Self::Float(value) => value.into_bound_py_any(py),
            Self::Int(value) => match i64::try_from(value) {
                Ok(value) => value.into_bound_py_any(py),
                Err(_) => value.into_bound_py_any(py),
            },
        }
    }
}

/// Over floats, as bits; those that are there.
pub fn of_floats(what: What, bits: impl Iterator<Item = u64>) -> Value {
    let values = bits.map(f64::from_bits);
    match what {
        What::Count => Value::Int(values.count() as i128),
        What::Sum | What::Mean => {
            let (mut sum, mut count) = (Exact::default(), 0_u32);
            for value in values {
                sum.add(value);
                count += 1;
            }
            match (what, count) {
                (What::Sum, _) => Value::Float(sum.value()),
                (_, 0) => Value::Nothing,
                _ => Value::Float(sum.value() / f64::from(count)),
            }
        }
        What::Min => values.reduce(Scalar::least).map_or(Value::Nothing, Value::Float),
        What::Max => values.reduce(Scalar::most).map_or(Value::Nothing, Value::Float),
        What::Range => match values.map(|value| (value, value)).reduce(|a, b| (a.0.least(b.0), a.1.most(b.1))) {
            Some((least, most)) => Value::Float(most - least),
            None => Value::Nothing,
        },
    }
}

/// Over integers, as bits.
pub fn of_integers(what: What, bits: impl Iterator<Item = u64>) -> Value {
    let values = bits.map(u64::cast_signed).map(i128::from);
    match what {
        What::Count => Value::Int(values.count() as i128),
        What::Sum => Value::Int(values.sum()),
        What::Mean => {
            let (mut sum, mut count) = (0, 0);
            for value in values {
                sum += value;
                count += 1;
            }
            if count == 0 { Value::Nothing } else { Value::Float(sum as f64 / f64::from(count)) }
        }
        What::Min => values.min().map_or(Value::Nothing, Value::Int),
        What::Max => values.max().map_or(Value::Nothing, Value::Int),
        What::Range => match values.map(|value| (value, value)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            Some((least, most)) => Value::Int(most - least),
            None => Value::Nothing,
        },
    }
}
