//! Values of many rows at once: numbers, truth values and texts, one for each row or one for all; and what is done with them.

use std::borrow::Cow;
use std::rc::Rc;

use crate::expr::node::Membership;
use crate::expr::value::{Arithmetic, Division, EXACT, Join, Sign, Unsure, Value};

/// Values, and which of them are there.
#[derive(Clone)]
pub struct Values<'a> {
    pub data: Data<'a>,
    pub there: There<'a>,
}

#[derive(Clone)]
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

#[derive(Clone)]
pub enum There<'a> {
    All,
    None,
    Some(Cow<'a, [u8]>),
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

    /// A constant.
    pub fn of(value: &'a Value) -> Result<Self, Unsure> {
        Ok(Self::new(match value {
            Value::Null => return Ok(Self { data: Data::Null, there: There::None }),
            Value::Bool(flag) => Data::Flag(*flag),
            Value::Int(number) => Data::Int(*number),
            Value::Beyond(is_positive) => Data::Beyond(*is_positive),
            Value::Float(number) => Data::Float(*number),
            Value::Text(text) => Data::Text(text.as_bytes()),
            Value::Other => return Err(Unsure),
        }))
    }

    /// The same where operands are known, and elsewhere a truth value or NULL.
    pub fn among_known(mut self, known: Vec<u8>, otherwise: &Value) -> Result<Self, Unsure> {
        if *otherwise == Value::Bool(false) {
            let mut flags = self.truth(known.len())?;
            both(&mut flags, &known);
            return Ok(Self::of_flags(flags));
        }
        let mut there = self.there.flags(known.len());
        both(&mut there, &known);
        self.there = There::Some(Cow::Owned(there));
        Ok(self)
    }

    /// Whether they are whole numbers, or NULL.
    pub fn are_whole(&self) -> bool {
        matches!(self.data, Data::Ints(_) | Data::Int(_) | Data::Null)
    }

    /// Truth values, 1 or 0 for each row; any that is not there has one, too.
    pub fn flags(&self, count: usize) -> Result<Vec<u8>, Unsure> {
        match &self.data {
            Data::Flags(flags) => Ok(flags.to_vec()),
            Data::Flag(flag) => Ok(vec![u8::from(*flag); count]),
            _ => Err(Unsure),
        }
    }

    /// For which of the rows it passes as a test: it is true, and there.
    pub fn truth(&self, count: usize) -> Result<Vec<u8>, Unsure> {
        let mut flags = self.flags(count)?;
        if let There::Some(there) = &self.there {
            both(&mut flags, there);
        }
        Ok(flags)
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

/// An expression for each variant of an enum, which is a constant there: loops over many values do not ask which it is.
macro_rules! each {
    ($of:ident { $($variant:ident)* }, $value:expr, $name:ident => $make:expr) => {
        match $value {
            $($of::$variant => {
                const $name: $of = $of::$variant;
                $make
            })*
        }
    };
}

fn ints<'a>(values: &'a Values<'_>) -> Option<Side<'a, i64>> {
    match &values.data {
        Data::Ints(ints) => Some(Side::Many(ints)),
        Data::Int(int) => Some(Side::One(*int)),
        _ => None,
    }
}

/// Floats, one for each row or one for all.
pub enum Reals<'a> {
    One(f64),
    Many(Cow<'a, [f64]>),
}

impl<'a> Reals<'a> {
    fn side(&self) -> Side<'_, f64> {
        match self {
            Self::One(real) => Side::One(*real),
            Self::Many(reals) => Side::Many(reals),
        }
    }

    pub fn many(self, count: usize) -> Cow<'a, [f64]> {
        match self {
            Self::One(real) => Cow::Owned(vec![real; count]),
            Self::Many(reals) => reals,
        }
    }
}

