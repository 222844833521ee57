//! The tree against a plain map from times to slots, whose values are folded from left to right.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound::{Excluded, Included};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::moments::{Few, Grown, Spread};
use super::monoid::Monoid;
use super::numbers::{Count, MaxCount, Range};
use super::tree::Tree;
use crate::drawing::Drawn;

type Map<M> = BTreeMap<i64, <M as Monoid>::Slot>;

#[derive(Debug, PartialEq)]
struct Failed;

/// Concatenation, which is associative and nothing else. `FAILS`: it does, once so many operations have succeeded.
struct Joined<const FAILS: bool>(AtomicUsize);

impl<const FAILS: bool> Joined<FAILS> {
    fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    fn step(&self) -> Result<(), Failed> {
        match self.0.load(Ordering::Relaxed) {
            usize::MAX => Ok(()),
            0 => Err(Failed),
            left => {
                self.0.store(left - 1, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

impl<const FAILS: bool> Monoid for Joined<FAILS> {
    type Slot = Vec<u64>;
    type Agg = Vec<u64>;
    type Failure = Failed;

    const FALLIBLE: bool = FAILS;

    fn commutes(&self) -> bool {
        false
    }

    fn lift(&self, slot: &Vec<u64>) -> Result<Vec<u64>, Failed> {
        Ok(slot.clone())
    }

    fn absorb(&self, agg: &mut Vec<u64>, slot: &Vec<u64>) -> Result<(), Failed> {
        self.combine(agg, slot)
    }

    fn combine(&self, agg: &mut Vec<u64>, right: &Vec<u64>) -> Result<(), Failed> {
        self.step()?;
        agg.extend(right);
        Ok(())
    }

    fn merge(&self, slot: &mut Vec<u64>, later: &Vec<u64>) -> Result<(), Failed> {
        self.combine(slot, later)
    }

    fn same(&self, one: &Vec<u64>, other: &Vec<u64>) -> Result<bool, Failed> {
        Ok(one == other)
    }
}

fn folded<'a, M: Monoid>(monoid: &M, slots: impl Iterator<Item = &'a M::Slot>) -> Option<M::Agg>
where
    M::Failure: Debug,
{
    slots.map(|slot| monoid.lift(slot).unwrap()).reduce(|mut agg, right| {
        monoid.combine(&mut agg, &right).unwrap();
        agg
    })
}

/// Two windows side by side: what a tree does, a map does.
struct Pair<M: Monoid> {
    tree: Tree<i64, M>,
    map: Map<M>,
}

impl<M: Monoid> Pair<M>
where
    M::Failure: Debug,
{
    fn put(&mut self, time: i64, slot: M::Slot, replace: bool) {
        match self.map.get_mut(&time) {
            Some(there) if !replace => self.tree.monoid.merge(there, &slot).unwrap(),
            _ => drop(self.map.insert(time, slot)),
        }
    }

    /// One operation that is drawn; times come near the young end mostly, as events do.
    fn act(&mut self, drawn: &mut Drawn, slot: fn(u64) -> M::Slot) {
        let newest = self.map.last_key_value().map_or(0, |(time, _)| *time);
        let near = |drawn: &mut Drawn| match drawn.below(8) {
            0..5 => newest + drawn.below(4) as i64,
            5..7 => newest - drawn.below(20) as i64,
            _ => newest - drawn.below(300) as i64,
        };
        let replace = drawn.one_in(4);
        match drawn.below(16) {
            0..9 => {
                let (time, value) = (near(drawn), drawn.next());
                self.tree.insert(time, slot(value), replace).unwrap();
                self.put(time, slot(value), replace);
            }
            9 => {
                let mut run: Vec<_> = (0..drawn.below(40)).map(|_| (near(drawn), drawn.next())).collect();
                run.sort_unstable_by_key(|(time, _)| *time);
                self.tree.bulk_insert(run.iter().map(|&(time, value)| (time, slot(value))), replace).unwrap();
                run.into_iter().for_each(|(time, value)| self.put(time, slot(value), replace));
            }
            10 => {
                let time = near(drawn);
                assert_eq!(self.tree.evict(time).unwrap(), self.map.remove(&time).is_some());
            }
            11..14 if !self.map.is_empty() => {
                self.tree.evict_oldest().unwrap();
                self.map.pop_first();
            }
            14 => {
                let last = near(drawn) - drawn.below(60) as i64;
                let kept = self.map.split_off(&(last + 1));
                assert_eq!(self.tree.bulk_evict(last).unwrap(), std::mem::replace(&mut self.map, kept).len());
            }
            _ => {
                let last = newest - 100;
                self.tree.advance(last).unwrap();
                self.map = self.map.split_off(&(last + 1));
            }
        }
    }

    fn compare(&mut self, drawn: &mut Drawn) {
        assert_eq!(self.tree.fault().unwrap(), None);
        assert_eq!(self.tree.len, self.map.len());
        assert_eq!(self.tree.oldest(), self.map.first_key_value().map(|(time, _)| *time));
        assert_eq!(self.tree.youngest(), self.map.last_key_value().map(|(time, _)| *time));
        let mut found = Vec::new();
        let note = &mut |time: i64, _: &M::Slot| {
            found.push(time);
            Ok::<_, Failed>(())
        };
        self.tree.each(self.tree.root, note).unwrap();
        assert!(found.iter().eq(self.map.keys()));
        let whole = self.tree.query().unwrap();
        self.same(whole, folded(&self.tree.monoid, self.map.values()));
        let newest = self.map.last_key_value().map_or(0, |(time, _)| *time);
        let (low, size) = (newest - drawn.below(150) as i64, drawn.below(150) as i64);
        let range = self.tree.range(low, low + size).unwrap();
        self.same(
            range,
            folded(&self.tree.monoid, self.map.range((Included(low), Excluded(low + size + 1))).map(|(_, slot)| slot)),
        );
    }

    fn same(&self, found: Option<M::Agg>, expected: Option<M::Agg>) {
        match (found, expected) {
            (Some(found), Some(expected)) => assert!(self.tree.monoid.same(&found, &expected).unwrap()),
            (found, expected) => assert_eq!(found.is_some(), expected.is_some()),
        }
    }
}

fn drive<M: Monoid>(make: fn() -> M, slot: fn(u64) -> M::Slot)
where
    M::Failure: Debug,
{
    for (seed, arity) in [2, 3, 4, 8].into_iter().enumerate() {
        let mut drawn = Drawn(seed as u64);
        let mut pair = Pair { tree: Tree::new(make(), arity), map: Map::<M>::new() };
        for step in 0..3_000 {
            pair.act(&mut drawn, slot);
            if step % 7 == 0 {
                pair.compare(&mut drawn);
            }
        }
        pair.compare(&mut drawn);
        assert_eq!(pair.tree.clear(), pair.map.len());
        pair.map.clear();
        pair.compare(&mut drawn);
    }
}

#[test]
fn an_operator_whose_order_shows() {
    drive(Joined::<false>::new, |value| vec![value]);
}

#[test]
fn an_operator_that_may_fail() {
    drive(Joined::<true>::new, |value| vec![value]);
}

#[test]
fn operators_whose_order_never_shows() {
    drive(|| Count, |_| 1);
    drive(|| Range(0_i64), |value| ((value % 50) as i64, (value % 50) as i64));
    drive(|| MaxCount(0_i64), |value| ((value % 5) as i64, 1));
    drive(|| Grown { empty: Spread::default(), how: () }, |value| Few::One((value % 1_000) as f64 / 8.0));
}

/// An operation whose operator fails at any point leaves everything as it was.
#[test]
fn an_operation_is_done_or_not() {
    let mut drawn = Drawn(9);
    let mut pair = Pair { tree: Tree::new(Joined::<true>::new(), 2), map: Map::<Joined<true>>::new() };
    let mut failures = 0;
    for _ in 0..600 {
        pair.act(&mut drawn, |value| vec![value]);
        let newest = pair.map.last_key_value().map_or(0, |(time, _)| *time);
        let (time, last) = (newest + 1 - drawn.below(30) as i64, newest - drawn.below(40) as i64);
        let run: Vec<_> = (0..6).map(|step| (time + step, vec![step as u64])).collect();
        pair.tree.monoid.0.store(drawn.below(12) as usize, Ordering::Relaxed);
        let tried = pair.tree.atomic(|tree| {
            tree.advance(last)?;
            tree.bulk_insert(run.iter().cloned(), false)
        });
        pair.tree.monoid.0.store(usize::MAX, Ordering::Relaxed);
        if tried.is_ok() {
            pair.map = pair.map.split_off(&(last + 1));
            run.into_iter().for_each(|(time, slot)| pair.put(time, slot, false));
        } else {
            failures += 1;
        }
        pair.compare(&mut drawn);
    }
    assert!(failures > 100, "{failures} failures");
}
