//! Queries against a plain look at all that ever came and still stands.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::atomic::AtomicI64;

use super::arrivals::Arrived;
use super::blocks::Blocks;
use super::entries::{Entry, Role};
use super::matching::Matching;
use super::negation::{Judge, TooLarge};
use super::pattern::{Component, Pattern, Schedule};
use super::running::{Changed, Due, Matches, Rules, RunJudge, Running};
use super::stack::{Instance, Partition};
use crate::drawing::Drawn;
use crate::expr::value::Value;

const WITHIN: i64 = 12;
const KEYS: u64 = 2;

#[derive(Clone, Copy)]
struct Event {
    ts: i64,
    kind: u64,
    key: usize,
    value: u64,
}

/// A condition on components.
#[derive(Clone, Copy, PartialEq)]
enum Condition {
    /// Every event of one has no larger value than every event of the other.
    UpTo(usize, usize),
    /// No event of a Kleene component has a smaller value than the one before.
    Rising(usize),
}

impl Condition {
    fn slots(self) -> Vec<usize> {
        match self {
            Self::UpTo(one, other) => vec![one, other],
            Self::Rising(one) => vec![one],
        }
    }

    fn holds(self, count: impl Fn(usize) -> usize, value: impl Fn(usize, usize) -> u64) -> bool {
        match self {
            Self::UpTo(one, other) => (0..count(one)).all(|at| (0..count(other)).all(|of| value(one, at) <= value(other, of))),
            Self::Rising(one) => (1..count(one)).all(|at| value(one, at - 1) <= value(one, at)),
        }
    }
}

struct Query {
    pattern: Pattern,
    conditions: Vec<Condition>,
    /// The number of conditions on positive components; the others are those of negations.
    positive: usize,
    /// By component.
    kinds: Vec<u64>,
}

impl Query {
    fn drawn(drawn: &mut Drawn) -> Self {
        let steps = 1 + drawn.below(3) as usize;
        let group = drawn.below(5) as usize; // of most queries none is a group
        let mut components: Vec<Component> = (0..steps)
            .map(|place| Component {
                slot: place,
                place,
                kleene: place == group,
                negation: None,
                is_keyed: true,
                conditions: Vec::new(),
            })
            .collect();
        let mut conditions = Vec::new();
        if group < steps {
            conditions.extend(drawn.one_in(2).then_some(Condition::Rising(group)));
        }
        if steps > 1 {
            let (one, other) = (drawn.below(steps as u64) as usize, drawn.below(steps as u64) as usize);
            conditions.extend((one != other).then_some(Condition::UpTo(one, other)));
        }
        let positive = conditions.len();
        for negation in 0..drawn.below(3) as usize {
            let slot = components.len();
            let mut own = Vec::new();
            if drawn.one_in(2) {
                own.push(conditions.len());
                conditions.push(Condition::UpTo(slot, drawn.below(steps as u64) as usize));
            }
            let (place, is_keyed) = (drawn.below(steps as u64 + 1) as usize, drawn.one_in(2));
            components.push(Component { slot, place, kleene: false, negation: Some(negation), is_keyed, conditions: own });
        }
        let schedules =
            (0..steps).map(Some).chain([None]).map(|given| schedule(&components[..steps], &conditions[..positive], given));
        let schedules = schedules.collect();
        let trails = components.iter().any(|each| each.negation.is_some() && each.place == steps);
        let kinds = components.iter().map(|_| drawn.below(3)).collect();
        Self { pattern: Pattern::new(components, schedules, WITHIN, 2 * WITHIN, trails), conditions, positive, kinds }
    }

    fn roles(&self, event: &Event) -> Vec<usize> {
        (0..self.kinds.len()).filter(|slot| self.kinds[*slot] == event.kind).collect()
    }

    /// The matches that stand, as the numbers of their events, by place.
    fn matches(&self, events: &BTreeMap<usize, Event>, emitted: i64) -> BTreeSet<Vec<Vec<usize>>> {
        let mut found = BTreeSet::new();
        for key in 0..KEYS as usize {
            self.extend(events, key, &mut Vec::new(), &mut found);
        }
        found.retain(|found| self.stands(events, found, emitted));
        found
    }