/// Numbers as floats, the nearest ones; whole ones only up to a magnitude.
pub fn reals<'a>(values: &'a Values<'_>, most: i64) -> Result<Reals<'a>, Unsure> {
    let fits = |number: i64| number.unsigned_abs() <= most.unsigned_abs();
    match &values.data {
        Data::Floats(floats) => Ok(Reals::Many(Cow::Borrowed(floats))),
        Data::Float(float) => Ok(Reals::One(*float)),
        Data::Ints(ints) if most == i64::MAX || ints.iter().fold(true, |all, int| all & fits(*int)) => {
            Ok(Reals::Many(ints.iter().map(|int| *int as f64).collect()))
        }
        Data::Int(int) if most == i64::MAX || fits(*int) => Ok(Reals::One(*int as f64)),
        _ => Err(Unsure),
    }
}

/// Python guards what may be NULL, so that all results are there; whole numbers that leave 64 bits are for Python.
pub fn computed<'a>(operation: Arithmetic, one: &Values<'_>, other: &Values<'_>, count: usize) -> Result<Values<'a>, Unsure> {
    if let (Some(one), Some(other)) = (ints(one), ints(other)) {
        let mut overflows = false;
        let mut checked = |(number, overflow): (i64, bool)| {
            overflows |= overflow;
            number
        };
        let found = each!(Arithmetic { Add Subtract Multiply }, operation, IT => {
            zip(one, other, count, |one, other| checked(IT.whole(one, other)))
        });
        return if overflows { Err(Unsure) } else { Ok(Values::new(Data::Ints(Cow::Owned(found)))) };
    }
    let (one, other) = (reals(one, i64::MAX)?, reals(other, i64::MAX)?);
    Ok(Values::of_reals(each!(Arithmetic { Add Subtract Multiply }, operation, IT => {
        zip(one.side(), other.side(), count, |one, other| IT.real(one, other))
    })))
}

pub fn negated<'a>(values: &Values<'_>) -> Result<Values<'a>, Unsure> {
    Ok(Values::new(match &values.data {
        Data::Ints(ints) if !ints.contains(&i64::MIN) => Data::Ints(ints.iter().map(|int| -int).collect()),
        Data::Floats(floats) => Data::Floats(floats.iter().map(|float| -float).collect()),
        Data::Int(int) => Data::Int(int.checked_neg().ok_or(Unsure)?),
        Data::Float(float) => Data::Float(-float),
        _ => return Err(Unsure),
    }))
}

pub fn divided<'a>(division: Division, one: &Values<'_>, other: &Values<'_>, count: usize) -> Result<Values<'a>, Unsure> {
    if division.is_whole() {
        let (one, other) = (ints(one).ok_or(Unsure)?, ints(other).ok_or(Unsure)?);
        let found = zip(one, other, count, |one, other| division.whole(one, other));
        let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
        let data = Data::Ints(found.iter().map(|number| number.unwrap_or(0)).collect());
        return Ok(Values { data, there: known(&found) });
    }
    let (one, other) = (reals(one, EXACT)?, reals(other, EXACT)?);
    let found = each!(Division { Quotient Rest WholeQuotient WholeRest }, division, IT => {
        zip(one.side(), other.side(), count, |one, other| IT.real(one, other))
    });
    let data = Data::Floats(found.iter().map(|number| number.unwrap_or(0.0)).collect());
    Ok(Values { data, there: known(&found) })
}

fn known<'a, T>(found: &[Option<T>]) -> There<'a> {
    There::Some(found.iter().map(|value| u8::from(value.is_some())).collect())
}

pub fn both(one: &mut [u8], other: &[u8]) {
    one.iter_mut().zip(other).for_each(|(one, other)| *one &= other);
}

pub fn either(one: &mut [u8], other: &[u8]) {
    one.iter_mut().zip(other).for_each(|(one, other)| *one |= other);
}

