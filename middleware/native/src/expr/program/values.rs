//! Values of many rows at once: numbers, truth values and texts, one for each row or one for all; and what is done with them.

use std::borrow::Cow;

use super::Unsuited;

/// Whole numbers up to here are floats without loss.
const EXACT: i64 = 1 << 53;

/// Values, and which of them are there.
pub struct Values<'a> {
    pub data: Data<'a>,
    pub there: There<'a>,
}

pub enum Data<'a> {
    Ints(Cow<'a, [i64]>),
    Floats(Cow<'a, [f64]>),
    Flags(Cow<'a, [u8]>),
    Texts(Vec<&'a [u8]>),
    Int(i64),
    Float(f64),
    Flag(bool),
    Text(&'a [u8]),
    /// A whole number of more than 64 bits; whether it is positive.
    Beyond(bool),
    Null,
}

pub enum There<'a> {
    All,
    None,
    Some(Cow<'a, [u8]>),
}

#[derive(Clone, Copy)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
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

impl Arithmetic {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            _ => return None,
        })
    }
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
}

impl<'a> Values<'a> {
    pub fn new(data: Data<'a>) -> Self {
        Self { data, there: There::All }
    }

    pub fn of_flags(flags: Vec<u8>) -> Self {
        Self::new(Data::Flags(Cow::Owned(flags)))
    }

    pub fn of_reals(reals: Vec<f64>) -> Self {
        Self::new(Data::Floats(Cow::Owned(reals)))
    }

    /// Truth values, 1 or 0 for each row.
    pub fn flags(&self, count: usize) -> Result<Vec<u8>, Unsuited> {
        match &self.data {
            Data::Flags(flags) => Ok(flags.to_vec()),
            Data::Flag(flag) => Ok(vec![u8::from(*flag); count]),
            _ => Err(Unsuited),
        }
    }
}

impl There<'_> {
    pub fn flags(&self, count: usize) -> Vec<u8> {
        match self {
            Self::All => vec![1; count],
            Self::None => vec![0; count],
            Self::Some(there) => there.to_vec(),
        }
    }
}

/// One value for all rows, or one for each.
#[derive(Clone, Copy)]
enum Side<'a, T> {
    One(T),
    Many(&'a [T]),
}

fn zip<T: Copy, R: Clone>(one: Side<'_, T>, other: Side<'_, T>, count: usize, mut make: impl FnMut(T, T) -> R) -> Vec<R> {
    match (one, other) {
        (Side::Many(one), Side::Many(other)) => one.iter().zip(other).map(|(one, other)| make(*one, *other)).collect(),
        (Side::Many(one), Side::One(other)) => one.iter().map(|one| make(*one, other)).collect(),
        (Side::One(one), Side::Many(other)) => other.iter().map(|other| make(one, *other)).collect(),
        (Side::One(one), Side::One(other)) => vec![make(one, other); count],
    }
}

fn ints<'a>(values: &'a Values<'_>) -> Option<Side<'a, i64>> {
    match &values.data {
        Data::Ints(ints) => Some(Side::Many(ints)),
        Data::Int(int) => Some(Side::One(*int)),
        _ => None,
    }
}

/// Numbers as floats; whole ones only up to a magnitude.
pub fn reals<'a>(values: &'a Values<'_>, most: i64, count: usize) -> Result<Cow<'a, [f64]>, Unsuited> {
    let fits = |number: i64| number.unsigned_abs() <= most.unsigned_abs();
    match &values.data {
        Data::Floats(floats) => Ok(Cow::Borrowed(floats)),
        Data::Float(float) => Ok(Cow::Owned(vec![*float; count])),
        Data::Ints(ints) if most == i64::MAX || ints.iter().fold(true, |all, int| all & fits(*int)) => {
            Ok(Cow::Owned(ints.iter().map(|int| *int as f64).collect()))
        }
        Data::Int(int) if fits(*int) => Ok(Cow::Owned(vec![*int as f64; count])),
        _ => Err(Unsuited),
    }
}

