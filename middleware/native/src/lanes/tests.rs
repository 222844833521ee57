//! A lane against a detector that is given all events that stand, in order.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashMap;

use super::emission::Pending;
use super::lane::Lane;
use super::replay::Corrected;
use super::runs::{Counted, Kind, Runs};
use crate::drawing::Drawn;
use crate::event::order::TotalOrder;

/// Time, what decides among those of one time, and a value.
type Event = (i64, u64, u64);

#[derive(Debug, PartialEq)]
enum Fault {
    OfDetector,
    Ending,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Published {
    Results(Event, u64),
    Failed(Event),
    LeftOut(Event),
}

/// Adds values up, so that what differs is often the same again a few events later; fails in the midst of some events.
#[derive(Default)]
struct Machine {
    sum: Cell<u64>,
    is_stopped: bool,
}

impl Machine {
    fn run(&self, (_, _, value): Event) -> Result<Option<u64>, Fault> {
        let before = self.sum.get();
        self.sum.set(99); // a failure leaves it anywhere
        match value {
            13 => return Err(Fault::OfDetector),
            14 => return Err(Fault::Ending),
            _ if value.is_multiple_of(4) => self.sum.set(0),
            _ => self.sum.set((before + value) % 5),
        }
        Ok((!self.sum.get().is_multiple_of(3)).then(|| self.sum.get()))
    }
}

struct Machines;

impl Kind for Machines {
    type Entry = Event;
    type Detector = Machine;
    type State = Option<u64>;
    type Published = Published;
    type Reason = &'static str;
    type Failure = Fault;

    fn ts(event: &Event) -> i64 {
        event.0
    }

    fn same_event(one: &Event, other: &Event) -> bool {
        one == other
    }
}

#[derive(Clone, Copy)]
struct InOrder;

impl TotalOrder<Event> for InOrder {
    type Failure = Fault;

    fn ts(self, event: &Event) -> i64 {
        event.0
    }

    fn compare(self, one: &Event, other: &Event) -> Result<Ordering, Fault> {
        Ok((one.0, one.1).cmp(&(other.0, other.1)))
    }

    fn untie(self, mut tied: Vec<Event>) -> Result<Vec<Event>, Fault> {
        tied.sort_by_key(|event| event.1);
        tied.dedup_by_key(|event| event.1);
        Ok(tied)
    }
}

struct Running {
    spacing: usize,
    stops_on_error: bool,
    retracts_all: bool,
    is_plain: bool,
    counts: Cell<HashMap<Counted, u64>>,
    reported: Vec<Published>,
    forgotten: Vec<Published>,
}

impl Running {
    fn drawn(drawn: &mut Drawn) -> Self {
        Self {
            spacing: 1 + drawn.below(6) as usize,
            stops_on_error: drawn.one_in(4),
            retracts_all: drawn.one_in(4),
            is_plain: drawn.one_in(2),
            counts: Cell::default(),
            reported: Vec::new(),
            forgotten: Vec::new(),
        }
    }
}

impl Runs<Machines> for Running {
    type Order = InOrder;

    fn order(&self) -> InOrder {
        InOrder
    }

    fn spacing(&self) -> usize {
        self.spacing
    }

    fn stops_on_error(&self) -> bool {
        self.stops_on_error
    }

    fn retracts_all(&self) -> bool {
        self.retracts_all
    }

    fn count(&self, what: Counted, number: u64) {
        let mut counts = self.counts.take();
        *counts.entry(what).or_default() += number;
        self.counts.set(counts);
    }

    fn entry_again(&self, event: &Event) -> Event {
        *event
    }

    fn published_again(&self, published: &Published) -> Published {
        published.clone()
    }

    fn state_again(&self, state: &Option<u64>) -> Option<u64> {
        *state
    }

    fn run(&mut self, machine: &Machine, event: &Event) -> Result<Option<Published>, Fault> {
        assert!(!machine.is_stopped);
        Ok(machine.run(*event)?.map(|sum| Published::Results(*event, sum)))
    }

    fn rehearse(&mut self, machine: &Machine, event: &Event) -> Result<(), Fault> {
        if machine.is_stopped { Ok(()) } else { machine.run(*event).map(|_| ()) }
    }

