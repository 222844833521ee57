//! Skip-till-next-match and strict contiguity over changes that come in any order; `tests.oracles.sequence_runs` says
//! what it means.

use std::cmp::Reverse;
use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::entries::{Entries, Entry, Role};
use super::identity::Encoder;
use super::partitions::{Content, Key, Partitions};
use super::plan::{Component, Plan};
use crate::event::python::fields::Stamps;
use crate::expr::value::Value;
use crate::hashing::Scattered;

/// Conditions to check when an event is taken for a place, and when the group of a place is complete.
struct Due {
    taken: Vec<usize>,
    complete: Vec<usize>,
}

/// The places of a match, or of the beginning of one: which entries they are, several for a Kleene step.
type Taken = Vec<Vec<usize>>;

/// The events of a match that stands, by place.
type Match = Vec<Vec<Py<PyAny>>>;

/// Times of first events whose runs may change (both ends included), and the first time at which something changes.
struct Range {
    first: i64,
    last: i64,
    from: i64,
}

/// The state of a query with one of these two strategies.
#[pyclass(module = "middleware.native")]
pub struct SequenceRuns {
    plan: Arc<Plan>,
    dues: Vec<Due>,
    is_strict: bool,
    partitions: Partitions<Entries>,
    /// Negatives that belong to all partitions.
    common: Entries,
    /// First events of matches that wait for their window to pass: time and partition.
    starts: BinaryHeap<Reverse<(i64, usize)>>,
    emitted: i64,
    swept: i64,
    held: usize,
    fail: Py<PyAny>,
    encoder: Encoder,
}

/// An event in a partition (None: all), in its roles there.
struct Placed<'py> {
    partition: Option<usize>,
    ts: i64,
    event: Bound<'py, PyAny>,
    roles: Vec<Role>,
}

#[pymethods]
impl SequenceRuns {
    #[new]
    fn new(plan: &Bound<'_, PyAny>, fail: Py<PyAny>) -> PyResult<Self> {
        let dues: Vec<(Vec<usize>, Vec<usize>)> = plan.get_item("dues")?.extract()?;
        Ok(Self {
            dues: dues.into_iter().map(|(taken, complete)| Due { taken, complete }).collect(),
            is_strict: plan.get_item("strict")?.extract()?,
            partitions: Partitions::new(plan.py(), Entries::default),
            plan: Arc::new(Plan::parse(plan)?),
            common: Entries::default(),
            starts: BinaryHeap::new(),
            emitted: i64::MIN / 2,
            swept: i64::MIN / 2,
            held: 0,
            fail,
            encoder: Encoder::default(),
        })
    }

    /// Take changes and time; the results of matches that stand now, and of those that stood before: events, or rows of their
    /// fields.
    fn apply<'py>(
        &mut self,
        py: Python<'py>,
        inserts: &Bound<'py, PyList>,
        retracts: &Bound<'py, PyList>,
        emitted: i64,
        r#final: i64,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let plan = Arc::clone(&self.plan);
        let gone = self.placed(&plan, retracts, false)?;
        let come = self.placed(&plan, inserts, true)?;
        let touched = self.touched(&plan, gone.iter().chain(&come), emitted);
        let before = self.matches(py, &plan, &touched)?;
        for each in gone {
            let entries = self.entries(each.partition);
            self.held -= usize::from(entries.remove(each.ts, &each.event)?);
        }
        for each in come {
            if let Some(number) = each.partition
                && plan.trails
                && each.roles.iter().any(|role| role.slot == plan.steps[0])
            {
                self.starts.push(Reverse((each.ts, number)));
            }
            let entry = Entry { ts: each.ts, event: each.event.unbind(), roles: each.roles, ended: AtomicI64::new(i64::MAX) };
            self.entries(each.partition).add(py, entry)?;
            self.held += 1;
        }
        self.emitted = emitted;
        let after = self.matches(py, &plan, &touched)?;
        let rows = |these: &Matches, those: &Matches| {
            let changed =
                these.all.iter().filter(|(identity, found)| those.find(*identity).is_none_or(|other| !same(found, other)));
            let rows = changed.map(|(identity, found)| result(py, &plan, found, *identity)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, rows)
        };
        let (made, withdrawn) = (rows(&after, &before)?, rows(&before, &after)?);
        let upto = r#final.saturating_sub(plan.reach);
        if upto > self.swept {
            self.held -= self.partitions.purge(py, upto, &mut ())? + self.common.purge(upto, &mut ());
            self.swept = upto.saturating_add(plan.within / 4);
        }
        Ok((made, withdrawn))
    }

    /// Events kept, once for each partition.
    #[getter]
    fn held(&self) -> usize {
        self.held
    }

    #[getter]
    fn keys(&self) -> usize {
        self.partitions.len()
    }

    /// Every event held.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let held = self.partitions.iter().chain([&self.common]).flat_map(|entries| &entries.0);
        PyList::new(py, held.map(|each| each.event.bind(py)).collect::<Vec<_>>())
    }

    fn check(&self) {
        let all: Vec<_> = self.partitions.iter().chain([&self.common]).collect();
        assert!(all.iter().all(|each| each.0.is_sorted_by_key(|entry| entry.ts)), "out of order");
        assert_eq!(self.held, all.iter().map(|each| each.0.len()).sum::<usize>(), "held is off");
    }
}

