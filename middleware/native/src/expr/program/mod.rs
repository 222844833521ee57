//! Expressions over columns, compiled to a small program that runs a block of rows at a time. The code that runs event by event
//! (`detectors.language`) says what they mean. What a program cannot decide just as Python would is left to Python.

mod input;
mod made;
mod projector;
#[cfg(feature = "python")]
mod python;
mod values;

pub use input::{Cell, Input, Sources, gathered};
pub use made::{Column, Kind, Made};
pub use projector::{Projector, Rows, passing};
#[cfg(feature = "python")]
pub use python::{Spec, bytes};
pub use values::Values;

use std::rc::Rc;

use values::{Arithmetic, Data, Sign, There, both, choice, compared, computed, either, negated, quotient, reals};

/// Rows that are computed at once: their columns stay in the processor's nearest cache.
pub const BLOCK: usize = 2048;

/// Python must do it.
#[derive(Debug)]
pub struct Unsuited;

type Found<'a> = Result<Rc<Values<'a>>, Unsuited>;

enum Constant {
    Null,
    Flag(bool),
    Int(i64),
    /// A whole number of more than 64 bits; whether it is positive.
    Beyond(bool),
    Float(f64),
    Text(Box<[u8]>),
}

enum Node {
    Constant(Constant),
    /// A field: of which tuple, and which of those that are read of it.
    Field(usize, usize),
    /// Keeps a value under a number, for `Kept`.
    Keep(usize, Box<Self>),
    Kept(usize),
    Compute(Arithmetic, Box<Self>, Box<Self>),
    Compare(Sign, Box<Self>, Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    IsThere(Box<Self>),
    Choose(Box<Self>, Box<Self>, Box<Self>),
    Negate(Box<Self>),
    Quotient(Box<Self>, Box<Self>),
    Real(Box<Self>),
}

/// An expression.
pub struct Program {
    node: Node,
    /// How many values it keeps.
    kept: usize,
}

impl Program {
    /// Its values for `count` rows, given those of fields.
    pub fn run<'a>(&'a self, count: usize, field: &dyn Fn(usize, usize) -> Result<Values<'a>, Unsuited>) -> Found<'a> {
        Run { count, field, kept: vec![None; self.kept] }.value(&self.node)
    }

    /// For which of `count` rows it is true.
    pub fn holds<'a>(
        &'a self,
        count: usize,
        field: &dyn Fn(usize, usize) -> Result<Values<'a>, Unsuited>,
    ) -> Result<Vec<u8>, Unsuited> {
        let found = self.run(count, field)?;
        let mut flags = found.flags(count)?;
        if let There::Some(there) = &found.there {
            flags.iter_mut().zip(there.iter()).for_each(|(flag, there)| *flag &= there);
        }
        Ok(flags)
    }
}

impl Constant {
    fn values(&self) -> Values<'_> {
        match self {
            Self::Null => Values { data: Data::Null, there: There::None },
            Self::Flag(flag) => Values::new(Data::Flag(*flag)),
            Self::Int(number) => Values::new(Data::Int(*number)),
            Self::Beyond(positive) => Values::new(Data::Beyond(*positive)),
            Self::Float(number) => Values::new(Data::Float(*number)),
            Self::Text(text) => Values::new(Data::Text(text)),
        }
    }
}

/// A program as it runs over some rows.
struct Run<'a, 'f> {
    count: usize,
    field: &'f dyn Fn(usize, usize) -> Result<Values<'a>, Unsuited>,
    kept: Vec<Option<Rc<Values<'a>>>>,
}

impl<'a> Run<'a, '_> {
    fn value(&mut self, node: &'a Node) -> Found<'a> {
        let count = self.count;
        Ok(Rc::new(match node {
            Node::Constant(constant) => constant.values(),
            Node::Field(which, at) => (self.field)(*which, *at)?,
            Node::Keep(number, node) => {
                let made = self.value(node)?;
                self.kept[*number] = Some(Rc::clone(&made));
                return Ok(made);
            }
            Node::Kept(number) => return self.kept[*number].clone().ok_or(Unsuited),
            Node::Compute(operation, one, other) => computed(*operation, &*self.value(one)?, &*self.value(other)?, count)?,
            Node::Compare(sign, one, other) => compared(*sign, &*self.value(one)?, &*self.value(other)?, count)?,
            Node::All(terms) => self.junction(terms, both)?,
            Node::Any(terms) => self.junction(terms, either)?,
            Node::Not(node) => Values::of_flags(self.truth(node)?.iter().map(|flag| 1 - flag).collect()),
            Node::IsThere(node) => Values::of_flags(self.value(node)?.there.flags(count)),
            Node::Choose(test, one, other) => choice(&self.truth(test)?, &*self.value(one)?, &*self.value(other)?)?,
            Node::Negate(node) => negated(&*self.value(node)?)?,
            Node::Quotient(one, other) => quotient(&*self.value(one)?, &*self.value(other)?, count)?,
            Node::Real(node) => Values::of_reals(reals(&*self.value(node)?, i64::MAX, count)?.into_owned()),
        }))
    }

    /// All terms are computed, as none does harm.
    fn junction(&mut self, terms: &'a [Node], join: fn(&mut [u8], &[u8])) -> Result<Values<'a>, Unsuited> {
        let (first, others) = terms.split_first().ok_or(Unsuited)?;
        let mut found = self.truth(first)?;
        for term in others {
            join(&mut found, &self.truth(term)?);
        }
        Ok(Values::of_flags(found))
    }

    fn truth(&mut self, node: &'a Node) -> Result<Vec<u8>, Unsuited> {
        let found = self.value(node)?;
        if matches!(found.there, There::All) { found.flags(self.count) } else { Err(Unsuited) }
    }
}
