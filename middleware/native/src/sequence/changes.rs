//! The net change of one step: matches that stand now and did not before, and the reverse.

use std::collections::hash_map::Entry;
use std::ops::Range;

use super::negation::{Bound, Judge, View};
use super::stack::Instance;
use crate::hashing::Scattered;

/// Matches that were made or withdrawn, one after the other. Their results are made at the end of the step, of those that are left.
#[derive(Default)]
pub struct Changes {
    all: Vec<Change>,
    /// The instances of all of them, place by place, and where each place ends.
    instances: Vec<Instance>,
    ends: Vec<u32>,
    /// Places of a match.
    places: usize,
}

pub struct Change {
    makes: bool,
    pub ts: i64,
    pub identity: i64,
}

impl Changes {
    pub fn clear(&mut self) {
        self.all.clear();
        self.instances.clear();
        self.ends.clear();
    }

    #[inline]
    pub fn note<J: Judge>(&mut self, view: &View<'_, J>, bound: &Bound, makes: bool) {
        self.places = view.pattern.steps.len();
        for place in 0..self.places {
            self.instances.extend(view.instances(bound, place));
            self.ends.push(self.instances.len() as u32);
        }
        self.all.push(Change { makes, ts: view.ts(bound), identity: 0 });
    }

    pub fn get(&self, at: usize) -> &Change {
        &self.all[at]
    }

    /// Give each change the identity of its match.
    pub fn identify<E>(&mut self, mut identity: impl FnMut(&Self, usize) -> Result<i64, E>) -> Result<(), E> {
        for at in 0..self.all.len() {
            self.all[at].identity = identity(self, at)?;
        }
        Ok(())
    }

    /// Which matches are made, and which withdrawn, by identity: what was made in this step leaves no trace when it is withdrawn.
    /// And whether none is among both.
    pub fn net(&self) -> (Vec<usize>, Vec<usize>, bool) {
        if self.all.iter().all(|each| each.makes) {
            return ((0..self.all.len()).collect(), Vec::new(), true);
        }
        let (mut made, mut withdrawn) = (Scattered::<i64, usize>::default(), Scattered::<i64, usize>::default());
        for (at, each) in self.all.iter().enumerate() {
            if each.makes {
                made.insert(each.identity, at);
            } else if made.remove(&each.identity).is_none()
                && let Entry::Vacant(first) = withdrawn.entry(each.identity)
            {
                first.insert(at);
            }
        }
        let in_order = |chosen: Scattered<i64, usize>| {
            let mut places: Vec<usize> = chosen.into_values().collect();
            places.sort_unstable();
            places
        };
        let are_apart = made.keys().all(|identity| !withdrawn.contains_key(identity));
        (in_order(made), in_order(withdrawn), are_apart)
    }

    /// The instances of a place of a match.
    pub fn place(&self, at: usize, place: usize) -> &[Instance] {
        &self.instances[self.range(at * self.places + place)]
    }

    fn range(&self, number: usize) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[number] as usize
    }
}
