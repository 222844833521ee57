//! The aggregates of a column, and their values.

use crate::windows::fiba::numbers::Scalar;

/// An aggregate of a column.
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
    /// By how much the number of values is lessened in the divisor, and whether the root is taken.
    Variance(i64, bool),
    Median,
}

impl What {
    /// None: windows here know no such aggregate.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
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
            _ => return None,
        })
    }

    /// Whether results are floats, of a column of floats or of integers.
    pub fn gives_floats(self, is_float: bool) -> bool {
        match self {
            Self::Count => false,
            Self::Mean | Self::Variance(..) | Self::Median => true,
            Self::Sum | Self::Total | Self::Min | Self::Max | Self::Range => is_float,
        }
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
}
