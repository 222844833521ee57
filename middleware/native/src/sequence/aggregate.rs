//! Aggregates of a Kleene group, as far as they are plain: `detectors.language.aggregate_functions` decides the rest.

use crate::expr::value::{EXACT, Sign, Unsure, Value};

#[derive(Clone, Copy)]
pub enum Aggregate {
    Count,
    Sum,
    Mean,
    Least,
    Most,
    First,
    Last,
}

impl Aggregate {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "avg" => Self::Mean,
            "min" => Self::Least,
            "max" => Self::Most,
            "first" => Self::First,
            "last" => Self::Last,
            _ => return None,
        })
    }

    /// The aggregate of values in order, NULLs skipped; NULL if none is left. Sums of floats are Python's, which are exact.
    pub fn of(self, values: impl Iterator<Item = Value>) -> Result<Value, Unsure> {
        let mut known = values.filter(|value| *value != Value::Null);
        match self {
            Self::Count => Ok(Value::Int(known.count() as i64)),
            Self::First => Ok(known.next().unwrap_or(Value::Null)),
            Self::Last => Ok(known.last().unwrap_or(Value::Null)),
            Self::Least => chosen(known, Sign::Below),
            Self::Most => chosen(known, Sign::Above),
            Self::Sum => Ok(total(known)?.map_or(Value::Null, |(sum, _)| Value::Int(sum))),
            Self::Mean => match total(known)? {
                Some((sum, count)) if sum.abs() < EXACT => Ok(Value::Float(sum as f64 / count as f64)),
                Some(_) => Err(Unsure),
                None => Ok(Value::Null),
            },
        }
    }
}

/// The value that stands on that side of all others. Of numbers that are not whole a NaN, and the sign of zero, are Python's.
fn chosen(known: impl Iterator<Item = Value>, sign: Sign) -> Result<Value, Unsure> {
    let mut best = Value::Null;
    for value in known {
        if matches!(value, Value::Float(number) if number.is_nan() || number == 0.0) || value == Value::Other {
            return Err(Unsure);
        }
        if best == Value::Null || value.compare(sign, &best)? {
            best = value;
        }
    }
    Ok(best)
}

/// The sum of whole numbers, each of them exact as a float, and how many they are; None of none.
fn total(known: impl Iterator<Item = Value>) -> Result<Option<(i64, i64)>, Unsure> {
    let mut found = None;
    for value in known {
        let Value::Int(number) = value else { return Err(Unsure) };
        if !(-EXACT..=EXACT).contains(&number) {
            return Err(Unsure);
        }
        let (sum, count) = found.unwrap_or((0_i64, 0));
        found = Some((sum.checked_add(number).ok_or(Unsure)?, count + 1));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::Aggregate;
    use crate::expr::value::{EXACT, Unsure, Value};

    fn of(name: &str, values: &[Value]) -> Result<Value, Unsure> {
        Aggregate::named(name).expect("it is known").of(values.iter().cloned())
    }

    #[test]
    fn nulls_are_left_out() {
        let values = [Value::Null, Value::Int(3), Value::Int(-1), Value::Null];
        let expected = [("count", 2), ("sum", 2), ("min", -1), ("max", 3), ("first", 3), ("last", -1)];
        for (name, number) in expected {
            assert_eq!(of(name, &values), Ok(Value::Int(number)), "{name}");
        }
        assert_eq!(of("avg", &values), Ok(Value::Float(1.0)));
        for name in ["sum", "avg", "min", "max", "first", "last"] {
            assert_eq!(of(name, &[Value::Null]), Ok(Value::Null), "{name}");
        }
        assert_eq!(of("count", &[Value::Null]), Ok(Value::Int(0)));
    }

    #[test]
    fn what_is_not_plain_is_left_to_python() {
        assert_eq!(of("sum", &[Value::Float(0.5), Value::Float(0.25)]), Err(Unsure));
        assert_eq!(of("avg", &[Value::Int(EXACT), Value::Int(EXACT)]), Err(Unsure));
        assert_eq!(of("min", &[Value::Float(f64::NAN), Value::Float(1.0)]), Err(Unsure));
        assert_eq!(of("max", &[Value::Other]), Err(Unsure));
        assert_eq!(of("max", &[Value::Float(0.5), Value::Float(2.5)]), Ok(Value::Float(2.5)));
    }
}