/// Two sides as floats.
fn two<R: Clone>(
    one: &Values<'_>,
    other: &Values<'_>,
    (most, count): (i64, usize),
    make: impl FnMut(f64, f64) -> R,
) -> Result<Vec<R>, Unsuited> {
    if let (Data::Floats(one), Data::Float(other)) = (&one.data, &other.data) {
        return Ok(zip(Side::Many(one), Side::One(*other), count, make)); // the usual test
    }
    let (one, other) = (reals(one, most, count)?, reals(other, most, count)?);
    Ok(zip(Side::Many(&one), Side::Many(&other), count, make))
}

/// Python guards what may be NULL, so that all results are there; whole numbers that leave 64 bits are for Python.
pub fn computed<'a>(operation: Arithmetic, one: &Values<'_>, other: &Values<'_>, count: usize) -> Result<Values<'a>, Unsuited> {
    if let (Some(one), Some(other)) = (ints(one), ints(other)) {
        let mut overflows = false;
        let mut checked = |(number, overflow): (i64, bool)| {
            overflows |= overflow;
            number
        };
        let found = match operation {
            Arithmetic::Add => zip(one, other, count, |one, other| checked(one.overflowing_add(other))),
            Arithmetic::Subtract => zip(one, other, count, |one, other| checked(one.overflowing_sub(other))),
            Arithmetic::Multiply => zip(one, other, count, |one, other| checked(one.overflowing_mul(other))),
        };
        return if overflows { Err(Unsuited) } else { Ok(Values::new(Data::Ints(Cow::Owned(found)))) };
    }
    let rows = (i64::MAX, count);
    Ok(Values::of_reals(match operation {
        Arithmetic::Add => two(one, other, rows, |one, other| one + other)?,
        Arithmetic::Subtract => two(one, other, rows, |one, other| one - other)?,
        Arithmetic::Multiply => two(one, other, rows, |one, other| one * other)?,
    }))
}

pub fn negated<'a>(values: &Values<'_>) -> Result<Values<'a>, Unsuited> {
    Ok(Values::new(match &values.data {
        Data::Ints(ints) if !ints.contains(&i64::MIN) => Data::Ints(ints.iter().map(|int| -int).collect()),
        Data::Floats(floats) => Data::Floats(floats.iter().map(|float| -float).collect()),
        Data::Int(int) => Data::Int(int.checked_neg().ok_or(Unsuited)?),
        Data::Float(float) => Data::Float(-float),
        _ => return Err(Unsuited),
    }))
}

/// Division; NULL by zero, or if the result is no number.
pub fn quotient<'a>(one: &Values<'_>, other: &Values<'_>, count: usize) -> Result<Values<'a>, Unsuited> {
    let found = two(one, other, (EXACT, count), |one, other| one / other)?;
    let there = found.iter().map(|number| u8::from(number.is_finite())).collect();
    Ok(Values { there: There::Some(there), ..Values::of_reals(found) })
}

pub fn both(one: &mut [u8], other: &[u8]) {
    one.iter_mut().zip(other).for_each(|(one, other)| *one &= other);
}

pub fn either(one: &mut [u8], other: &[u8]) {
    one.iter_mut().zip(other).for_each(|(one, other)| *one |= other);
}

/// NULL equals nothing; code asks for NULL before it compares in any other way.
pub fn compared<'a>(sign: Sign, one: &Values<'_>, other: &Values<'_>, count: usize) -> Result<Values<'a>, Unsuited> {
    let mut found = if let (Some(one), Some(other)) = (ints(one), ints(other)) {
        signed(sign, one, other, count)
    } else if let (Some(one), Some(other)) = (texts(one), texts(other)) {
        signed(sign, one, other, count)
    } else if let (Some(_), Data::Beyond(positive)) = (ints(one), &other.data) {
        vec![beyond(sign, *positive); count]
    } else if let (Data::Beyond(positive), Some(_)) = (&one.data, ints(other)) {
        vec![beyond(sign, !positive); count]
    } else if let (Ok(one), Ok(other)) = (one.flags(count), other.flags(count)) {
        signed(sign, Side::Many(&one), Side::Many(&other), count)
    } else {
        let rows = (EXACT, count);
        match sign {
            Sign::Equal => two(one, other, rows, |one, other| u8::from(one == other))?,
            Sign::Unequal => two(one, other, rows, |one, other| u8::from(one != other))?,
            Sign::Below => two(one, other, rows, |one, other| u8::from(one < other))?,
            Sign::UpTo => two(one, other, rows, |one, other| u8::from(one <= other))?,
            Sign::Above => two(one, other, rows, |one, other| u8::from(one > other))?,
            Sign::From => two(one, other, rows, |one, other| u8::from(one >= other))?,
        }
    };
    for side in [one, other] {
        match (&side.there, sign) {
            (There::All, _) => {}
            (There::Some(there), Sign::Unequal) => {
                found.iter_mut().zip(there.iter()).for_each(|(flag, there)| *flag |= 1 - there)
            }
            (There::Some(there), _) => both(&mut found, there),
            (There::None, _) => return Err(Unsuited),
        }
    }
    Ok(Values::of_flags(found))
}

