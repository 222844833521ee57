//! Skip-till-next-match and strict contiguity over changes that come in any order; `tests.oracles.sequence_runs` says
//! what it means.

use std::cmp::Reverse;
use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::Ordering::Relaxed;

use super::entries::{Entries, Entry};
use super::partitions::Partitions;
use super::pattern::{Component, Pattern};
use crate::hashing::Scattered;

/// Says which conditions hold for entries.
pub trait RunJudge<E> {
    type Failure;

    /// Whether a condition holds, given how many entries a component has, and its entry of a number, from 0.
    fn holds<'e>(
        &self,
        condition: usize,
        count: impl Fn(usize) -> usize,
        entry: impl Fn(usize, usize) -> &'e Entry<E>,
    ) -> Result<bool, Self::Failure>
    where
        E: 'e;
}

/// Conditions to check when an event is taken for a place, and when the group of a place is complete.
pub struct Due {
    pub taken: Vec<usize>,
    pub complete: Vec<usize>,
}

/// How runs go: the conditions by place, and whether every event between theirs ends them.
pub struct Rules {
    pub dues: Vec<Due>,
    pub is_strict: bool,
}

/// The places of a match, or of the beginning of one: which entries they are, several for a Kleene step.
type Taken = Vec<Vec<usize>>;

/// The events of a match that stands, by place.
pub type Match<E> = Vec<Vec<E>>;

/// Times of first events whose runs may change (both ends included), and the first time at which something changes.
pub struct Range {
    first: i64,
    last: i64,
    from: i64,
}

/// By partition, the runs that may change.
pub type Touched = BTreeMap<usize, Vec<Range>>;

/// An event that comes or goes.
pub struct Changed {
    /// None: it belongs to all partitions.
    pub partition: Option<usize>,
    pub ts: i64,
    /// Whether it may be a negative before the first step.
    pub leads: bool,
}

/// The state of a query with one of these two strategies.
pub struct Running<E> {
    pub partitions: Partitions<Entries<E>>,
    /// Negatives that belong to all partitions.
    pub common: Entries<E>,
    /// First events of matches that wait for their window to pass: time and partition.
    starts: BinaryHeap<Reverse<(i64, usize)>>,
    pub emitted: i64,
    swept: i64,
    held: usize,
}

impl<E> Default for Running<E> {
    fn default() -> Self {
        Self {
            partitions: Partitions::default(),
            common: Entries::default(),
            starts: BinaryHeap::new(),
            emitted: i64::MIN / 2,
            swept: i64::MIN / 2,
            held: 0,
        }
    }
}

impl<E> Running<E> {
    /// Events kept, once for each partition.
    pub fn held(&self) -> usize {
        self.held
    }

    pub fn all(&self) -> impl Iterator<Item = &Entries<E>> {
        self.partitions.iter().chain([&self.common])
    }

    /// Every invariant.
    pub fn check(&self) {
        assert!(self.all().all(|each| each.0.is_sorted_by_key(|entry| entry.ts)), "out of order");
        assert_eq!(self.held, self.all().map(|each| each.0.len()).sum::<usize>(), "held is off");
    }

    /// Put an entry in its place. `is_before`: whether the first of two events of one time comes first.
    pub fn add<F>(
        &mut self,
        partition: Option<usize>,
        entry: Entry<E>,
        is_before: impl FnMut(&E, &E) -> Result<bool, F>,
    ) -> Result<(), F> {
        self.entries(partition).add(entry, is_before)?;
        self.held += 1;
        Ok(())
    }

    /// Take out the event of that time which `is_it`, if there is one.
    pub fn remove<F>(&mut self, partition: Option<usize>, ts: i64, is_it: impl FnMut(&E) -> Result<bool, F>) -> Result<(), F> {
        self.held -= usize::from(self.entries(partition).remove(ts, is_it)?);
        Ok(())
    }

    /// The entries of a partition; None: those that belong to all.
    fn entries(&mut self, partition: Option<usize>) -> &mut Entries<E> {
        match partition {
            Some(number) => self.partitions.get_mut(number).expect("it was found before"),
            None => &mut self.common,
        }
    }

    /// A match that begins with an event of this time waits for its window to pass.
    pub fn wait(&mut self, ts: i64, partition: usize) {
        self.starts.push(Reverse((ts, partition)));
    }

