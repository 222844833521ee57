//! Expressions as trees. The code that runs event by event (`detectors.language`) says what they mean: NULL is tested for before it is
//! computed with. What is not decided here just as Python would is left to Python.

use std::borrow::Cow;

use super::value::{Arithmetic, Decided, Division, Join, Sign, Unsure, Value};

/// A tree over fields, which `F` tells apart.
pub enum Node<F> {
    Constant(Value),
    Field(F),
    /// Keeps a value under a number, for `Kept`.
    Keep(usize, Box<Self>),
    Kept(usize),
    Compute(Arithmetic, Box<Self>, Box<Self>),
    Divide(Division, Box<Self>, Box<Self>),
    Negate(Box<Self>),
    Real(Box<Self>),
    /// A whole number of 64 bits, or NULL: any other is for Python.
    Whole(Box<Self>),
    Compare(Sign, Box<Self>, Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Join(Join, Box<Self>, Box<Self>),
    IsThere(Box<Self>),
    In(Membership, Box<Self>, Vec<Self>),
    Choose(Box<Self>, Box<Self>, Box<Self>),
    /// An operation, or this value where an operand that is `Nullable` is NULL.
    Strict(Value, Box<Self>),
    Nullable(Box<Self>),
}

/// How a value is looked for among others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// NULL is a value like others.
    Plain,
    /// Three-valued: NULL is found nowhere, and nothing is ruled out by it.
    OrNull,
}

impl Membership {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "in" => Self::Plain,
            "is_in" => Self::OrNull,
            _ => return None,
        })
    }
}

/// Why an operation has no value.
enum Stop {
    /// Python must decide.
    Unsure,
    /// An operand is NULL: see `Node::Strict`.
    Null,
}

impl From<Unsure> for Stop {
    fn from(_: Unsure) -> Self {
        Self::Unsure
    }
}

type Found = Result<Value, Stop>;

/// An expression for a row at a time.
pub struct Expression<F> {
    pub node: Node<F>,
    /// How many values it keeps.
    pub kept: usize,
}

impl<F> Expression<F> {
    /// Its value, given those of fields.
    #[inline]
    pub fn value(&self, field: &impl Fn(&F) -> Decided) -> Decided {
        let found = match self.kept {
            0 => self.node.value(field, &mut []),
            kept => self.node.value(field, &mut vec![Value::Null; kept]),
        };
        found.map_err(|_| Unsure)
    }

    /// Whether it is true.
    #[inline]
    pub fn holds(&self, field: &impl Fn(&F) -> Decided) -> Result<bool, Unsure> {
        self.value(field)?.truth()
    }
}

impl<F> Node<F> {
    /// An operand that may be NULL; not so what is computed, which has no value of NULL.
    pub fn nullable(self) -> Self {
        match &self {
            Self::Whole(node) if matches!(**node, Self::Compute(..)) => self,
            _ => Self::Nullable(Box::new(self)),
        }
    }

    /// This operation, with a value for where a nullable operand is NULL.
    pub fn strict(self, otherwise: Value) -> Self {
        match &self {
            Self::Compute(_, one, other) | Self::Compare(_, one, other) | Self::Divide(_, one, other)
                if ![one, other].iter().any(|operand| matches!(***operand, Self::Nullable(_))) =>
            {
                self
            }
            _ => Self::Strict(otherwise, Box::new(self)),
        }
    }

    fn value(&self, field: &impl Fn(&F) -> Decided, kept: &mut [Value]) -> Found {
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Field(read) => field(read)?,
            Self::Keep(number, node) => {
                let value = node.value(field, kept)?;
                kept[*number] = value.clone();
                value
            }
            Self::Kept(number) => kept[*number].clone(),
            Self::Compute(operation, one, other) => one.lent(field, kept)?.compute(*operation, &*other.lent(field, kept)?)?,
            Self::Divide(division, one, other) => one.lent(field, kept)?.divide(*division, &*other.lent(field, kept)?)?,
            Self::Negate(node) => node.value(field, kept)?.negate()?,
            Self::Real(node) => Value::Float(node.value(field, kept)?.real()?),
            Self::Whole(node) => match node.value(field, kept)? {
                whole @ (Value::Int(_) | Value::Null) => whole,
                _ => return Err(Stop::Unsure),
            },
            Self::Compare(sign, one, other) => one.lent(field, kept)?.compare(*sign, &*other.lent(field, kept)?)?,
            Self::All(terms) => Self::junction(terms, field, kept, false)?,
            Self::Any(terms) => Self::junction(terms, field, kept, true)?,
            Self::Not(node) => Value::Bool(!node.value(field, kept)?.truth()?),
            Self::Join(join, one, other) => one.value(field, kept)?.join(*join, &other.value(field, kept)?)?,
            Self::IsThere(node) => match node.value(field, kept)? {
                Value::Other => return Err(Stop::Unsure),
                value => Value::Bool(value != Value::Null),
            },
            Self::In(membership, one, options) => {
                let one = one.value(field, kept)?;
                let options = options.iter().map(|option| option.value(field, kept)).collect::<Result<Vec<_>, _>>()?;
                among(*membership, &one, &options)?
            }
            Self::Choose(test, one, other) => {
                let is_one = test.value(field, kept)?.truth()?;
                if is_one { one.value(field, kept)? } else { other.value(field, kept)? }
            }
            Self::Strict(otherwise, operation) => match operation.value(field, kept) {
                Err(Stop::Null) => otherwise.clone(),
                found => found?,
            },
            Self::Nullable(node) => match node.value(field, kept)? {
                Value::Null => return Err(Stop::Null),
                value => value,
            },
        })
    }

    /// The same, with no copy of a constant. It calls itself nowhere, or it is not inlined.
    #[inline]
    fn lent(&self, field: &impl Fn(&F) -> Decided, kept: &mut [Value]) -> Result<Cow<'_, Value>, Stop> {
        Ok(match self {
            Self::Constant(value) => Cow::Borrowed(value),
            Self::Field(read) => Cow::Owned(field(read)?),
            _ => Cow::Owned(self.value(field, kept)?),
        })
    }

    /// Whether all terms are true, or one is (`decisive`). As in Python, those behind the one that decides are not computed.
    fn junction(terms: &[Self], field: &impl Fn(&F) -> Decided, kept: &mut [Value], decisive: bool) -> Found {
        for term in terms {
            if term.value(field, kept)?.truth()? == decisive {
                return Ok(Value::Bool(decisive));
            }
        }
        Ok(Value::Bool(!decisive))
    }
}

fn among(membership: Membership, one: &Value, options: &[Value]) -> Decided {
    if membership == Membership::OrNull && *one == Value::Null {
        return Ok(Value::Null);
    }
    let mut is_found = false;
    for option in options {
        if membership == Membership::Plain && one.is_nan() && option.is_nan() {
            return Err(Unsure); // Python asks whether they are one object
        }
        is_found |= one.compare(Sign::Equal, option)?.truth()?;
    }
    let is_open = membership == Membership::OrNull && !is_found && options.contains(&Value::Null);
    Ok(if is_open { Value::Null } else { Value::Bool(is_found) })
}
