//! Values of fields, and what operations on them mean: what Python means, or nothing. Rows are computed one value at a time with these
//! definitions, and columns (`program/values`) many at a time.

use std::cmp::Ordering;

/// Whole numbers up to here are floats without loss.
pub const EXACT: i64 = 1 << 53;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number of more than 64 bits; whether it is positive.
    Beyond(bool),
    Float(f64),
    Text(Box<str>),
    /// Of another type.
    Other,
}

/// Python must decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsure;

pub type Decided = Result<Value, Unsure>;

#[derive(Clone, Copy)]
pub enum Sign {
    Equal,
    Unequal,
    Below,
    UpTo,
    Above,
    From,
}

#[derive(Clone, Copy)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
}

/// Divisions, each towards zero; NULL by zero.
#[derive(Clone, Copy)]
pub enum Division {
    Quotient,
    Rest,
    WholeQuotient,
    WholeRest,
}

/// Three-valued AND and OR of two truth values.
#[derive(Clone, Copy)]
pub enum Join {
    Both,
    Either,
}

impl Sign {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "=" => Self::Equal,
            "<>" => Self::Unequal,
            "<" => Self::Below,
            "<=" => Self::UpTo,
            ">" => Self::Above,
            ">=" => Self::From,
            _ => return None,
        })
    }

    /// Whether it holds between two values of one type.
    #[inline(always)] // loops over many values ask once which sign it is
    pub fn holds<T: PartialOrd>(self, one: T, other: T) -> bool {
        match self {
            Self::Equal => one == other,
            Self::Unequal => one != other,
            Self::Below => one < other,
            Self::UpTo => one <= other,
            Self::Above => one > other,
            Self::From => one >= other,
        }
    }

    /// Whether it holds between any whole number of 64 bits and one beyond these.
    pub fn holds_beyond(self, is_positive: bool) -> bool {
        self.holds(Ordering::Equal, if is_positive { Ordering::Greater } else { Ordering::Less })
    }

    /// Whether it holds where one of two values, or each, is NULL. NULL has no order.
    pub fn holds_for_null(self, are_both: bool) -> Result<bool, Unsure> {
        match self {
            Self::Equal => Ok(are_both),
            Self::Unequal => Ok(!are_both),
            _ => Err(Unsure),
        }
    }
}

impl Arithmetic {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            _ => return None,
        })
    }

    /// Of whole numbers, and whether the result leaves 64 bits.
    #[inline(always)]
    pub fn whole(self, one: i64, other: i64) -> (i64, bool) {
        match self {
            Self::Add => one.overflowing_add(other),
            Self::Subtract => one.overflowing_sub(other),
            Self::Multiply => one.overflowing_mul(other),
        }
    }

    #[inline(always)]
    pub fn real(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Add => one + other,
            Self::Subtract => one - other,
            Self::Multiply => one * other,
        }
    }
}

impl Division {
    /// By the names of the functions of `detectors.language.values`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "quotient" => Self::Quotient,
            "rest" => Self::Rest,
            "integer_quotient" => Self::WholeQuotient,
            "integer_rest" => Self::WholeRest,
            _ => return None,
        })
    }

    /// Whether it divides whole numbers.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::WholeQuotient | Self::WholeRest)
    }

    /// Of whole numbers; None stands for NULL.
    pub fn whole(self, one: i64, other: i64) -> Result<Option<i64>, Unsure> {
        if other == 0 {
            return Ok(None);
        }
        let found = if matches!(self, Self::WholeQuotient) { one.checked_div(other) } else { one.checked_rem(other) };
        found.map(Some).ok_or(Unsure)
    }

    /// Of floats; None stands for NULL.
    #[inline]
    pub fn real(self, one: f64, other: f64) -> Option<f64> {
        if matches!(self, Self::Quotient) {
            let found = one / other;
            (other != 0.0 && found.is_finite()).then_some(found)
        } else {
            (other != 0.0 && one.is_finite()).then(|| one % other)
        }
    }
}

impl Join {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "both" => Self::Both,
            "either" => Self::Either,
            _ => return None,
        })
    }

    /// Of two truth values, each as whether it is true and whether it is false.
    #[inline(always)]
    pub fn of(self, one: (bool, bool), other: (bool, bool)) -> (bool, bool) {
        match self {
            Self::Both => (one.0 & other.0, one.1 | other.1),
            Self::Either => (one.0 | other.0, one.1 & other.1),
        }
    }
}

/// A whole number as a float without loss.
pub fn exact(number: i64) -> Result<f64, Unsure> {
    if (-EXACT..=EXACT).contains(&number) { Ok(number as f64) } else { Err(Unsure) }
}

impl Value {
    pub fn compare(&self, sign: Sign, other: &Self) -> Result<bool, Unsure> {
        Ok(match (self, other) {
            (Self::Int(one), Self::Int(other)) => sign.holds(one, other),
            (Self::Float(one), Self::Float(other)) => sign.holds(one, other),
            (Self::Int(one), Self::Float(other)) => sign.holds(&exact(*one)?, other),
            (Self::Float(one), Self::Int(other)) => sign.holds(one, &exact(*other)?),
            (Self::Text(one), Self::Text(other)) => sign.holds(one, other),
            (Self::Bool(one), Self::Bool(other)) => sign.holds(one, other),
            (Self::Int(_), Self::Beyond(is_positive)) => sign.holds_beyond(*is_positive),
            (Self::Beyond(is_positive), Self::Int(_)) => sign.holds_beyond(!is_positive),
            (Self::Other, _) | (_, Self::Other) => return Err(Unsure),
            (Self::Null, other) | (other, Self::Null) => sign.holds_for_null(*other == Self::Null)?,
            _ => return Err(Unsure),
        })
    }