/// Code asks for NULL before it asks for an order, so that none of NULL counts.
pub fn compared<'a>(sign: Sign, one: &Values<'_>, other: &Values<'_>, count: usize) -> Result<Values<'a>, Unsure> {
    let mut found = if let (Some(one), Some(other)) = (ints(one), ints(other)) {
        signed(sign, one, other, count)
    } else if let (Some(one), Some(other)) = (texts(one), texts(other)) {
        signed(sign, one, other, count)
    } else if let (Some(_), Data::Beyond(is_positive)) = (ints(one), &other.data) {
        vec![u8::from(sign.holds_beyond(*is_positive)); count]
    } else if let (Data::Beyond(is_positive), Some(_)) = (&one.data, ints(other)) {
        vec![u8::from(sign.holds_beyond(!is_positive)); count]
    } else if let (Ok(one), Ok(other)) = (one.flags(count), other.flags(count)) {
        signed(sign, Side::Many(&one), Side::Many(&other), count)
    } else {
        let (one, other) = (reals(one, EXACT)?, reals(other, EXACT)?);
        signed(sign, one.side(), other.side(), count)
    };
    if !matches!((&one.there, &other.there), (There::All, There::All)) {
        let [of_one, of_both] = [false, true].map(|are_both| u8::from(sign.holds_for_null(are_both).unwrap_or(false)));
        let (one, other) = (one.there.flags(count), other.there.flags(count));
        for (flag, (one, other)) in found.iter_mut().zip(one.iter().zip(&other)) {
            *flag = *flag & one & other | of_one & (one ^ other) | of_both & (1 - (one | other));
        }
    }
    Ok(Values::of_flags(found))
}

/// Three-valued AND or OR.
pub fn joined<'a>(join: Join, one: &Values<'_>, other: &Values<'_>, count: usize) -> Result<Values<'a>, Unsure> {
    let parts = |values: &Values<'_>| {
        let flags = values.flags(count)?.into_iter().zip(values.there.flags(count));
        Ok(flags.map(|(flag, there)| (flag & there != 0, there > flag)).collect::<Vec<_>>())
    };
    let found = zip(Side::Many(&parts(one)?), Side::Many(&parts(other)?), count, |one, other| join.of(one, other));
    let there = There::Some(found.iter().map(|(is_true, is_false)| u8::from(is_true | is_false)).collect());
    Ok(Values { there, ..Values::of_flags(found.iter().map(|(is_true, _)| u8::from(*is_true)).collect()) })
}

/// Whether values are among others.
pub fn among<'a>(
    membership: Membership,
    one: &Values<'_>,
    options: &[Rc<Values<'_>>],
    count: usize,
) -> Result<Values<'a>, Unsure> {
    let (mut found, mut are_known) = (vec![0; count], vec![1; count]);
    for option in options {
        match (membership, &option.data) {
            (Membership::Plain, Data::Null | Data::Floats(_)) => return Err(Unsure), // Python asks whether NaNs are one object
            (_, Data::Null) => are_known.fill(0),
            _ => {
                either(&mut found, &compared(Sign::Equal, one, option, count)?.flags(count)?);
                both(&mut are_known, &option.there.flags(count));
            }
        }
    }
    if membership == Membership::Plain {
        return Ok(Values::of_flags(found));
    }
    let there = one.there.flags(count);
    both(&mut found, &there);
    either(&mut are_known, &found);
    both(&mut are_known, &there);
    Ok(Values { there: There::Some(Cow::Owned(are_known)), ..Values::of_flags(found) })
}

fn texts<'a>(values: &'a Values<'_>) -> Option<Side<'a, &'a [u8]>> {
    match &values.data {
        Data::Texts(texts) => Some(Side::Many(texts)),
        Data::Text(text) => Some(Side::One(text)),
        _ => None,
    }
}

fn signed<T: Copy + PartialOrd>(sign: Sign, one: Side<'_, T>, other: Side<'_, T>, count: usize) -> Vec<u8> {
    each!(Sign { Equal Unequal Below UpTo Above From }, sign, IT => {
        zip(one, other, count, |one, other| u8::from(IT.holds(one, other)))
    })
}

/// The one value where the test is true, the other where it is not; both of one type, or NULL.
pub fn choice<'a>(test: &[u8], one: &Values<'_>, other: &Values<'_>) -> Result<Values<'a>, Unsure> {
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
        Data::Floats(Cow::Owned(zip3(test, &reals(one, EXACT)?.many(count), &reals(other, EXACT)?.many(count))))
    } else {
        return Err(Unsure);
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
