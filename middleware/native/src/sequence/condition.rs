//! Conditions that the core decides: expressions on plain fields of events.

use super::aggregate::Aggregate;
use crate::expr::node::Expression;
use crate::expr::value::{Decided, Unsure, Value};

/// An operand of an expression: a component, and one of the values read from its events.
pub enum Reading {
    /// The value at its event; for a Kleene component, at each event in turn.
    Each(usize, usize),
    /// The value at the event before that.
    Before(usize, usize),
    /// The value at the oldest event.
    First(usize, usize),
    /// An aggregate over all events of a Kleene component; None: their number.
    Group(Aggregate, usize, Option<usize>),
}

/// An expression that is to be true.
pub struct Test {
    pub expression: Expression<Reading>,
    /// The Kleene component of which it must hold for each event, and whether it reads the one before each, too.
    pub each: Option<(usize, bool)>,
}

impl Test {
    /// Whether it holds, given how many events a Kleene component has, and the values of events (component, value, and which of
    /// its events, from 0).
    #[inline]
    pub fn holds(&self, count: impl Fn(usize) -> usize, values: impl Fn(usize, usize, usize) -> Value) -> Result<bool, Unsure> {
        let of = |reading: &Reading, event: usize| -> Decided {
            match reading {
                Reading::Each(slot, at) => {
                    let is_group = self.each.is_some_and(|(group, _)| group == *slot);
                    Ok(values(*slot, *at, if is_group { event } else { 0 }))
                }
                Reading::Before(slot, at) => Ok(values(*slot, *at, event - 1)),
                Reading::First(slot, at) => Ok(values(*slot, *at, 0)),
                Reading::Group(_, slot, None) => Ok(Value::Int(count(*slot) as i64)),
                Reading::Group(kind, slot, Some(at)) => kind.of((0..count(*slot)).map(|number| values(*slot, *at, number))),
            }
        };
        let events = self.each.map_or(0..1, |(group, reads_before)| usize::from(reads_before)..count(group));
        for event in events {
            if !self.expression.holds(&|reading| of(reading, event))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, Test};
    use crate::expr::node::{Expression, Node};
    use crate::expr::value::{Sign, Value};
    use crate::sequence::aggregate::Aggregate;

    const GROUP: [i64; 4] = [1, 3, 3, 7];

    /// Whether a comparison of what is read holds for so many events of a group; None: Python decides.
    fn holds(each: Option<(usize, bool)>, sign: &str, one: Node<Reading>, other: Node<Reading>, count: usize) -> Option<bool> {
        let node = Node::Compare(Sign::named(sign).unwrap(), Box::new(one), Box::new(other));
        let test = Test { expression: Expression { node, kept: 0 }, each };
        test.holds(|_| count, |_, _, number| Value::Int(GROUP[number])).ok()
    }

    fn whole(number: i64) -> Node<Reading> {
        Node::Constant(Value::Int(number))
    }

    #[test]
    fn a_test_on_a_group_holds_for_each_of_its_events() {
        let rises = |sign, count| {
            holds(Some((0, true)), sign, Node::Field(Reading::Before(0, 0)), Node::Field(Reading::Each(0, 0)), count)
        };
        assert_eq!([rises("<=", 4), rises("<", 4), rises("<", 2)], [Some(true), Some(false), Some(true)]);
        let small = |count| holds(Some((0, false)), "<", Node::Field(Reading::Each(0, 0)), whole(7), count);
        assert_eq!([small(3), small(4)], [Some(true), Some(false)]);
        let above_first = holds(Some((0, false)), ">=", Node::Field(Reading::Each(0, 0)), Node::Field(Reading::First(0, 0)), 4);
        assert_eq!(above_first, Some(true));
    }

    #[test]
    fn aggregates_are_of_the_whole_group() {
        let sum = || Node::Field(Reading::Group(Aggregate::named("sum").unwrap(), 0, Some(0)));
        let count = || Node::Field(Reading::Group(Aggregate::named("count").unwrap(), 0, None));
        assert_eq!(holds(None, "=", sum(), whole(14), 4), Some(true));
        assert_eq!(holds(None, "=", count(), whole(3), 3), Some(true));
        assert_eq!(holds(None, "=", Node::Constant(Value::Other), whole(3), 3), None);
    }
}