    fn is_stopped(&self, machine: &Machine) -> bool {
        machine.is_stopped
    }

    fn stop(&self, machine: &mut Machine) {
        machine.is_stopped = true;
    }

    fn state(&self, machine: &Machine) -> Result<Option<u64>, Fault> {
        Ok((!machine.is_stopped).then(|| machine.sum.get()))
    }

    fn stopped(&self) -> Option<u64> {
        None
    }

    fn restore(&self, machine: &mut Machine, state: &Option<u64>) -> Result<(), Fault> {
        machine.is_stopped = state.is_none();
        machine.sum.set(state.unwrap_or(77));
        Ok(())
    }

    fn same_state(&self, one: &Option<u64>, other: &Option<u64>) -> Result<bool, Fault> {
        Ok(one == other)
    }

    fn is_plain(&self, state: &Option<u64>) -> bool {
        self.is_plain && state.is_some()
    }

    fn note_again(&self, machine: &Machine, state: &mut Option<u64>) -> Result<bool, Fault> {
        let can = self.is_plain && !machine.is_stopped && state.is_some();
        if can {
            *state = Some(machine.sum.get());
        }
        Ok(can)
    }

    fn is_plainly_at(&self, machine: &Machine, state: &Option<u64>) -> Result<Option<bool>, Fault> {
        let is_plain = self.is_plain && !machine.is_stopped && state.is_some();
        Ok(is_plain.then(|| *state == Some(machine.sum.get())))
    }

    fn is_failure(&self, error: &Fault) -> bool {
        *error == Fault::OfDetector
    }

    fn reason(&self, _: Fault) -> Result<&'static str, Fault> {
        Ok("it failed")
    }

    fn failure(&self, event: &Event, _: &&'static str) -> Result<Published, Fault> {
        Ok(Published::Failed(*event))
    }

    fn left_out(&self, event: &Event) -> Result<Published, Fault> {
        Ok(Published::LeftOut(*event))
    }

    fn report(&mut self, failure: Published) {
        self.reported.push(failure);
    }

    fn forget(&mut self, published: Published) -> Result<(), Fault> {
        self.forgotten.push(published);
        Ok(())
    }
}

/// The results of a detector over events in order, and its state then.
fn plainly(events: &[Event], stops_on_error: bool) -> (Vec<Published>, Option<u64>) {
    let (machine, mut published, mut is_stopped) = (Machine::default(), Vec::new(), false);
    for event in events {
        let before = machine.sum.get();
        if is_stopped {
            published.push(Published::LeftOut(*event));
            continue;
        }
        match machine.run(*event) {
            Ok(sum) => published.extend(sum.map(|sum| Published::Results(*event, sum))),
            Err(_) => {
                machine.sum.set(before);
                is_stopped = stops_on_error;
                published.push(Published::Failed(*event));
            }
        }
    }
    (published, (!is_stopped).then(|| machine.sum.get()))
}

fn is_result(published: &&Published) -> bool {
    matches!(published, Published::Results(..))
}

/// The results as a reader knows them from the changes.
#[derive(Default)]
struct Downstream(Vec<Published>);

impl Downstream {
    fn insert(&mut self, published: &[Published]) {
        self.0.extend(published.iter().filter(is_result).cloned());
    }

    fn withdraw(&mut self, published: &[Published]) {
        for gone in published.iter().filter(is_result) {
            let at = self.0.iter().position(|there| there == gone).expect("it was published");
            self.0.swap_remove(at);
        }
    }
}