    /// For each partition, the times of first events whose runs may change.
    pub fn touched(&mut self, pattern: &Pattern, changes: impl Iterator<Item = Changed>, emitted: i64) -> Touched {
        let mut touched: Touched = BTreeMap::new();
        for Changed { partition, ts, leads } in changes {
            let last = if leads { ts.saturating_add(pattern.within) } else { ts };
            for number in partition.map_or_else(|| self.partitions.numbers(), |number| vec![number]) {
                touched.entry(number).or_default().push(Range { first: ts.saturating_sub(pattern.within), last, from: ts });
            }
        }
        while let Some(Reverse((ts, number))) = self.starts.peek().copied()
            && ts <= emitted.saturating_sub(pattern.within)
        {
            self.starts.pop();
            touched.entry(number).or_default().push(Range { first: ts, last: ts, from: ts });
        }
        touched.into_iter().map(|(number, ranges)| (number, merged(ranges))).collect()
    }

    /// Give `found` the matches that stand now, of the runs that began at these times and do not end before anything changes.
    pub fn matches<J: RunJudge<E>>(
        &self,
        judge: &J,
        pattern: &Pattern,
        rules: &Rules,
        touched: &Touched,
        mut found: impl FnMut(&[Vec<&Entry<E>>]) -> Result<(), J::Failure>,
    ) -> Result<(), J::Failure> {
        for (number, ranges) in touched {
            let Some(entries) = self.partitions.get(*number) else { continue };
            let view = View { judge, pattern, rules, entries, common: &self.common };
            for range in ranges {
                for at in entries.below(range.first)..entries.below(range.last.saturating_add(1)) {
                    let first = &entries.0[at];
                    let is_over = !pattern.trails && first.ended.load(Relaxed) < range.from;
                    let waits = pattern.trails && first.ts > self.emitted.saturating_sub(pattern.within);
                    if is_over || waits || first.role(pattern.steps[0]).is_none() {
                        continue;
                    }
                    view.matches_from(at, &mut found)?;
                }
            }
        }
        Ok(())
    }

    /// Forget what can matter no more, and tell `forget` of partitions that hold nothing.
    pub fn purge<F>(&mut self, pattern: &Pattern, r#final: i64, forget: impl FnMut(usize) -> Result<(), F>) -> Result<(), F> {
        let upto = r#final.saturating_sub(pattern.reach);
        if upto > self.swept {
            self.held -= self.partitions.purge(|each| each.purge(upto), forget)? + self.common.purge(upto);
            self.swept = upto.saturating_add(pattern.within / 4);
        }
        Ok(())
    }
}

/// The ranges in order, with those that touch or overlap merged.
fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_by_key(|each| each.first);
    let mut found: Vec<Range> = Vec::new();
    for each in ranges {
        match found.last_mut() {
            Some(last) if each.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(each.last);
                last.from = last.from.min(each.from);
            }
            _ => found.push(each),
        }
    }
    found
}

/// Matches in the order in which they were found, by identity.
pub struct Matches<E> {
    pub all: Vec<(i64, Match<E>)>,
    places: Scattered<i64, usize>,
}

impl<E> Default for Matches<E> {
    fn default() -> Self {
        Self { all: Vec::new(), places: Scattered::default() }
    }
}

impl<E> Matches<E> {
    pub fn note(&mut self, identity: i64, found: Match<E>) {
        if let Slot::Vacant(free) = self.places.entry(identity) {
            free.insert(self.all.len());
            self.all.push((identity, found));
        }
    }

    /// Those that are not among others, or of other events there.
    pub fn without<'a>(
        &'a self,
        others: &'a Self,
        same: impl Fn(&Match<E>, &Match<E>) -> bool + 'a,
    ) -> impl Iterator<Item = &'a (i64, Match<E>)> {
        let other = |identity| others.places.get(&identity).map(|at| &others.all[*at].1);
        self.all.iter().filter(move |(identity, found)| other(*identity).is_none_or(|other| !same(found, other)))
    }
}

/// A partition, with all that says what its runs come to.
struct View<'a, E, J> {
    judge: &'a J,
    pattern: &'a Pattern,
    rules: &'a Rules,
    entries: &'a Entries<E>,
    common: &'a Entries<E>,
}

