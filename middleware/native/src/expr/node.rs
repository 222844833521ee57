//! Expressions as trees. The code that runs event by event (`detectors.language`) says what they mean: NULL is tested for before it is
//! computed with. What is not decided here just as Python would is left to Python.

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

/// A walk of a tree for one row.
struct Walk {
    kept: Vec<Value>,
    /// The operation that failed did so as a nullable operand is NULL: `Node::Strict` decides, not Python. A second kind of failure
    /// in each result would make all results slower.
    is_null: bool,
}

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
        self.node.value(field, &mut Walk::new(self.kept))
    }

    /// Whether it is true.
    #[inline]
    pub fn holds(&self, field: &impl Fn(&F) -> Decided) -> Result<bool, Unsure> {
        self.node.truth(field, &mut Walk::new(self.kept))
    }
}

impl Walk {
    #[inline]
    fn new(kept: usize) -> Self {
        let kept = if kept == 0 { Vec::new() } else { vec![Value::Null; kept] }; // `vec!` calls a function for none, too: 4 ns a row
        Self { kept, is_null: false }
    }
}

impl<F> Node<F> {
    /// An operand that may be NULL. An operation that is NULL where its own operands are leaves that to the one around.
    pub fn nullable(self) -> Self {
        match self {
            Self::Strict(Value::Null, operation) => operation.nullable(),
            Self::Whole(node) => Self::Whole(Box::new(node.nullable())),
            Self::Compute(..) => self, // has no value of NULL
            _ => Self::Nullable(Box::new(self)),
        }
    }

    /// This operation, with a value for where a nullable operand is NULL.
    pub fn strict(self, otherwise: Value) -> Self {
        if self.may_stop() { Self::Strict(otherwise, Box::new(self)) } else { self }
    }

    /// Whether there may be a nullable operand in it for the operation around.
    fn may_stop(&self) -> bool {
        match self {
            Self::Compute(_, one, other) | Self::Compare(_, one, other) | Self::Divide(_, one, other) => {
                one.may_stop() || other.may_stop()
            }
            Self::Whole(node) => node.may_stop(),
            _ => !matches!(self, Self::Constant(_) | Self::Field(_) | Self::Kept(_) | Self::Strict(..)),
        }
    }

    fn value(&self, field: &impl Fn(&F) -> Decided, walk: &mut Walk) -> Decided {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Field(read) => field(read),
            Self::Keep(number, node) => {
                let value = node.value(field, walk)?;
                walk.kept[*number] = value.clone();
                Ok(value)
            }
            Self::Kept(number) => Ok(walk.kept[*number].clone()),
            Self::Compute(operation, one, other) => {
                let found = one.found(field, walk);
                let one = one.lent(&found, walk)?;
                let found = other.found(field, walk);
                one.compute(*operation, other.lent(&found, walk)?)
            }
            Self::Divide(division, one, other) => {
                let found = one.found(field, walk);
                let one = one.lent(&found, walk)?;
                let found = other.found(field, walk);
                one.divide(*division, other.lent(&found, walk)?)
            }
            Self::Negate(node) => node.value(field, walk)?.negate(),
            Self::Real(node) => Ok(Value::Float(node.value(field, walk)?.real()?)),
            Self::Whole(node) => {
                let found = node.found(field, walk);
                match node.lent(&found, walk)? {
                    Value::Int(number) => Ok(Value::Int(*number)),
                    Value::Null => Ok(Value::Null),
                    _ => Err(Unsure),
                }
            }
            Self::Compare(..) | Self::All(_) | Self::Any(_) | Self::Not(_) | Self::IsThere(_) => {
                self.truth(field, walk).map(Value::Bool)
            }
            Self::Join(join, one, other) => one.value(field, walk)?.join(*join, &other.value(field, walk)?),
            Self::In(membership, one, options) => {
                let one = one.value(field, walk)?;
                let options = options.iter().map(|option| option.value(field, walk)).collect::<Result<Vec<_>, _>>()?;
                among(*membership, &one, &options)
            }
            Self::Choose(test, one, other) => {
                if test.truth(field, walk)? {
                    one.value(field, walk)
                } else {
                    other.value(field, walk)
                }
            }
            Self::Strict(otherwise, operation) => match operation.value(field, walk) {
                Err(Unsure) if std::mem::take(&mut walk.is_null) => Ok(otherwise.clone()),
                found => found,
            },
            Self::Nullable(_) => {
                let found = self.found(field, walk);
                self.lent(&found, walk).cloned()
            }
        }
    }

    /// Whether it passes as a test: its value is true, and not NULL.
    fn truth(&self, field: &impl Fn(&F) -> Decided, walk: &mut Walk) -> Result<bool, Unsure> {
        match self {
            Self::Compare(sign, one, other) => {
                let found = one.found(field, walk);
                let one = one.lent(&found, walk)?;
                let found = other.found(field, walk);
                one.compare(*sign, other.lent(&found, walk)?)
            }
            Self::All(terms) => Self::junction(terms, field, walk, false),
            Self::Any(terms) => Self::junction(terms, field, walk, true),
            Self::Not(node) => Ok(!node.truth(field, walk)?),
            Self::IsThere(node) => match node.value(field, walk)? {
                Value::Other => Err(Unsure),
                value => Ok(value != Value::Null),
            },
            Self::Strict(otherwise, operation) => match operation.truth(field, walk) {
                Err(Unsure) if std::mem::take(&mut walk.is_null) => otherwise.truth(),
                found => found,
            },
            _ => self.value(field, walk)?.truth(),
        }
    }

    /// What an operand that is no constant has as its value.
    #[inline]
    fn found(&self, field: &impl Fn(&F) -> Decided, walk: &mut Walk) -> Decided {
        let node = match self {
            Self::Constant(_) => return Ok(Value::Null),
            Self::Nullable(node) => node,
            node => node,
        };
        if let Self::Field(read) = node { field(read) } else { node.value(field, walk) }
    }

    /// The value of an operand where it lies: the constant, or what was found. To move values costs more than to compute with them.
    #[inline]
    fn lent<'a>(&'a self, found: &'a Decided, walk: &mut Walk) -> Result<&'a Value, Unsure> {
        match (self, found) {
            (Self::Constant(value), _) => Ok(value),
            (Self::Nullable(_), Ok(Value::Null)) => {
                walk.is_null = true;
                Err(Unsure)
            }
            (_, found) => found.as_ref().map_err(|_| Unsure),
        }
    }

    /// Whether all terms are true, or one is (`decisive`). As in Python, those behind the one that decides are not computed.
    fn junction(terms: &[Self], field: &impl Fn(&F) -> Decided, walk: &mut Walk, decisive: bool) -> Result<bool, Unsure> {
        for term in terms {
            if term.truth(field, walk)? == decisive {
                return Ok(decisive);
            }
        }
        Ok(!decisive)
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
        is_found |= one.compare(Sign::Equal, option)?;
    }
    let is_open = membership == Membership::OrNull && !is_found && options.contains(&Value::Null);
    Ok(if is_open { Value::Null } else { Value::Bool(is_found) })
}

