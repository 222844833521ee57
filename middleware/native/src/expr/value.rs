//! Values of fields, as far as conditions can be decided without Python: numbers that fit, texts, truth, NULL.

use std::cmp::Ordering;

/// Beyond this, integers and floats are not compared here.
const EXACT: i64 = 1 << 53;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    /// Whatever else: Python decides.
    Other,
}

/// Python must decide.
#[derive(Debug, PartialEq)]
pub struct Unsure;

type Decided = Result<Value, Unsure>;

impl Value {
    /// The order of two values, None if one is NaN.
    fn order(&self, other: &Self) -> Result<Option<Ordering>, Unsure> {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => Ok(Some(one.cmp(other))),
            (Self::Float(one), Self::Float(other)) => Ok(one.partial_cmp(other)),
            (Self::Int(one), Self::Float(other)) => Ok(exact(*one)?.partial_cmp(other)),
            (Self::Float(one), Self::Int(other)) => Ok(one.partial_cmp(&exact(*other)?)),
            (Self::Text(one), Self::Text(other)) => Ok(Some(one.cmp(other))),
            (Self::Bool(one), Self::Bool(other)) => Ok(Some(one.cmp(other))),
            _ => Err(Unsure),
        }
    }

    pub fn compare(&self, sign: Sign, other: &Self) -> Decided {
        if *self == Self::Null || *other == Self::Null {
            return Ok(Self::Null);
        }
        let order = self.order(other)?;
        Ok(Self::Bool(match sign {
            Sign::Equal => order == Some(Ordering::Equal),
            Sign::Unequal => order != Some(Ordering::Equal),
            Sign::Below => order == Some(Ordering::Less),
            Sign::UpTo => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Sign::Above => order == Some(Ordering::Greater),
            Sign::From => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }))
    }

    pub fn compute(&self, operation: Operation, other: &Self) -> Decided {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => Ok(Self::Null),
            (Self::Int(one), Self::Int(other)) => whole(*one, operation, *other),
            (Self::Float(one), Self::Float(other)) => real(*one, operation, *other),
            (Self::Int(one), Self::Float(other)) => real(exact(*one)?, operation, *other),
            (Self::Float(one), Self::Int(other)) => real(*one, operation, exact(*other)?),
            _ => Err(Unsure),
        }
    }

    /// TRUE, FALSE or NULL.
    pub fn truth(&self) -> Result<Option<bool>, Unsure> {
        match self {
            Self::Bool(truth) => Ok(Some(*truth)),
            Self::Null => Ok(None),
            _ => Err(Unsure),
        }
    }
}

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
pub enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

fn exact(number: i64) -> Result<f64, Unsure> {
    if (-EXACT..=EXACT).contains(&number) { Ok(number as f64) } else { Err(Unsure) }
}

fn whole(one: i64, operation: Operation, other: i64) -> Decided {
    let found = match operation {
        Operation::Add => one.checked_add(other),
        Operation::Subtract => one.checked_sub(other),
        Operation::Multiply => one.checked_mul(other),
        Operation::Divide | Operation::Modulo if other == 0 => return Ok(Value::Null),
        Operation::Divide => one.checked_div(other),
        Operation::Modulo => one.checked_rem(other),
    };
    found.map(Value::Int).ok_or(Unsure)
}

fn real(one: f64, operation: Operation, other: f64) -> Decided {
    let found = match operation {
        Operation::Add => one + other,
        Operation::Subtract => one - other,
        Operation::Multiply => one * other,
        Operation::Divide if other == 0.0 || !(one / other).is_finite() => return Ok(Value::Null),
        Operation::Divide => one / other,
        Operation::Modulo if other == 0.0 || !one.is_finite() => return Ok(Value::Null),
        Operation::Modulo => one % other,
    };
    Ok(Value::Float(found))
}

#[cfg(test)]
mod tests {
    use super::{Operation, Sign, Unsure, Value};

    #[test]
    fn whole_numbers_are_divided_towards_zero() {
        for (one, other, quotient, rest) in [(7, 3, 2, 1), (-7, 3, -2, -1), (7, -3, -2, 1), (-7, -3, 2, -1), (6, -3, -2, 0)] {
            let (one, other) = (Value::Int(one), Value::Int(other));
            assert_eq!(one.compute(Operation::Divide, &other), Ok(Value::Int(quotient)));
            assert_eq!(one.compute(Operation::Modulo, &other), Ok(Value::Int(rest)));
        }
    }

    #[test]
    fn what_does_not_fit_is_left_to_python() {
        assert_eq!(Value::Int(i64::MAX).compute(Operation::Add, &Value::Int(1)), Err(Unsure));
        assert_eq!(Value::Int(i64::MAX).compare(Sign::Below, &Value::Float(1e300)), Err(Unsure));
        assert_eq!(Value::Other.compare(Sign::Equal, &Value::Int(1)), Err(Unsure));
    }

    #[test]
    fn null_and_nan() {
        assert_eq!(Value::Null.compare(Sign::Equal, &Value::Null), Ok(Value::Null));
        assert_eq!(Value::Int(1).compute(Operation::Divide, &Value::Int(0)), Ok(Value::Null));
        assert_eq!(Value::Float(1e300).compute(Operation::Divide, &Value::Float(1e-300)), Ok(Value::Null));
        let nan = Value::Float(f64::NAN);
        assert_eq!(nan.compare(Sign::Equal, &nan), Ok(Value::Bool(false)));
        assert_eq!(nan.compare(Sign::Unequal, &nan), Ok(Value::Bool(true)));
    }
}