    /// Every way to continue from the places that are bound.
    fn extend(
        &self,
        events: &BTreeMap<usize, Event>,
        key: usize,
        bound: &mut Vec<Vec<usize>>,
        found: &mut BTreeSet<Vec<Vec<usize>>>,
    ) {
        if bound.len() == self.pattern.steps.len() {
            found.insert(bound.clone());
            return;
        }
        let newest = bound.last().map_or(i64::MIN, |group| events[group.last().unwrap()].ts);
        let until = bound.first().map_or(i64::MAX, |group| events[&group[0]].ts + WITHIN);
        let slot = self.pattern.steps[bound.len()];
        for (number, event) in events {
            if event.key == key && event.kind == self.kinds[slot] && event.ts > newest && event.ts <= until {
                bound.push(vec![*number]);
                self.grow(events, key, bound, found);
                bound.pop();
            }
        }
    }

    fn grow(
        &self,
        events: &BTreeMap<usize, Event>,
        key: usize,
        bound: &mut Vec<Vec<usize>>,
        found: &mut BTreeSet<Vec<Vec<usize>>>,
    ) {
        self.extend(events, key, bound, found);
        let place = bound.len() - 1;
        if !self.pattern.step(place).kleene {
            return;
        }
        let (newest, until) = (events[bound[place].last().unwrap()].ts, events[&bound[0][0]].ts + WITHIN);
        let kind = self.kinds[self.pattern.steps[place]];
        for (number, event) in events {
            if event.key == key && event.kind == kind && event.ts > newest && event.ts <= until {
                bound[place].push(*number);
                self.grow(events, key, bound, found);
                bound[place].pop();
            }
        }
    }

    fn stands(&self, events: &BTreeMap<usize, Event>, found: &[Vec<usize>], emitted: i64) -> bool {
        let ts = |number: Option<&usize>| events[number.unwrap()].ts;
        let (first, last) = (ts(found[0].first()), ts(found[found.len() - 1].last()));
        let holds = |condition: Condition, negative: Option<(usize, &Event)>| {
            let is_it = |slot: usize| negative.filter(|(negated, _)| *negated == slot);
            let count = |slot: usize| if is_it(slot).is_some() { 1 } else { found[slot].len() };
            condition
                .holds(count, |slot, at| is_it(slot).map_or_else(|| events[&found[slot][at]].value, |(_, event)| event.value))
        };
        let rules_out = |component: &Component, event: &Event| {
            let low = component.place.checked_sub(1).map_or(last - WITHIN, |before| ts(found[before].last()) + 1);
            let high = found.get(component.place).map_or(first + WITHIN, |next| ts(next.first()) - 1);
            (!component.is_keyed || event.key == events[&found[0][0]].key)
                && event.kind == self.kinds[component.slot]
                && (low..=high).contains(&event.ts)
                && component.conditions.iter().all(|at| holds(self.conditions[*at], Some((component.slot, event))))
        };
        let negations = || self.pattern.negations.iter().map(|slot| &self.pattern.components[*slot]);
        self.conditions[..self.positive].iter().all(|condition| holds(*condition, None))
            && (!self.pattern.trails || first + WITHIN <= emitted)
            && !negations().any(|component| events.values().any(|event| rules_out(component, event)))
    }
}

/// When conditions are due, as `detectors.sequence.strategies.construction` has it.
fn schedule(steps: &[Component], conditions: &[Condition], given: Option<usize>) -> Schedule {
    let count = steps.len();
    let mut known: Vec<usize> = given.filter(|place| !steps[*place].kleene).into_iter().collect();
    let mut waiting: Vec<usize> = (0..conditions.len()).collect();
    let (mut at, mut stepwise) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for place in (0..count).rev().filter(|place| !known.contains(place)).collect::<Vec<_>>() {
        if steps[place].kleene {
            (stepwise[place], waiting) = waiting.into_iter().partition(|at| conditions[*at] == Condition::Rising(place));
        }
        known.push(place);
        (at[place], waiting) =
            waiting.into_iter().partition(|at| conditions[*at].slots().iter().all(|slot| known.contains(slot)));
    }
    Schedule { at, stepwise }
}

/// Events lie in blocks of a step each.
struct Judging<'a> {
    query: &'a Query,
    all: &'a [Event],
    blocks: Blocks<Vec<usize>>,
}

#[derive(Debug)]
struct Failed;

impl From<TooLarge> for Failed {
    fn from(_: TooLarge) -> Self {
        Self
    }
}

impl Judging<'_> {
    fn number(&self, of: Instance) -> usize {
        self.blocks.get(of.block)[of.row as usize]
    }
}

