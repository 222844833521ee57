//! Two sides of tuples by key and time: tuples that come or go on one side meet those near in time on the other.
//! `tests.oracles.pairs` says what it means.

use std::hash::Hash;

use crate::hashing::Scattered;

/// A tuple, when it is, and its mark.
pub struct Held<T> {
    pub ts: i64,
    pub mark: u64,
    pub tuple: T,
}

/// Tuples of one key in order of time.
type Run<T> = Vec<Held<T>>;

/// A side, by its number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    pub fn of(is_left: bool) -> Self {
        if is_left { Self::Left } else { Self::Right }
    }

    pub fn other(self) -> Self {
        Self::of(self == Self::Right)
    }
}

/// A left and a right tuple.
pub struct Pair<'a, T>(pub [&'a Held<T>; 2]);

impl<T> Pair<'_, T> {
    pub fn ts(&self) -> i64 {
        self.0[0].ts.max(self.0[1].ts)
    }

    pub fn identity(&self) -> i64 {
        identity(self.0[0].mark, self.0[1].mark)
    }
}

/// The identity of a pair, whichever tuple came first.
pub fn identity(one: u64, other: u64) -> i64 {
    (one.wrapping_add(other) ^ (1 << 63)) as i64
}

/// Tuples of one side that have come at once, and their keys.
pub struct Part<K, T> {
    pub side: Side,
    pub tuples: Vec<Held<T>>,
    pub keys: Vec<K>,
}

/// The reason why a tuple cannot go.
#[derive(Debug, PartialEq)]
pub enum Absent {
    Key,
    Tuple,
}

/// By key those of the left, and of the right side: to insert one and to meet the others takes one look.
pub struct Sides<K, T> {
    sizes: [i64; 2],
    runs: Scattered<K, [Run<T>; 2]>,
    held: usize,
}

impl<K: Hash + Eq, T> Sides<K, T> {
    /// A left tuple meets those of the right side that are less than `left` later, or less than `right` earlier.
    pub fn new(left: i64, right: i64) -> Self {
        Self { sizes: [left, right], runs: Scattered::default(), held: 0 }
    }

    /// How many tuples are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// How many keys have tuples, once for each side.
    pub fn keys(&self) -> usize {
        self.runs.values().flatten().filter(|run| !run.is_empty()).count()
    }

    /// Insert a tuple behind those of its time. O(1) behind all, else O(log n) and the move of what is later.
    #[inline]
    pub fn insert(&mut self, side: Side, key: K, held: Held<T>) {
        let run = &mut self.runs.entry(key).or_default()[side as usize];
        if run.last().is_none_or(|last| last.ts <= held.ts) {
            run.push(held);
        } else {
            let at = run.partition_point(|there| there.ts <= held.ts);
            run.insert(at, held);
        }
        self.held += 1;
    }

    /// Take out a tuple. A key that has none left goes when the next are forgotten.
    pub fn take_out(&mut self, side: Side, key: &K, ts: i64, mark: u64) -> Result<(), Absent> {
        let run = &mut self.runs.get_mut(key).ok_or(Absent::Key)?[side as usize];
        let start = run.partition_point(|there| there.ts < ts);
        let at = run[start..].iter().position(|there| there.mark == mark).ok_or(Absent::Tuple)?;
        run.remove(start + at);
        self.held -= 1;
        Ok(())
    }

    /// The tuples of the other side that one of this side meets.
    #[inline]
    pub fn near(&self, side: Side, key: &K, ts: i64) -> &[Held<T>] {
        let Some(runs) = self.runs.get(key) else { return &[] };
        let (run, own, theirs) = (&runs[side.other() as usize], self.sizes[side as usize], self.sizes[side.other() as usize]);
        let start = run.partition_point(|there| there.ts <= ts.saturating_sub(theirs));
        let count = run[start..].iter().take_while(|there| there.ts < ts.saturating_add(own)).count();
        &run[start..start + count]
    }