impl<E, J: RunJudge<E>> View<'_, E, J> {
    /// The matches of the run that begins with an entry which no negative rules out.
    fn matches_from(
        &self,
        start: usize,
        found: &mut impl FnMut(&[Vec<&Entry<E>>]) -> Result<(), J::Failure>,
    ) -> Result<(), J::Failure> {
        let ended = self.run(start, &mut |bound| {
            for slot in &self.pattern.negations {
                if self.is_ruled_out(&self.pattern.components[*slot], bound)? {
                    return Ok(());
                }
            }
            let events: Vec<Vec<_>> = bound.iter().map(|group| group.iter().map(|at| &self.entries.0[*at]).collect()).collect();
            found(&events)
        })?;
        self.entries.0[start].ended.store(ended, Relaxed);
        Ok(())
    }

    /// Runs from an entry on: at most one match, or one for each event of a final Kleene step. Returns the time of the entry
    /// at which it stops.
    fn run(&self, start: usize, complete: &mut impl FnMut(&Taken) -> Result<(), J::Failure>) -> Result<i64, J::Failure> {
        let (entries, last) = (&self.entries.0, self.pattern.steps.len() - 1);
        let first = entries[start].ts;
        let until = first.saturating_add(self.pattern.within);
        let ends = !self.pattern.step(last).kleene;
        let mut bound: Taken = vec![vec![start]];
        if !self.hold(&self.rules.dues[0].taken, &bound, None)? {
            return Ok(first);
        }
        let mut newest = first;
        if last == 0 {
            self.completed(&bound, complete)?;
            if ends {
                return Ok(first);
            }
        }
        for (at, entry) in entries.iter().enumerate().skip(start + 1) {
            if entry.ts > until {
                break;
            }
            if entry.ts > newest && self.takes(&mut bound, at)? {
                newest = entry.ts;
                if bound.len() > last {
                    self.completed(&bound, complete)?;
                    if ends {
                        return Ok(entry.ts);
                    }
                }
            } else if self.rules.is_strict {
                return Ok(entry.ts);
            }
        }
        Ok(until)
    }

    /// Take an entry for the next step if it fits that, else into the current group; whether it was taken.
    fn takes(&self, bound: &mut Taken, at: usize) -> Result<bool, J::Failure> {
        let (place, entry, dues) = (bound.len() - 1, &self.entries.0[at], &self.rules.dues);
        if let Some(next) = self.pattern.steps.get(place + 1)
            && entry.role(*next).is_some()
            && self.hold(&dues[place].complete, bound, None)?
        {
            bound.push(vec![at]);
            if self.hold(&dues[place + 1].taken, bound, None)? {
                return Ok(true);
            }
            bound.pop();
        }
        if self.pattern.step(place).kleene && entry.role(self.pattern.steps[place]).is_some() {
            let pair = [*bound[place].last().expect("a group has events"), at];
            if self.hold(&dues[place].taken, bound, Some((place, &pair)))? {
                bound[place].push(at);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn completed(&self, bound: &Taken, complete: &mut impl FnMut(&Taken) -> Result<(), J::Failure>) -> Result<(), J::Failure> {
        let last = self.rules.dues.last().expect("there is a step");
        if self.hold(&last.complete, bound, None)? { complete(bound) } else { Ok(()) }
    }

    /// Whether conditions hold; `pair`: a place whose group is to be taken as these two entries.
    fn hold(&self, conditions: &[usize], bound: &Taken, pair: Option<(usize, &[usize])>) -> Result<bool, J::Failure> {
        let items = |place: usize| match pair {
            Some((given, items)) if given == place => items,
            _ => &bound[place][..],
        };
        self.all_hold(conditions, items, None)
    }

    /// Whether conditions hold for the entries of each place, and a negative.
    fn all_hold<'b>(
        &self,
        conditions: &[usize],
        items: impl Fn(usize) -> &'b [usize],
        negative: Option<(usize, &Entry<E>)>,
    ) -> Result<bool, J::Failure> {
        let of_negative = |slot: usize| negative.filter(|(negated, _)| *negated == slot).map(|(_, entry)| entry);
        let of = |slot: usize| items(self.pattern.components[slot].place);
        let count = |slot: usize| if of_negative(slot).is_some() { 1 } else { of(slot).len() };
        let entry = |slot: usize, number: usize| of_negative(slot).unwrap_or_else(|| &self.entries.0[of(slot)[number]]);
        for condition in conditions {
            if !self.judge.holds(*condition, count, entry)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_ruled_out(&self, component: &Component, bound: &Taken) -> Result<bool, J::Failure> {
        let ts = |at: Option<&usize>| self.entries.0[*at.expect("a place has an event")].ts;
        let last = bound.len() - 1;
        let low = match component.place.checked_sub(1) {
            Some(before) => ts(bound[before].last()) + 1,
            None => ts(bound[last].last()).saturating_sub(self.pattern.within),
        };
        let high = match bound.get(component.place) {
            Some(next) => ts(next.first()) - 1,
            None => ts(bound[0].first()).saturating_add(self.pattern.within),
        };
        let among = if component.is_keyed { self.entries } else { self.common };
        for entry in &among.0[among.below(low)..among.below(high.saturating_add(1)).max(among.below(low))] {
            if entry.role(component.slot).is_some()
                && self.all_hold(&component.conditions, |place| &bound[place], Some((component.slot, entry)))?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