impl Judge for Judging<'_> {
    type Failure = Failed;

    fn holds(
        &self,
        condition: usize,
        count: impl Fn(usize) -> usize,
        instance: impl Fn(usize, usize) -> Instance,
    ) -> Result<bool, Failed> {
        Ok(self.query.conditions[condition].holds(count, |slot, at| self.all[self.number(instance(slot, at))].value))
    }

    fn hold(&mut self, block: u32) {
        self.blocks.hold(block);
    }

    fn release(&mut self, block: u32) {
        self.blocks.release(block);
    }
}

/// Steps of changes: events that come and go, how far time has come, and up to where it is final.
struct Steps {
    all: Vec<Event>,
    steps: Vec<(Vec<usize>, Vec<usize>, i64, i64)>,
}

impl Steps {
    fn drawn(drawn: &mut Drawn) -> Self {
        let (mut all, mut steps, mut there) = (Vec::<Event>::new(), Vec::new(), Vec::<usize>::new());
        let (mut emitted, mut settled) = (0, -1);
        for _ in 0..25 {
            emitted += drawn.below(6) as i64;
            let mut gone = Vec::new();
            there.retain(|number| {
                let goes = all[*number].ts > settled && drawn.one_in(12);
                gone.extend(goes.then_some(*number));
                !goes
            });
            let mut come = Vec::new();
            for _ in 0..drawn.below(4) {
                let ts = settled + 1 + drawn.below((emitted - settled).max(1) as u64) as i64;
                come.push(all.len());
                all.push(Event { ts, kind: drawn.below(3), key: drawn.below(KEYS) as usize, value: drawn.below(4) });
            }
            there.extend(&come);
            steps.push((come, gone, emitted, settled));
            settled = settled.max(emitted - drawn.below(30) as i64);
        }
        Self { all, steps }
    }
}

#[test]
fn stacks_hold_the_matches_of_a_plain_search() {
    let mut matched = 0;
    for seed in 0..200 {
        let mut drawn = Drawn(seed);
        let (query, steps) = (Query::drawn(&mut drawn), Steps::drawn(&mut drawn));
        let pattern = &query.pattern;
        let mut judge = Judging { query: &query, all: &steps.all, blocks: Blocks::default() };
        let mut matching = Matching::new(pattern);
        for _ in 0..KEYS {
            matching.partitions.open(|| Partition::new(pattern.steps.len(), pattern.negations.len()));
        }
        let (mut found, mut identities) = (BTreeSet::new(), HashMap::new());
        let mut present = BTreeMap::<usize, Event>::new();
        for (come, gone, emitted, settled) in &steps.steps {
            matching.begin();
            for number in gone {
                let event = present.remove(number).unwrap();
                for slot in query.roles(&event) {
                    let component = &pattern.components[slot];
                    let partition = component.is_keyed.then_some(event.key as u32);
                    let is_it = |judge: &Judging<'_>, each| Ok(judge.number(each) == *number);
                    matching.retract(&mut judge, pattern, event.ts, component, partition, is_it).unwrap();
                }
            }
            let block = judge.blocks.open(come.clone());
            for (row, number) in come.iter().enumerate() {
                let event = steps.all[*number];
                present.insert(*number, event);
                for slot in query.roles(&event) {
                    let instance = Instance { ts: event.ts, block, row: row as u32 };
                    let partition = pattern.components[slot].is_keyed.then_some(event.key as u32);
                    matching.arrivals.of(slot).push(Arrived { instance, partition });
                }
            }
            matching.step(&mut judge, pattern, *emitted).unwrap();
            let numbers = |changes: &super::changes::Changes, at: usize| -> Vec<Vec<usize>> {
                (0..pattern.steps.len())
                    .map(|place| changes.place(at, place).iter().map(|each| judge.number(*each)).collect())
                    .collect()
            };
            let next = |identities: &HashMap<Vec<Vec<usize>>, i64>| identities.len() as i64;
            let identified = matching.changes.identify(|changes, at| {
                let new = next(&identities);
                Ok::<_, Infallible>(*identities.entry(numbers(changes, at)).or_insert(new))
            });
            let (Ok(()), (made, withdrawn, _)) = (identified, matching.changes.net());
            for at in withdrawn {
                assert!(found.remove(&numbers(&matching.changes, at)), "seed {seed}: it did not stand");
            }
            for at in made {
                assert!(found.insert(numbers(&matching.changes, at)), "seed {seed}: it stood before");
            }
            assert_eq!(found, query.matches(&present, *emitted), "seed {seed}");
            matching.purge(&mut judge, pattern, *settled, |_| Ok::<_, Failed>(())).unwrap();
            while matching.partitions.len() < KEYS as usize {
                matching.partitions.open(|| Partition::new(pattern.steps.len(), pattern.negations.len()));
            }
            judge.blocks.sweep();
            matching.check();
            judge.blocks.check(matching.held());
        }
        matched += identities.len();
    }
    assert!(matched > 1_000, "only {matched} matches were tried");
}