    /// The pairs that parts make, which are in already: each once. `is_of`: whether a tuple is of the part of that number.
    pub fn pairs<'a>(&'a self, parts: &'a [Part<K, T>], is_of: impl Fn(&T, usize) -> bool) -> Vec<Pair<'a, T>> {
        let mut pairs = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let has_met = |there: &Held<T>| (0..number).any(|earlier| is_of(&there.tuple, earlier));
            for (arrived, key) in part.tuples.iter().zip(&part.keys) {
                let near = self.near(part.side, key, arrived.ts).iter().filter(|there| !has_met(there));
                pairs.extend(near.map(|there| Pair(if part.side == Side::Left { [arrived, there] } else { [there, arrived] })));
            }
        }
        pairs
    }

    /// Forget what meets nothing that is later than `until`.
    pub fn forget(&mut self, until: i64) {
        let until = self.sizes.map(|size| until.saturating_sub(size));
        let mut held = 0;
        self.runs.retain(|_, runs| {
            for (run, until) in runs.iter_mut().zip(until) {
                run.drain(..run.partition_point(|there| there.ts <= until));
            }
            let left = runs.iter().map(Vec::len).sum::<usize>();
            held += left;
            left > 0
        });
        self.held = held;
    }

    /// The tuples of a side, by key, in order of time.
    pub fn content(&self, side: Side) -> impl Iterator<Item = (&K, &[Held<T>])> {
        self.runs.iter().map(move |(key, runs)| (key, &runs[side as usize][..])).filter(|(_, run)| !run.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::{Absent, Held, Part, Side, Sides, identity};
    use crate::drawing::Drawn;

    /// A tuple: its side, key, time and mark, and the number of the part that it came with.
    #[derive(Clone, Copy)]
    struct Plain(Side, u64, i64, u64, usize);

    const SIZES: [i64; 2] = [5, 3];

    /// The time of a pair, and its marks.
    fn met(left: &Plain, right: &Plain) -> Option<(i64, u64, u64)> {
        let is_near = left.1 == right.1 && right.2 < left.2 + SIZES[0] && left.2 < right.2 + SIZES[1];
        is_near.then(|| (left.2.max(right.2), left.3, right.3))
    }

    fn drawn(drawn: &mut Drawn, mark: u64, part: usize) -> Plain {
        Plain(Side::of(drawn.one_in(2)), drawn.below(3), drawn.below(40) as i64, mark, part)
    }

    fn held(plain: &Plain) -> Held<usize> {
        Held { ts: plain.2, mark: plain.3, tuple: plain.4 }
    }

    #[test]
    fn a_tuple_meets_what_is_near_it() {
        for seed in 0..100 {
            let mut drawn_of = Drawn(seed);
            let (mut sides, mut all) = (Sides::new(SIZES[0], SIZES[1]), Vec::<Plain>::new());
            for mark in 0..60 {
                let own = drawn(&mut drawn_of, mark, 0);
                let (mut near, mut expected) = (Vec::new(), Vec::new());
                near.extend(sides.near(own.0, &own.1, own.2).iter().map(|there| there.mark));
                expected.extend(all.iter().filter(|there| there.0 != own.0).filter_map(|there| {
                    let (left, right) = if own.0 == Side::Left { (&own, there) } else { (there, &own) };
                    met(left, right).map(|_| there.3)
                }));
                near.sort_unstable();
                expected.sort_unstable();
                assert_eq!(near, expected, "seed {seed}");
                if drawn_of.one_in(4) && !all.is_empty() {
                    let gone = all.swap_remove(drawn_of.below(all.len() as u64) as usize);
                    assert_eq!(sides.take_out(gone.0, &gone.1, gone.2, gone.3), Ok(()));
                    assert_eq!(sides.take_out(gone.0, &gone.1, gone.2, gone.3), Err(Absent::Tuple));
                }
                sides.insert(own.0, own.1, held(&own));
                all.push(own);
                if drawn_of.one_in(10) {
                    let until = drawn_of.below(20) as i64;
                    sides.forget(until);
                    all.retain(|own| own.2 > until - SIZES[own.0 as usize]);
                }
                assert_eq!(sides.held(), all.len());
                assert_eq!(
                    [Side::Left, Side::Right].map(|side| sides.content(side).count()).iter().sum::<usize>(),
                    sides.keys()
                );
            }
            assert_eq!(sides.take_out(Side::Left, &9, 1, 1), Err(Absent::Key));
        }
    }

    #[test]
    fn what_comes_at_once_meets_once() {
        for seed in 0..100 {
            let mut drawn_of = Drawn(seed);
            let (mut sides, mut all, mut expected) = (Sides::new(SIZES[0], SIZES[1]), Vec::<Plain>::new(), Vec::new());
            for part in 0..4 {
                for own in (0..10).map(|mark| drawn(&mut drawn_of, part * 10 + mark, part as usize)) {
                    all.push(own);
                }
            }
            let (there, come) = all.split_at(20);
            there.iter().for_each(|own| sides.insert(own.0, own.1, held(own)));
            let mut parts = Vec::new();
            for number in 2..4 {
                for side in [Side::Left, Side::Right] {
                    let own: Vec<_> = come.iter().filter(|each| each.4 == number && each.0 == side).collect();
                    let tuples = own.iter().map(|own| Held { tuple: parts.len() + 100, ..held(own) }).collect();
                    own.iter().for_each(|own| sides.insert(side, own.1, Held { tuple: parts.len() + 100, ..held(own) }));
                    parts.push(Part { side, tuples, keys: own.iter().map(|own| own.1).collect() });
                }
            }
            let pairs = sides.pairs(&parts, |tuple, part| *tuple == part + 100);
            let mut found: Vec<_> = pairs.iter().map(|pair| (pair.ts(), pair.0[0].mark, pair.0[1].mark)).collect();
            assert!(pairs.iter().all(|pair| pair.identity() == identity(pair.0[1].mark, pair.0[0].mark)));
            for left in all.iter().filter(|each| each.0 == Side::Left) {
                for right in all.iter().filter(|each| each.0 == Side::Right) {
                    expected.extend(met(left, right).filter(|_| left.3.max(right.3) >= 20));
                }
            }
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}
