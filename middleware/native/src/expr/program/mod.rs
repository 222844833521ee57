//! Expressions over columns, which run a block of rows at a time.

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

use crate::expr::node::{Expression, Node};
use crate::expr::value::Unsure;
use values::{There, among, both, choice, compared, computed, divided, either, joined, negated, reals};

/// Rows that are computed at once: their columns stay in the processor's nearest cache.
pub const BLOCK: usize = 2048;

/// A field: of which tuple, and which of those that are read of it.
pub type Place = (usize, usize);

/// An expression over fields of tuples.
pub type Program = Expression<Place>;

type Found<'a> = Result<Rc<Values<'a>>, Unsure>;

impl Program {
    /// Its values for `count` rows, given those of fields.
    pub fn run<'a>(&'a self, count: usize, field: &dyn Fn(usize, usize) -> Result<Values<'a>, Unsure>) -> Found<'a> {
        Run { count, field, kept: vec![None; self.kept], known: None }.value(&self.node)
    }

    /// For which of `count` rows it is true.
    pub fn passes<'a>(
        &'a self,
        count: usize,
        field: &dyn Fn(usize, usize) -> Result<Values<'a>, Unsure>,
    ) -> Result<Vec<u8>, Unsure> {
        self.run(count, field)?.truth(count)
    }
}

/// A program as it runs over some rows.
struct Run<'a, 'f> {
    count: usize,
    field: &'f dyn Fn(usize, usize) -> Result<Values<'a>, Unsure>,
    kept: Vec<Option<Rc<Values<'a>>>>,
    /// For which rows the nullable operands of an operation are there; None: for all.
    known: Option<Vec<u8>>,
}

impl<'a> Run<'a, '_> {
    fn value(&mut self, node: &'a Node<Place>) -> Found<'a> {
        let count = self.count;
        Ok(Rc::new(match node {
            Node::Constant(constant) => Values::of(constant)?,
            Node::Field((which, at)) => (self.field)(*which, *at)?,
            Node::Keep(number, node) => {
                let made = self.value(node)?;
                self.kept[*number] = Some(Rc::clone(&made));
                return Ok(made);
            }
            Node::Kept(number) => return self.kept[*number].clone().ok_or(Unsure),
            Node::Compute(operation, one, other) => computed(*operation, &*self.value(one)?, &*self.value(other)?, count)?,
            Node::Divide(division, one, other) => divided(*division, &*self.value(one)?, &*self.value(other)?, count)?,
            Node::Negate(node) => negated(&*self.value(node)?)?,
            Node::Real(node) => Values::of_reals(reals(&*self.value(node)?, i64::MAX)?.many(count).into_owned()),
            Node::Whole(node) => {
                let made = self.value(node)?;
                return if made.are_whole() { Ok(made) } else { Err(Unsure) };
            }
            Node::Compare(sign, one, other) => compared(*sign, &*self.value(one)?, &*self.value(other)?, count)?,
            Node::All(terms) => self.junction(terms, both)?,
            Node::Any(terms) => self.junction(terms, either)?,
            Node::Not(node) => Values::of_flags(self.truth(node)?.iter().map(|flag| 1 - flag).collect()),
            Node::Join(join, one, other) => joined(*join, &*self.value(one)?, &*self.value(other)?, count)?,
            Node::IsThere(node) => Values::of_flags(self.value(node)?.there.flags(count)),
            Node::In(membership, one, options) => {
                let one = self.value(one)?;
                let options = options.iter().map(|option| self.value(option)).collect::<Result<Vec<_>, _>>()?;
                among(*membership, &one, &options, count)?
            }
            Node::Strict(otherwise, operation) => {
                let around = self.known.take();
                let found = self.value(operation)?;
                let known = std::mem::replace(&mut self.known, around);
                let Some(known) = known else { return Ok(found) };
                Rc::unwrap_or_clone(found).among_known(known, otherwise)?
            }
            Node::Nullable(node) => {
                let found = self.value(node)?;
                let there = match &found.there {
                    There::All => return Ok(found),
                    there => there.flags(count),
                };
                match &mut self.known {
                    Some(known) => both(known, &there),
                    none => *none = Some(there),
                }
                return Ok(found);
            }
            Node::Choose(test, one, other) => choice(&self.truth(test)?, &*self.value(one)?, &*self.value(other)?)?,
        }))
    }

    /// All terms are computed, as none does harm.
    fn junction(&mut self, terms: &'a [Node<Place>], join: fn(&mut [u8], &[u8])) -> Result<Values<'a>, Unsure> {
        let (first, others) = terms.split_first().ok_or(Unsure)?;
        let mut found = self.truth(first)?;
        for term in others {
            join(&mut found, &self.truth(term)?);
        }
        Ok(Values::of_flags(found))
    }

    fn truth(&mut self, node: &'a Node<Place>) -> Result<Vec<u8>, Unsure> {
        self.value(node)?.truth(self.count)
    }
}