/// Conditions of runs, over the numbers of events.
struct RunJudging<'a> {
    query: &'a Query,
    all: &'a [Event],
}

impl RunJudge<usize> for RunJudging<'_> {
    type Failure = Infallible;

    fn holds<'e>(
        &self,
        condition: usize,
        count: impl Fn(usize) -> usize,
        entry: impl Fn(usize, usize) -> &'e Entry<usize>,
    ) -> Result<bool, Infallible> {
        Ok(self.query.conditions[condition].holds(count, |slot, at| self.all[entry(slot, at).event].value))
    }
}

/// A query of runs: which conditions are due as an event is taken, and once its group is complete.
fn rules(query: &Query, is_strict: bool) -> Rules {
    let steps = query.pattern.steps.len();
    let due = |place: usize| {
        let (mut taken, mut complete) = (Vec::new(), Vec::new());
        for (at, condition) in query.conditions[..query.positive].iter().enumerate() {
            match condition {
                Condition::Rising(slot) if *slot == place => taken.push(at),
                Condition::UpTo(one, other) if *one.max(other) == place => {
                    if query.pattern.step(place).kleene {
                        complete.push(at)
                    } else {
                        taken.push(at)
                    }
                }
                _ => {}
            }
        }
        Due { taken, complete }
    };
    Rules { dues: (0..steps).map(due).collect(), is_strict }
}

/// Runs over events, whose changes are the difference of what stands before and after.
struct Runs<'a> {
    query: &'a Query,
    all: &'a [Event],
    rules: Rules,
    running: Running<usize>,
}

impl<'a> Runs<'a> {
    fn new(query: &'a Query, all: &'a [Event], is_strict: bool) -> Self {
        let mut running = Running::default();
        for _ in 0..KEYS {
            running.partitions.open(Default::default);
        }
        Self { query, all, rules: rules(query, is_strict), running }
    }

    /// The partitions of an event, with its roles there.
    fn placed(&self, number: usize) -> Vec<(Option<usize>, Vec<usize>)> {
        let event = &self.all[number];
        let is_keyed = |slot: &usize| self.query.pattern.components[*slot].is_keyed;
        let (own, common): (Vec<_>, Vec<_>) = self.query.roles(event).into_iter().partition(is_keyed);
        let mut placed = Vec::new();
        if !own.is_empty() || self.rules.is_strict {
            placed.push((Some(event.key), own));
        }
        if !common.is_empty() {
            placed.push((None, common));
        }
        placed
    }

    /// The matches that are withdrawn, and the new ones.
    fn apply(&mut self, come: &[usize], gone: &[usize], emitted: i64) -> [BTreeSet<Vec<Vec<usize>>>; 2] {
        let pattern = &self.query.pattern;
        let leads = |slot: &usize| pattern.components[*slot].negation.is_some() && pattern.components[*slot].place == 0;
        let changed = |number: &usize| {
            let ts = self.all[*number].ts;
            let each = |(partition, roles): (_, Vec<usize>)| Changed { partition, ts, leads: roles.iter().any(leads) };
            self.placed(*number).into_iter().map(each).collect::<Vec<_>>()
        };
        let changes: Vec<Changed> = gone.iter().chain(come).flat_map(changed).collect();
        let touched = self.running.touched(pattern, changes.into_iter(), emitted);
        let before = self.matches(&touched);
        for number in gone {
            for (partition, _) in self.placed(*number) {
                let Ok(()) = self.running.remove(partition, self.all[*number].ts, |there| Ok::<_, Infallible>(there == number));
            }
        }
        for number in come {
            let ts = self.all[*number].ts;
            for (partition, roles) in self.placed(*number) {
                if pattern.trails && roles.contains(&pattern.steps[0]) {
                    self.running.wait(ts, partition.unwrap());
                }
                let roles = roles.into_iter().map(|slot| Role { slot, values: Box::new([Value::Null]) }).collect();
                let entry = Entry { ts, event: *number, roles, ended: AtomicI64::new(i64::MAX) };
                let Ok(()) = self.running.add(partition, entry, |one, other| Ok::<_, Infallible>(one < other));
            }
        }
        self.running.emitted = emitted;
        let after = self.matches(&touched);
        self.running.check();
        let without = |these: &Matches<usize>, those: &Matches<usize>| {
            these.without(those, |one, other| one == other).map(|(_, found)| found.clone()).collect()
        };
        [without(&before, &after), without(&after, &before)]
    }

