//! The events that a barrier holds back. `tests.oracles.held_events` is the model.

use std::cmp::{Ordering, Reverse};
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::hashing::Scattered;

/// With more names than this, they are forgotten as soon as nothing is held.
const MANY: usize = 1_024;

/// An event that came, by its order. The number says which of several under one identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    ts: i64,
    level: i64,
    id: i64,
    source: i64,
    number: u64,
}

/// Numbers for names of sources.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl Names {
    fn number(&mut self, name: &str) -> i64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let next = i64::try_from(self.names.len()).expect("names are held in memory");
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), next);
        next
    }

    /// The total order of events.
    fn order(&self, one: &Arrival, other: &Arrival) -> Ordering {
        let name = |arrival: &Arrival| &self.names[usize::try_from(arrival.source).expect("numbers of names")];
        (one.ts, one.level)
            .cmp(&(other.ts, other.level))
            .then_with(|| if one.source == other.source { Ordering::Equal } else { name(one).cmp(name(other)) })
            .then(one.id.cmp(&other.id))
    }
}

/// An identity: the number of a source, and an id.
pub type Identity = (i64, i64);

/// Events by their identity and in total order.
pub struct HeldBack<T> {
    /// The events held, each with the number of its arrival.
    events: Scattered<Identity, (u64, T)>,
    /// Arrivals in order of time, and those that came behind a later one.
    ahead: VecDeque<Arrival>,
    behind: BinaryHeap<Reverse<Arrival>>,
    names: Names,
    arrivals: u64,
}

impl<T> Default for HeldBack<T> {
    fn default() -> Self {
        Self {
            events: Scattered::default(),
            ahead: VecDeque::new(),
            behind: BinaryHeap::new(),
            names: Names::default(),
            arrivals: 0,
        }
    }
}

impl<T> HeldBack<T> {
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The number of a source, until all is forgotten.
    pub fn number(&mut self, name: &str) -> i64 {
        self.names.number(name)
    }

    pub fn holds(&self, identity: Identity) -> bool {
        self.events.contains_key(&identity)
    }

    /// Hold an event, in place of one of its identity. O(1) if it comes in order, else O(log n).
    pub fn hold(&mut self, ts: i64, level: i64, (source, id): Identity, event: T) {
        self.arrivals += 1;
        let arrival = Arrival { ts, level, id, source, number: self.arrivals };
        self.events.insert((source, id), (self.arrivals, event));
        if self.ahead.back().is_none_or(|last| last.ts <= ts) {
            self.ahead.push_back(arrival);
        } else {
            self.behind.push(Reverse(arrival));
        }
    }

    /// A time that no event held is older than. O(1): events that are held no longer count as long as their time has not come.
    pub fn oldest(&self) -> Option<i64> {
        let ahead = self.ahead.front().map(|first| first.ts);
        let behind = self.behind.peek().map(|Reverse(first)| first.ts);
        ahead.into_iter().chain(behind).min()
    }

    /// Hold the event of an identity no longer, if `is_it`; whether it is gone.
    pub fn discard(&mut self, identity: Identity, is_it: impl FnOnce(&T) -> bool) -> bool {
        let Entry::Occupied(held) = self.events.entry(identity) else { return false };
        let is_gone = is_it(&held.get().1);
        if is_gone {
            held.remove();
        }
        is_gone
    }

    /// Take out the events up to a time, in total order.
    pub fn release(&mut self, until: i64) -> Vec<T> {
        let mut free = Vec::new();
        while self.ahead.front().is_some_and(|first| first.ts <= until) {
            free.extend(self.ahead.pop_front());
        }
        while let Some(Reverse(arrival)) = self.behind.peek().copied()
            && arrival.ts <= until
        {
            self.behind.pop();
            free.push(arrival);
        }
        free.sort_by(|one, other| self.names.order(one, other));
        let mut events = Vec::with_capacity(free.len());
        for Arrival { source, id, number, .. } in free {
            if let Entry::Occupied(held) = self.events.entry((source, id))
                && held.get().0 == number
            {
                events.push(held.remove().1);
            }
        }
        events
    }

    /// Whether it is empty, and keeps names that are too many to be kept for nothing.
    pub fn is_spent(&self) -> bool {
        self.events.is_empty() && self.names.names.len() > MANY
    }

    /// Forget all, names too.
    pub fn clear(&mut self) {
        *self = Self { arrivals: self.arrivals, ..Self::default() };
    }

    /// The events, in any order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &T> {
        self.events.values().map(|(_, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::{HeldBack, MANY};
    use crate::drawing::Drawn;

    /// Time, level, name of the source, id, and which of several.
    type Plain = (i64, i64, String, i64, usize);

    #[test]
    fn events_are_released_in_total_order() {
        for seed in 0..300 {
            let mut drawn = Drawn(seed);
            let (mut held, mut plain) = (HeldBack::default(), Vec::<Plain>::new());
            for step in 0..60 {
                let name = ["b", "a", "longer"][drawn.below(3) as usize].to_owned();
                let id = drawn.below(4) as i64;
                let identity = (held.number(&name), id);
                let own = |event: &Plain| event.2 == name && event.3 == id;
                assert_eq!(held.holds(identity), plain.iter().any(own));
                match drawn.below(6) {
                    0 => {
                        let is_it = drawn.one_in(2);
                        assert_eq!(held.discard(identity, |_| is_it), is_it && plain.iter().any(own));
                        plain.retain(|event| !(is_it && own(event)));
                    }
                    1 => {
                        let until = drawn.below(25) as i64;
                        let (mut free, rest): (Vec<Plain>, _) = plain.into_iter().partition(|event| event.0 <= until);
                        plain = rest;
                        free.sort();
                        assert_eq!(held.release(until), free, "seed {seed}");
                    }
                    _ => {
                        let event = (drawn.below(20) as i64, drawn.below(2) as i64, name.clone(), id, step);
                        plain.retain(|other| !own(other));
                        held.hold(event.0, event.1, identity, event.clone());
                        plain.push(event);
                    }
                }
                assert_eq!(held.len(), plain.len());
                assert_eq!(held.events().len(), plain.len());
            }
        }
    }

    #[test]
    fn names_are_kept_while_they_are_few_or_needed() {
        let mut held = HeldBack::default();
        for number in 0..=MANY {
            assert!(!held.is_spent());
            let source = held.number(&number.to_string());
            held.hold(number as i64, 0, (source, 1), number);
        }
        assert_eq!(held.release(MANY as i64 - 1).len(), MANY);
        assert!(!held.is_spent());
        assert_eq!(held.release(MANY as i64), [MANY]);
        assert!(held.is_spent());
        held.clear();
        assert_eq!((held.number("anew"), held.is_spent()), (0, false));
    }
}