/// Events come ahead and behind, and are withdrawn; now and then what is final is forgotten.
fn run(seed: u64, total: &mut HashMap<Counted, u64>) {
    let mut drawn = Drawn(seed);
    let mut runs = Running::drawn(&mut drawn);
    let fails = drawn.one_in(2);
    let mut lane = Lane::<Machines>::new(Machine::default(), Some(0));
    let (mut present, mut downstream) = (Vec::<Event>::new(), Downstream::default());
    let (mut newest, mut settled, mut unknown, mut duplicates) = (0, -1, 0, 0);
    for _ in 0..40 {
        let mut pending = Pending { lane: 0, behind: Vec::new(), gone: Vec::new() };
        for _ in 0..drawn.below(3) {
            let open: Vec<usize> = (0..present.len()).filter(|at| present[*at].0 > settled).collect();
            if open.is_empty() || drawn.one_in(9) {
                pending.gone.push((newest + 100, 0, 0));
                unknown += 1;
            } else {
                let chosen = open[drawn.below(open.len() as u64) as usize];
                pending.gone.push(present.remove(chosen));
            }
            lane.wait_for(0);
        }
        pending.gone.dedup_by(|one, other| {
            let is_same = (one.0, one.1) == (other.0, other.1);
            unknown -= u64::from(is_same && one.0 > newest + 99);
            is_same
        });
        for _ in 0..drawn.below(6) {
            let ts = if drawn.one_in(3) { newest + drawn.below(3) as i64 } else { settled + 1 + drawn.below(12) as i64 };
            let value = if fails && drawn.one_in(10) { 13 } else { drawn.below(9) };
            let event = (ts.max(settled + 1), drawn.below(3), value);
            newest = newest.max(event.0);
            let place = present.binary_search_by_key(&(event.0, event.1), |there| (there.0, there.1));
            if event.0 > lane.last {
                let published = lane.advance(event, settled, &mut runs).unwrap();
                downstream.insert(published.as_slice());
            } else {
                pending.behind.push(event);
                lane.wait_for(0);
            }
            match place {
                Ok(_) => duplicates += 1, // what was there first stays
                Err(place) => present.insert(place, event),
            }
        }
        if lane.pending.is_some() {
            lane.settle();
            match lane.correct(pending, &mut runs).unwrap() {
                Corrected::Added(known) => {
                    let published: Vec<_> = lane.records[known..].iter().map(|record| record.published.clone()).collect();
                    downstream.insert(&published);
                }
                Corrected::Replaced(old, cut) => {
                    downstream.withdraw(&old);
                    let published: Vec<_> = lane.records[cut..].iter().map(|record| record.published.clone()).collect();
                    downstream.insert(&published);
                }
            }
            lane.trim(settled, &mut runs).unwrap();
        }
        if drawn.one_in(4) {
            settled = settled.max(newest - 2 - drawn.below(15) as i64);
            lane.purge(settled, &mut runs).unwrap();
        }
        assert_eq!(lane.fault(InOrder), Ok(None), "seed {seed}");
        let (expected, state) = plainly(&present, runs.stops_on_error);
        let records: Vec<_> = lane.records.iter().map(|record| record.published.clone()).collect();
        assert!(expected.ends_with(&records), "seed {seed}: {records:?} of {expected:?}");
        assert_eq!(runs.forgotten.len() + runs.reported.len() + records.len(), expected.len(), "seed {seed}");
        assert_eq!(lane.state(&mut runs), Ok(state), "seed {seed}");
        let mut results: Vec<_> = expected.iter().filter(is_result).cloned().collect();
        results.sort();
        downstream.0.sort();
        assert_eq!(downstream.0, results, "seed {seed}");
    }
    let counts = runs.counts.take();
    assert_eq!(counts.get(&Counted::Unknown).copied().unwrap_or_default(), unknown, "seed {seed}");
    assert_eq!(counts.get(&Counted::Duplicates).copied().unwrap_or_default(), duplicates, "seed {seed}");
    counts.into_iter().for_each(|(what, number)| *total.entry(what).or_default() += number);
}

#[test]
fn a_corrected_lane_is_one_that_was_given_all_in_order() {
    let mut total = HashMap::new();
    for seed in 0..600 {
        run(seed, &mut total);
    }
    for what in [Counted::Rollbacks, Counted::Stops, Counted::Snapshots, Counted::Failures, Counted::LeftOut] {
        assert!(total[&what] > 500, "{what:?}: {total:?}");
    }
}

#[test]
fn an_error_that_is_no_failure_ends_the_run() {
    let mut runs = Running::drawn(&mut Drawn(1));
    let mut lane = Lane::<Machines>::new(Machine::default(), Some(0));
    assert_eq!(lane.advance((1, 0, 14), -1, &mut runs), Err(Fault::Ending));
}