/// How any whole number compares with one that is beyond all of them.
fn beyond(sign: Sign, is_above: bool) -> u8 {
    u8::from(match sign {
        Sign::Equal => false,
        Sign::Unequal => true,
        Sign::Below | Sign::UpTo => is_above,
        Sign::Above | Sign::From => !is_above,
    })
}

fn texts<'a>(values: &'a Values<'_>) -> Option<Side<'a, &'a [u8]>> {
    match &values.data {
        Data::Texts(texts) => Some(Side::Many(texts)),
        Data::Text(text) => Some(Side::One(text)),
        _ => None,
    }
}

fn signed<T: Copy + PartialOrd>(sign: Sign, one: Side<'_, T>, other: Side<'_, T>, count: usize) -> Vec<u8> {
    match sign {
        Sign::Equal => zip(one, other, count, |one, other| u8::from(one == other)),
        Sign::Unequal => zip(one, other, count, |one, other| u8::from(one != other)),
        Sign::Below => zip(one, other, count, |one, other| u8::from(one < other)),
        Sign::UpTo => zip(one, other, count, |one, other| u8::from(one <= other)),
        Sign::Above => zip(one, other, count, |one, other| u8::from(one > other)),
        Sign::From => zip(one, other, count, |one, other| u8::from(one >= other)),
    }
}

/// The one value where the test is true, the other where it is not; both of one type, or NULL.
pub fn choice<'a>(test: &[u8], one: &Values<'_>, other: &Values<'_>) -> Result<Values<'a>, Unsuited> {
    let count = test.len();
    let pick = |one: &[u8], other: &[u8]| zip3(test, one, other);
    let there = match (&one.there, &other.there) {
        (There::All, There::All) => There::All,
        (one, other) => There::Some(Cow::Owned(pick(&one.flags(count), &other.flags(count)))),
    };
    let (one, other) = match (&one.data, &other.data) {
        (Data::Null, Data::Null) => return Ok(Values { data: Data::Null, there: There::None }),
        (Data::Null, _) => (other, other),
        (_, Data::Null) => (one, one),
        _ => (one, other),
    };
    let data = if let (Some(one), Some(other)) = (ints(one), ints(other)) {
        Data::Ints(Cow::Owned(zip3(test, &many(one, count), &many(other, count))))
    } else if let (Ok(one), Ok(other)) = (one.flags(count), other.flags(count)) {
        Data::Flags(Cow::Owned(pick(&one, &other)))
    } else if ints(one).is_none() && ints(other).is_none() {
        Data::Floats(Cow::Owned(zip3(test, &reals(one, EXACT, count)?, &reals(other, EXACT, count)?)))
    } else {
        return Err(Unsuited);
    };
    Ok(Values { data, there })
}

fn many<T: Copy>(side: Side<'_, T>, count: usize) -> Cow<'_, [T]> {
    match side {
        Side::One(value) => Cow::Owned(vec![value; count]),
        Side::Many(values) => Cow::Borrowed(values),
    }
}

fn zip3<T: Copy>(test: &[u8], one: &[T], other: &[T]) -> Vec<T> {
    test.iter().zip(one.iter().zip(other)).map(|(test, (one, other))| if *test != 0 { *one } else { *other }).collect()
}