#[cfg(test)]
mod tests {
    use super::{Expression, Node};
    use crate::expr::value::{Arithmetic, Sign, Unsure, Value};

    fn field(at: usize) -> Node<usize> {
        Node::Field(at)
    }

    /// Whether the sum of two fields, of which the first may be NULL, is above 3.
    fn is_above() -> Node<usize> {
        let sum = Node::Compute(Arithmetic::Add, Box::new(field(0).nullable()), Box::new(field(1))).strict(Value::Null);
        let whole = Node::Whole(Box::new(sum)).nullable();
        Node::Compare(Sign::Above, Box::new(whole), Box::new(Node::Constant(Value::Int(3)))).strict(Value::Bool(false))
    }

    fn holds(node: Node<usize>, fields: &[Value; 2]) -> Result<bool, Unsure> {
        Expression { node, kept: 0 }.holds(&|at| Ok(fields[*at].clone()))
    }

    #[test]
    fn operations_are_null_where_an_operand_is() {
        let null = [Value::Null, Value::Int(1)];
        assert_eq!(holds(is_above(), &[Value::Int(3), Value::Int(1)]), Ok(true));
        assert_eq!(holds(is_above(), &null), Ok(false));
        let of_constant = Node::Compare(Sign::Below, Box::new(Node::Constant(Value::Int(1)).nullable()), Box::new(field(1)));
        assert_eq!(holds(of_constant.strict(Value::Bool(false)), &[Value::Null, Value::Int(2)]), Ok(true));
        assert_eq!(holds(Node::Not(Box::new(is_above())), &null), Ok(true));
        assert_eq!(holds(Node::Any(vec![is_above(), Node::IsThere(Box::new(field(1)))]), &null), Ok(true));
    }

    #[test]
    fn null_where_it_is_not_foreseen_is_for_python() {
        assert_eq!(holds(is_above(), &[Value::Int(3), Value::Null]), Err(Unsure));
        assert_eq!(holds(is_above(), &[Value::Other, Value::Null]), Err(Unsure));
        let later = Node::All(vec![is_above(), Node::IsThere(Box::new(Node::Constant(Value::Other)))]);
        assert_eq!(holds(later, &[Value::Int(3), Value::Int(1)]), Err(Unsure));
    }

    #[test]
    fn operations_without_nullable_operands_are_not_guarded() {
        let sum = Node::Compute(Arithmetic::Add, Box::new(field(0)), Box::new(field(1))).strict(Value::Null);
        assert!(matches!(sum.nullable(), Node::Compute(..)));
        assert!(matches!(is_above(), Node::Strict(..)));
    }
}
