//! Events in the total order of their partition, each in the roles that it may have.

use std::sync::atomic::AtomicI64;

use super::partitions::{Content, LITTLE};
use crate::expr::value::Value;

/// A component that an event may be, and what conditions read of it as that.
pub struct Role {
    pub slot: usize,
    pub values: Box<[Value]>,
}

/// An event in the total order of its partition.
pub struct Entry<E> {
    pub ts: i64,
    pub event: E,
    pub roles: Vec<Role>,
    /// For a run that begins here, the time of the entry at which it stopped. Later entries do not change the run.
    pub ended: AtomicI64,
}

impl<E> Entry<E> {
    /// Its values as a component; None if it is not that.
    #[inline]
    pub fn role(&self, slot: usize) -> Option<&[Value]> {
        self.roles.iter().find(|role| role.slot == slot).map(|role| &*role.values)
    }
}

/// The entries of one partition, in total order.
pub struct Entries<E>(pub Vec<Entry<E>>);

impl<E> Default for Entries<E> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<E> Content for Entries<E> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(LITTLE);
    }
}

impl<E> Entries<E> {
    /// How many are earlier than `ts`.
    #[inline]
    pub fn below(&self, ts: i64) -> usize {
        match self.0.last() {
            Some(last) if last.ts >= ts => self.0.partition_point(|each| each.ts < ts),
            _ => self.0.len(),
        }
    }

    /// Put an entry in its place. `is_before`: whether the first of two events of one time comes first.
    pub fn add<F>(&mut self, entry: Entry<E>, mut is_before: impl FnMut(&E, &E) -> Result<bool, F>) -> Result<(), F> {
        let mut at = self.below(entry.ts.saturating_add(1));
        while at > 0 && self.0[at - 1].ts == entry.ts && is_before(&entry.event, &self.0[at - 1].event)? {
            at -= 1;
        }
        self.0.insert(at, entry);
        Ok(())
    }

    /// Take out the event of that time which `is_it`; whether there was one.
    pub fn remove<F>(&mut self, ts: i64, mut is_it: impl FnMut(&E) -> Result<bool, F>) -> Result<bool, F> {
        for at in self.below(ts)..self.below(ts.saturating_add(1)) {
            if is_it(&self.0[at].event)? {
                self.0.remove(at);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Forget those with ts <= `upto`; how many.
    pub fn purge(&mut self, upto: i64) -> usize {
        let count = self.0.partition_point(|each| each.ts <= upto);
        self.0.drain(..count).count()
    }
}
