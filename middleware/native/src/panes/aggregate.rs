//! Aggregates of a window, kept as values enter and leave it. Sums of floats are exact: neither order nor history shows.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::fiba::exact::two_product;
use crate::fiba::moments::{Growing, LARGEST, Moments, Spread};
use crate::fiba::numbers::Scalar;

/// What is asked of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Count,
    Sum,
    /// The sum; of no values, none.
    Total,
    Mean,
    Min,
    Max,
    Range,
    /// By how much the number of values is lessened in the divisor, and whether the root is wanted.
    Variance(i64, bool),
    Median,
}

impl What {
    pub fn new(name: &str) -> PyResult<Self> {
        Ok(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "total" => Self::Total,
            "mean" => Self::Mean,
            "min" => Self::Min,
            "max" => Self::Max,
            "range" => Self::Range,
            "variance" => Self::Variance(0, false),
            "stddev" => Self::Variance(0, true),
            "sample_variance" => Self::Variance(1, false),
            "sample_stddev" => Self::Variance(1, true),
            "median" => Self::Median,
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

/// An aggregate of the values that are in a window.
pub enum State {
    /// How many entries or values there are.
    Count(i64),
    Sum(What, Moments),
    Spread(i64, bool, Spread),
    /// Of integers: the sum, and how many.
    Whole(What, i128, i64),
    /// The least and the largest.
    Floats(What, Option<(f64, f64)>),
    Integers(What, Option<(i64, i64)>),
    /// How many NaNs there are, and the other values in order.
    Ranks(usize, Vec<f64>),
}

impl State {
    /// Over no values, of a column of floats or of integers.
    pub fn new(what: What, is_float: bool) -> Self {
        match what {
            What::Count => Self::Count(0),
            What::Variance(free, root) => Self::Spread(free, root, Spread::default()),
            What::Median => Self::Ranks(0, Vec::new()),
            What::Sum | What::Total | What::Mean if is_float => Self::Sum(what, Moments::default()),
            What::Sum | What::Total | What::Mean => Self::Whole(what, 0, 0),
            What::Min | What::Max | What::Range if is_float => Self::Floats(what, None),
            What::Min | What::Max | What::Range => Self::Integers(what, None),
        }
    }

    /// A value comes, as bits.
    #[inline]
    pub fn add(&mut self, bits: u64) {
        match self {
            Self::Count(count) => *count += 1,
            Self::Sum(_, moments) => moments.add(f64::from_bits(bits)),
            Self::Spread(_, _, spread) => spread.add(f64::from_bits(bits)),
            Self::Whole(_, sum, count) => {
                *sum += i128::from(bits.cast_signed());
                *count += 1;
            }
            Self::Floats(_, ends) => *ends = Some(widened(*ends, f64::from_bits(bits))),
            Self::Integers(_, ends) => *ends = Some(widened(*ends, bits.cast_signed())),
            Self::Ranks(nans, values) => {
                let value = f64::from_bits(bits) + 0.0;
                if value.is_nan() {
                    *nans += 1;
                } else {
                    values.insert(values.partition_point(|&each| each <= value), value);
                }
            }
        }
    }

    /// A value goes; false if what is left must be calculated anew.
    #[inline]
    pub fn take(&mut self, bits: u64) -> bool {
        let value = f64::from_bits(bits);
        match self {
            Self::Count(count) => *count -= 1,
            Self::Sum(_, moments) => {
                if !moments.sum.is_short() || !value.is_finite() {
                    return false;
                }
                moments.count -= 1;
                moments.sum.add(-value);
            }
            Self::Spread(_, _, spread) => {
                if !spread.sum.is_short() || !spread.squares.is_short() || value.is_nan() || value.abs() > LARGEST {
                    return false;
                }
                let (square, rest) = two_product(value, value);
                spread.count -= 1;
                spread.sum.add(-value);
                spread.squares.add(-square);
                spread.squares.add(-rest);
            }
            Self::Whole(_, sum, count) => {
                *sum -= i128::from(bits.cast_signed());
                *count -= 1;
            }
            Self::Floats(what, ends) => {
                return ends.is_some_and(|(least, most)| {
                    (*what == What::Max || !least.same(value)) && (*what == What::Min || !most.same(value))
                });
            }
            Self::Integers(what, ends) => {
                let value = bits.cast_signed();
                return ends.is_some_and(|(least, most)| {
                    (*what == What::Max || least != value) && (*what == What::Min || most != value)
                });
            }
            Self::Ranks(nans, values) => {
                if value.is_nan() {
                    *nans -= 1;
                } else {
                    values.remove(values.partition_point(|&each| each < value));
                }
            }
        }
        true
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean is a float")]
    pub fn value(&self) -> Value {
        match self {
            Self::Count(count) => Value::Int(i128::from(*count)),
            Self::Sum(What::Mean | What::Total, Moments { count: 0, .. }) | Self::Whole(What::Mean | What::Total, _, 0) => {
                Value::Nothing
            }
            Self::Sum(What::Mean, moments) => Value::Float(moments.sum.value() / moments.count as f64),
            Self::Sum(_, moments) => Value::Float(moments.sum.value()),
            Self::Whole(What::Mean, sum, count) => Value::Float(*sum as f64 / *count as f64),
            Self::Whole(_, sum, _) => Value::Int(*sum),
            Self::Spread(free, _, spread) if spread.count <= *free => Value::Nothing,
            Self::Spread(free, false, spread) => Value::Float(spread.variance(*free)),
            Self::Spread(free, true, spread) => Value::Float(spread.variance(*free).sqrt()),
            Self::Floats(_, None) | Self::Integers(_, None) => Value::Nothing,
            Self::Floats(What::Min, Some((least, _))) => Value::Float(*least),
            Self::Floats(What::Max, Some((_, most))) => Value::Float(*most),
            Self::Floats(_, Some((least, most))) => Value::Float(most - least),
            Self::Integers(What::Min, Some((least, _))) => Value::Int(i128::from(*least)),
            Self::Integers(What::Max, Some((_, most))) => Value::Int(i128::from(*most)),
            Self::Integers(_, Some((least, most))) => Value::Int(i128::from(*most) - i128::from(*least)),
            Self::Ranks(nans, values) => median(*nans, values),
        }
    }
}

#[inline]
fn widened<T: Scalar>(ends: Option<(T, T)>, value: T) -> (T, T) {
    ends.map_or((value, value), |(least, most)| (least.least(value), most.most(value)))
}

/// As `detectors.window.ranks.middle`; a NaN wins.
fn median(nans: usize, values: &[f64]) -> Value {
    if nans > 0 {
        return Value::Float(f64::NAN);
    }
    let Some(last) = values.len().checked_sub(1) else { return Value::Nothing };
    let (low, high) = (values[last / 2], values[values.len() / 2]);
    let half = (low + high) / 2.0; // infinite where only the sum is too large
    Value::Float(if half.is_infinite() { low / 2.0 + high / 2.0 } else { half + 0.0 })
}
