//! The interface of lanes to a detector and its events: the other modules know neither.

use crate::event::order::TotalOrder;

/// The types of what lanes hold.
pub trait Kind {
    type Entry;
    type Detector;
    type State;
    /// The results of one event, or its failure.
    type Published;
    /// Why something failed, in words.
    type Reason;
    type Failure;

    fn ts(entry: &Self::Entry) -> i64;

    /// Whether both are one event, not only equal ones.
    fn same_event(one: &Self::Entry, other: &Self::Entry) -> bool;
}

/// The counts of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counted {
    Rollbacks,
    Stops,
    Snapshots,
    Failures,
    LeftOut,
    Duplicates,
    Unknown,
}

/// Runs the detectors of lanes, one call of a unit at a time.
pub trait Runs<K: Kind> {
    type Order: TotalOrder<K::Entry, Failure = K::Failure>;

    fn order(&self) -> Self::Order;

    /// Events of a lane between two snapshots.
    fn spacing(&self) -> usize;

    fn stops_on_error(&self) -> bool;

    /// Whether old results are withdrawn as a whole, not only where new ones differ.
    fn retracts_all(&self) -> bool;

    fn count(&self, what: Counted, number: u64);

    fn entry_again(&self, entry: &K::Entry) -> K::Entry;

    fn published_again(&self, published: &K::Published) -> K::Published;

    fn state_again(&self, state: &K::State) -> K::State;

    /// Run an event; what is published, if anything is.
    fn run(&mut self, detector: &K::Detector, entry: &K::Entry) -> Result<Option<K::Published>, K::Failure>;

    /// Run an event again whose results are known and stand.
    fn rehearse(&mut self, detector: &K::Detector, entry: &K::Entry) -> Result<(), K::Failure>;

    fn is_stopped(&self, detector: &K::Detector) -> bool;

    fn stop(&self, detector: &mut K::Detector);

    fn state(&self, detector: &K::Detector) -> Result<K::State, K::Failure>;

    /// The state of a detector that is stopped.
    fn stopped(&self) -> K::State;

    fn restore(&self, detector: &mut K::Detector, state: &K::State) -> Result<(), K::Failure>;

    /// Whether a detector goes the same way from both.
    fn same_state(&self, one: &K::State, other: &K::State) -> Result<bool, K::Failure>;

    /// Whether a state is copied in no time.
    fn is_plain(&self, state: &K::State) -> bool;

    /// Note the state in place of a former one; false where that takes more than to take up its values: the former one is lost then.
    fn note_again(&self, detector: &K::Detector, state: &mut K::State) -> Result<bool, K::Failure>;

    /// Whether a detector is in a state; None where that takes a copy of its own.
    fn is_plainly_at(&self, detector: &K::Detector, state: &K::State) -> Result<Option<bool>, K::Failure>;

    /// Whether an error is a failure of a detector's code. Others end the run.
    fn is_failure(&self, error: &K::Failure) -> bool;

    /// A failure in words.
    fn reason(&self, error: K::Failure) -> Result<K::Reason, K::Failure>;

    /// The record of an event at which something failed.
    fn failure(&self, entry: &K::Entry, reason: &K::Reason) -> Result<K::Published, K::Failure>;

    /// The record of an event that came when the detector had stopped.
    fn left_out(&self, entry: &K::Entry) -> Result<K::Published, K::Failure>;

    /// A failure has become final.
    fn report(&mut self, failure: K::Published);

    /// Results have become final.
    fn forget(&mut self, published: K::Published) -> Result<(), K::Failure>;
}