    fn matches(&self, touched: &super::running::Touched) -> Matches<usize> {
        let mut found = Matches::default();
        let judge = RunJudging { query: self.query, all: self.all };
        let Ok(()) = self.running.matches(&judge, &self.query.pattern, &self.rules, touched, |places| {
            let numbers: Vec<Vec<usize>> = places.iter().map(|place| place.iter().map(|each| each.event).collect()).collect();
            let identity = numbers.iter().fold(7_i64, |hash, place| {
                place
                    .iter()
                    .fold(hash.wrapping_mul(31), |hash, number| hash.wrapping_mul(1_000_003).wrapping_add(*number as i64 + 1))
            });
            found.note(identity, numbers);
            Ok(())
        });
        found
    }
}

#[test]
fn runs_that_are_corrected_are_those_of_all_events_at_once() {
    let mut matched = 0;
    for seed in 0..200 {
        let mut drawn = Drawn(seed);
        let (query, steps, is_strict) = (Query::drawn(&mut drawn), Steps::drawn(&mut drawn), seed % 2 == 0);
        let mut runs = Runs::new(&query, &steps.all, is_strict);
        let (mut found, mut present) = (BTreeSet::new(), BTreeSet::new());
        for (come, gone, emitted, settled) in &steps.steps {
            let [withdrawn, made] = runs.apply(come, gone, *emitted);
            matched += made.len();
            assert!(withdrawn.iter().all(|each| found.remove(each)), "seed {seed}: it did not stand");
            assert!(made.into_iter().all(|each| found.insert(each)), "seed {seed}: it stood before");
            gone.iter().for_each(|number| assert!(present.remove(number)));
            present.extend(come.iter().copied());
            let all: Vec<usize> = present.iter().copied().collect();
            let [_, at_once] = Runs::new(&query, &steps.all, is_strict).apply(&all, &[], *emitted);
            assert_eq!(found, at_once, "seed {seed}");
            let every = query.matches(&present.iter().map(|number| (*number, steps.all[*number])).collect(), *emitted);
            assert!(found.is_subset(&every), "seed {seed}: no match of any kind");
            let Ok(()) = runs.running.purge(&query.pattern, *settled, |_| Ok::<_, Infallible>(()));
            while runs.running.partitions.len() < KEYS as usize {
                runs.running.partitions.open(Default::default);
            }
        }
    }
    assert!(matched > 500, "only {matched} matches were tried");
}

#[test]
fn contiguity_ends_runs_at_what_fits_no_step() {
    let component =
        |place, kleene| Component { slot: place, place, kleene, negation: None, is_keyed: true, conditions: vec![] };
    let components = vec![component(0, false), component(1, true)];
    let schedules = (0..3).map(|_| Schedule { at: vec![vec![]; 2], stepwise: vec![vec![]; 2] }).collect();
    let pattern = Pattern::new(components, schedules, WITHIN, WITHIN, false);
    let query = Query { pattern, conditions: vec![], positive: 0, kinds: vec![0, 1] };
    let kinds = [0, 1, 2, 1, 0, 1];
    let all: Vec<Event> = (1..).zip(kinds).map(|(ts, kind)| Event { ts, kind, key: 0, value: 0 }).collect();
    let found = |is_strict| Runs::new(&query, &all, is_strict).apply(&[0, 1, 2, 3, 4, 5], &[], 6)[1].clone();
    let of = |groups: &[(usize, &[usize])]| groups.iter().map(|(first, group)| vec![vec![*first], group.to_vec()]).collect();
    assert_eq!(found(true), of(&[(0, &[1]), (4, &[5])]));
    assert_eq!(found(false), of(&[(0, &[1]), (0, &[1, 3]), (0, &[1, 3, 5]), (4, &[5])]));
}