    pub fn compute(&self, operation: Arithmetic, other: &Self) -> Decided {
        Ok(match (self, other) {
            (Self::Int(one), Self::Int(other)) => match operation.whole(*one, *other) {
                (number, false) => Self::Int(number),
                _ => return Err(Unsure),
            },
            _ => Self::Float(operation.real(self.real()?, other.real()?)),
        })
    }

    pub fn divide(&self, division: Division, other: &Self) -> Decided {
        if !division.is_whole() {
            let exactly = |value: &Self| if let Self::Int(number) = value { exact(*number) } else { value.real() };
            return Ok(division.real(exactly(self)?, exactly(other)?).map_or(Self::Null, Self::Float));
        }
        let (Self::Int(one), Self::Int(other)) = (self, other) else { return Err(Unsure) };
        Ok(division.whole(*one, *other)?.map_or(Self::Null, Self::Int))
    }

    pub fn negate(&self) -> Decided {
        match self {
            Self::Int(number) => number.checked_neg().map(Self::Int).ok_or(Unsure),
            Self::Float(number) => Ok(Self::Float(-number)),
            _ => Err(Unsure),
        }
    }

    /// A number as a float, the nearest one.
    #[inline]
    pub fn real(&self) -> Result<f64, Unsure> {
        match self {
            Self::Int(number) => Ok(*number as f64),
            Self::Float(number) => Ok(*number),
            _ => Err(Unsure),
        }
    }

    /// Three-valued AND or OR.
    pub fn join(&self, join: Join, other: &Self) -> Decided {
        let parts = |value: &Self| Ok((value.truth()?, *value == Self::Bool(false)));
        Ok(match join.of(parts(self)?, parts(other)?) {
            (true, _) => Self::Bool(true),
            (_, true) => Self::Bool(false),
            _ => Self::Null,
        })
    }

    /// Whether it passes as a test: a truth value that is true, and not NULL.
    #[inline]
    pub fn truth(&self) -> Result<bool, Unsure> {
        match self {
            Self::Bool(truth) => Ok(*truth),
            Self::Null => Ok(false),
            _ => Err(Unsure),
        }
    }

    pub fn is_nan(&self) -> bool {
        matches!(self, Self::Float(number) if number.is_nan())
    }
}

#[cfg(test)]
mod tests {
    use super::{Arithmetic, Division, Join, Sign, Unsure, Value};

    #[test]
    fn whole_numbers_are_divided_towards_zero() {
        for (one, other, quotient, rest) in [(7, 3, 2, 1), (-7, 3, -2, -1), (7, -3, -2, 1), (-7, -3, 2, -1), (6, -3, -2, 0)] {
            let (one, other) = (Value::Int(one), Value::Int(other));
            assert_eq!(one.divide(Division::WholeQuotient, &other), Ok(Value::Int(quotient)));
            assert_eq!(one.divide(Division::WholeRest, &other), Ok(Value::Int(rest)));
        }
        assert_eq!(Value::Int(7).divide(Division::Quotient, &Value::Int(2)), Ok(Value::Float(3.5)));
    }

    #[test]
    fn what_does_not_fit_is_left_to_python() {
        assert_eq!(Value::Int(i64::MAX).compute(Arithmetic::Add, &Value::Int(1)), Err(Unsure));
        assert_eq!(Value::Int(i64::MAX).compare(Sign::Below, &Value::Float(1e300)), Err(Unsure));
        assert_eq!(Value::Int(i64::MIN).divide(Division::WholeQuotient, &Value::Int(-1)), Err(Unsure));
        assert_eq!(Value::Other.compare(Sign::Equal, &Value::Int(1)), Err(Unsure));
        assert_eq!(Value::Null.compare(Sign::Equal, &Value::Other), Err(Unsure));
    }

    #[test]
    fn numbers_beyond_64_bits_are_compared() {
        for (sign, above, below) in [(Sign::Below, true, false), (Sign::From, false, true), (Sign::Unequal, true, true)] {
            assert_eq!(Value::Int(i64::MAX).compare(sign, &Value::Beyond(true)), Ok(above));
            assert_eq!(Value::Int(i64::MIN).compare(sign, &Value::Beyond(false)), Ok(below));
        }
    }

    #[test]
    fn null_is_pythons_none() {
        assert_eq!(Value::Null.compare(Sign::Equal, &Value::Null), Ok(true));
        assert_eq!(Value::Null.compare(Sign::Unequal, &Value::Int(1)), Ok(true));
        assert_eq!(Value::Null.compare(Sign::Below, &Value::Int(1)), Err(Unsure));
        assert_eq!(Value::Null.compute(Arithmetic::Add, &Value::Int(1)), Err(Unsure));
        assert_eq!(Value::Int(1).divide(Division::WholeRest, &Value::Int(0)), Ok(Value::Null));
        assert_eq!(Value::Float(1e300).divide(Division::Quotient, &Value::Float(1e-300)), Ok(Value::Null));
    }

    #[test]
    fn nan_equals_nothing() {
        let nan = Value::Float(f64::NAN);
        assert_eq!(nan.compare(Sign::Equal, &nan), Ok(false));
        assert_eq!(nan.compare(Sign::Unequal, &nan), Ok(true));
    }

    #[test]
    fn logic_is_three_valued() {
        let (yes, no, null) = (Value::Bool(true), Value::Bool(false), Value::Null);
        for (join, one, other, expected) in [
            (Join::Both, &yes, &null, &null),
            (Join::Both, &no, &null, &no),
            (Join::Either, &yes, &null, &yes),
            (Join::Either, &no, &null, &null),
            (Join::Either, &no, &no, &no),
        ] {
            assert_eq!(one.join(join, other), Ok(expected.clone()));
            assert_eq!(other.join(join, one), Ok(expected.clone()));
        }
    }
}