impl SequenceRuns {
    fn entries(&mut self, partition: Option<usize>) -> &mut Entries {
        match partition {
            Some(number) => self.partitions.get_mut(number).expect("it was found before"),
            None => &mut self.common,
        }
    }

    /// Events with their partitions, which are made if need be, and their roles there.
    fn placed<'py>(&mut self, plan: &Plan, events: &Bound<'py, PyList>, make: bool) -> PyResult<Vec<Placed<'py>>> {
        let mut placed: Vec<Placed<'py>> = Vec::with_capacity(events.len());
        for event in events {
            let begun = placed.len();
            match self.roles(plan, &event) {
                Err(error) if error.is_instance_of::<PyTypeError>(event.py()) => {
                    let reason = format!("no key can be made of it: {}", error.value(event.py()));
                    self.fail.bind(event.py()).call1((event, reason))?;
                }
                Err(error) => return Err(error),
                Ok(found) => {
                    let ts = Stamps::get(event.py())?.ts(&event)?;
                    for (key, role) in found {
                        let partition = match key {
                            None => None,
                            Some(key) if make => Some(self.partitions.find_or_make(key)?),
                            Some(key) => match self.partitions.find(&key)? {
                                None => continue,
                                there => there,
                            },
                        };
                        match placed[begun..].iter_mut().find(|each| each.partition == partition) {
                            Some(each) => each.roles.extend(role),
                            None => {
                                placed.push(Placed { partition, ts, event: event.clone(), roles: role.into_iter().collect() })
                            }
                        }
                    }
                }
            }
        }
        Ok(placed)
    }

    /// The keys of an event (None: it belongs to all partitions), each with a role, if it fits that. Raises TypeError if a key
    /// cannot be hashed.
    fn roles<'py>(&self, plan: &Plan, event: &Bound<'py, PyAny>) -> PyResult<Vec<(Option<Key<'py>>, Option<Role>)>> {
        let mut found = Vec::new();
        for slot in plan.roles_of(&event.get_type()) {
            let component = &plan.components[*slot];
            let mut key = None;
            if let Some(fields) = &component.key {
                let lenient = plan.steps.len() == 1 && component.negation.is_none();
                key = Key::of(event.py(), fields.iter().map(|field| field.of(event)), lenient)?;
                let Some(known) = &key else { continue };
                self.partitions.find(known)?; // raises if it cannot be hashed
            }
            let role = Role::of(plan, component, event)?;
            if role.is_some() || (self.is_strict && key.is_some()) {
                found.push((key, role));
            }
        }
        Ok(found)
    }

    /// For each partition, the times of first events whose runs may change.
    fn touched<'a, 'py: 'a>(
        &mut self,
        plan: &Plan,
        changes: impl Iterator<Item = &'a Placed<'py>>,
        emitted: i64,
    ) -> BTreeMap<usize, Vec<Range>> {
        let leads = |role: &Role| plan.components[role.slot].negation.is_some() && plan.components[role.slot].place == 0;
        let mut touched: BTreeMap<usize, Vec<Range>> = BTreeMap::new();
        for each in changes {
            let (ts, leads) = (each.ts, each.roles.iter().any(leads));
            let last = if leads { ts.saturating_add(plan.within) } else { ts };
            for number in each.partition.map_or_else(|| self.partitions.numbers(), |number| vec![number]) {
                touched.entry(number).or_default().push(Range { first: ts.saturating_sub(plan.within), last, from: ts });
            }
        }
        while let Some(Reverse((ts, number))) = self.starts.peek().copied()
            && ts <= emitted.saturating_sub(plan.within)
        {
            self.starts.pop();
            touched.entry(number).or_default().push(Range { first: ts, last: ts, from: ts });
        }
        touched.into_iter().map(|(number, ranges)| (number, merged(ranges))).collect()
    }

    /// The matches that stand now, of the runs that began at these times and do not end before anything changes.
    fn matches(&mut self, py: Python<'_>, plan: &Plan, touched: &BTreeMap<usize, Vec<Range>>) -> PyResult<Matches> {
        let mut found = Matches::default();
        for (number, ranges) in touched {
            let Some(entries) = self.partitions.get(*number) else { continue };
            let view = View { py, plan, dues: &self.dues, is_strict: self.is_strict, entries, common: &self.common };
            for range in ranges {
                for at in entries.below(range.first)..entries.below(range.last.saturating_add(1)) {
                    let first = &entries.0[at];
                    let is_over = !plan.trails && first.ended.load(Relaxed) < range.from;
                    let waits = plan.trails && first.ts > self.emitted.saturating_sub(plan.within);
                    if is_over || waits || first.role(plan.steps[0]).is_none() {
                        continue;
                    }
                    for each in view.standing(at)? {
                        found.note(identity(py, plan, &each, &mut self.encoder)?, each);
                    }
                }
            }
        }
        Ok(found)
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
#[derive(Default)]
struct Matches {
    all: Vec<(i64, Match)>,
    places: Scattered<i64, usize>,
}

impl Matches {
    fn note(&mut self, identity: i64, found: Match) {
        if let Slot::Vacant(free) = self.places.entry(identity) {
            free.insert(self.all.len());
            self.all.push((identity, found));
        }
    }

    fn find(&self, identity: i64) -> Option<&Match> {
        self.places.get(&identity).map(|at| &self.all[*at].1)
    }
}

/// Whether two matches with the same identity hold the same event objects: equal ones may differ in a zero's sign.
fn same(one: &Match, other: &Match) -> bool {
    one.iter().flatten().map(Py::as_ptr).eq(other.iter().flatten().map(Py::as_ptr))
}

/// A partition, with all that says what its runs come to.
struct View<'a, 'py> {
    py: Python<'py>,
    plan: &'a Plan,
    dues: &'a [Due],
    is_strict: bool,
    entries: &'a Entries,
    common: &'a Entries,
}

impl<'py> View<'_, 'py> {
    /// The matches of the run that begins with an entry which no negative rules out.
    fn standing(&self, start: usize) -> PyResult<Vec<Match>> {
        let mut found = Vec::new();
        let ended = self.run(start, &mut |bound| {
            for slot in &self.plan.negations {
                if self.is_ruled_out(&self.plan.components[*slot], bound)? {
                    return Ok(());
                }
            }
            let events = |at: &usize| self.entries.0[*at].event.clone_ref(self.py);
            found.push(bound.iter().map(|group| group.iter().map(events).collect()).collect());
            Ok(())
        })?;
        self.entries.0[start].ended.store(ended, Relaxed);
        Ok(found)
    }

    /// Runs from an entry on: at most one match, or one for each event of a final Kleene step. Returns the time of the entry
    /// at which it stops.
    fn run(&self, start: usize, complete: &mut impl FnMut(&Taken) -> PyResult<()>) -> PyResult<i64> {
        let (entries, last) = (&self.entries.0, self.plan.steps.len() - 1);
        let first = entries[start].ts;
        let until = first.saturating_add(self.plan.within);
        let ends = !self.plan.step(last).kleene;
        let mut bound: Taken = vec![vec![start]];
        if !self.hold(&self.dues[0].taken, &bound, None)? {
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
            } else if self.is_strict {
                return Ok(entry.ts);
            }
        }
        Ok(until)
    }

    /// Take an entry for the next step if it fits that, else into the current group; whether it was taken.
    fn takes(&self, bound: &mut Taken, at: usize) -> PyResult<bool> {
        let (place, entry) = (bound.len() - 1, &self.entries.0[at]);
        if let Some(next) = self.plan.steps.get(place + 1)
            && entry.role(*next).is_some()
            && self.hold(&self.dues[place].complete, bound, None)?
        {
            bound.push(vec![at]);
            if self.hold(&self.dues[place + 1].taken, bound, None)? {
                return Ok(true);
            }
            bound.pop();
        }
        if self.plan.step(place).kleene && entry.role(self.plan.steps[place]).is_some() {
            let pair = [*bound[place].last().expect("a group has events"), at];
            if self.hold(&self.dues[place].taken, bound, Some((place, &pair)))? {
                bound[place].push(at);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn completed(&self, bound: &Taken, complete: &mut impl FnMut(&Taken) -> PyResult<()>) -> PyResult<()> {
        let last = self.dues.last().expect("there is a step");
        if self.hold(&last.complete, bound, None)? { complete(bound) } else { Ok(()) }
    }

    /// Whether conditions hold; `pair`: a place whose group is to be taken as these two entries.
    fn hold(&self, conditions: &[usize], bound: &Taken, pair: Option<(usize, &[usize])>) -> PyResult<bool> {
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
        negative: Option<(usize, &Entry)>,
    ) -> PyResult<bool> {
        let (py, plan) = (self.py, self.plan);
        let of = |slot: usize| items(plan.components[slot].place);
        let value = |slot, at: usize, number: usize| {
            let entry = match negative {
                Some((negated, entry)) if negated == slot => entry,
                _ => &self.entries.0[of(slot)[number]],
            };
            entry.role(slot).map_or(Value::Other, |values| values[at].clone())
        };
        let part = |slot: usize| {
            if let Some((negated, entry)) = negative
                && negated == slot
            {
                return Ok(entry.event.bind(py).clone());
            }
            let mut events = of(slot).iter().map(|at| self.entries.0[*at].event.bind(py));
            if plan.components[slot].kleene {
                return Ok(PyTuple::new(py, events.collect::<Vec<_>>())?.into_any());
            }
            Ok(events.next().expect("a place has an event").clone())
        };
        for number in conditions {
            if !plan.conditions[*number].holds(py, |slot| of(slot).len(), value, part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_ruled_out(&self, component: &Component, bound: &Taken) -> PyResult<bool> {
        let ts = |at: Option<&usize>| self.entries.0[*at.expect("a place has an event")].ts;
        let last = bound.len() - 1;
        let low = match component.place.checked_sub(1) {
            Some(before) => ts(bound[before].last()) + 1,
            None => ts(bound[last].last()).saturating_sub(self.plan.within),
        };
        let high = match bound.get(component.place) {
            Some(next) => ts(next.first()) - 1,
            None => ts(bound[0].first()).saturating_add(self.plan.within),
        };
        let among = if component.key.is_none() { self.common } else { self.entries };
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

/// The identity of a match, as `Origin.id` has it.
fn identity(py: Python<'_>, plan: &Plan, found: &Match, encoder: &mut Encoder) -> PyResult<i64> {
    encoder.clear();
    encoder.array(found.len());
    for (place, part) in found.iter().enumerate() {
        if plan.step(place).kleene {
            encoder.array(part.len());
        }
        for event in part {
            encoder.event(event.bind(py))?;
        }
    }
    Ok(encoder.hash(plan.seed))
}

/// The result of a match, or the row of its fields.
fn result(py: Python<'_>, plan: &Plan, found: &Match, identity: i64) -> PyResult<Py<PyAny>> {
    let mut row: Vec<Bound<'_, PyAny>> = Vec::with_capacity(plan.plain.as_ref().map_or(0, Vec::len) + Stamps::COUNT);
    if let Some(fields) = &plan.plain {
        for each in fields {
            row.push(each.field.of(found[each.place][0].bind(py))?);
        }
    } else {
        let part = |(place, events): (usize, &Vec<Py<PyAny>>)| match &events[..] {
            [event] if !plan.step(place).kleene => Ok(event.bind(py).clone()),
            events => Ok(PyTuple::new(py, events.iter().map(|event| event.bind(py)))?.into_any()),
        };
        let parts = found.iter().enumerate().map(part).collect::<PyResult<Vec<_>>>()?;
        row.extend(plan.values.bind(py).call1(PyTuple::new(py, parts)?)?.cast::<PyTuple>()?.iter());
    }
    let time =
        |event: Option<&Py<PyAny>>| -> PyResult<i64> { Stamps::get(py)?.ts(event.expect("a match has events").bind(py)) };
    let ts =
        if plan.trails { time(found[0].first())?.saturating_add(plan.within) } else { time(found[found.len() - 1].last())? };
    plan.result(py, row, ts, identity)
}
