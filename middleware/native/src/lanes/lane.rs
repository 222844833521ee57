//! A lane: one detector with the events it was given, what it published, and snapshots to go back to.
//!
//! Positions count in the history, which is in strict total order. The causes of records are events of the history, in its
//! order. That holds at all times, whatever a detector raises.

use std::cmp::Ordering;

use crate::event::order::{NEVER, TotalOrder, place_of};
use crate::event::search::partition;
use crate::lanes::runs::{Counted, Kind, Runs};
use crate::lanes::snapshots::Snapshots;

/// In order, a lane looks after so many events whether it may forget some.
const FEW: usize = 16;

/// The results that the detector derived from one event, or the failure at it.
pub struct Record<K: Kind> {
    pub cause: K::Entry,
    pub published: K::Published,
    pub is_failure: bool,
}

/// An error comes with the position of its event.
type Rehearsed<K> = Result<(), (usize, <K as Kind>::Failure)>;

pub struct Lane<K: Kind> {
    pub detector: K::Detector,
    pub history: Vec<K::Entry>,
    pub records: Vec<Record<K>>,
    pub snapshots: Snapshots<K::State>,
    /// Why the detector's state could not be copied.
    pub broken: Option<K::Reason>,
    /// Later events are in order: the time stamp of the last event, or the end of time where work is pending.
    pub last: i64,
    /// The number of the work that waits for this lane in the present call.
    pub pending: Option<usize>,
    /// The number of the call in which it last published in order.
    pub published_in: u64,
}

impl<K: Kind> Lane<K> {
    pub fn new(detector: K::Detector, initial: K::State) -> Self {
        Self {
            detector,
            history: Vec::new(),
            records: Vec::new(),
            snapshots: Snapshots::new(initial),
            broken: None,
            last: NEVER,
            pending: None,
            published_in: 0,
        }
    }

    /// Take the next event in order; returns what is published, if anything is.
    #[inline]
    pub fn advance<R: Runs<K>>(
        &mut self,
        entry: K::Entry,
        settled: i64,
        runs: &mut R,
    ) -> Result<Option<K::Published>, K::Failure> {
        let since = self.history.len() - self.snapshots.newest().position;
        if self.last <= settled && !self.history.is_empty() && runs.is_plain(&self.snapshots.newest().state) {
            self.restart(settled, runs)?;
        } else if since >= runs.spacing() || (since.is_multiple_of(FEW) && self.is_outdated(settled, runs)) {
            self.renew(settled, runs)?;
        }
        self.take(entry, runs)
    }

    /// Take an event at the end of the history; returns what is published, if anything is.
    #[inline]
    pub fn take<R: Runs<K>>(&mut self, entry: K::Entry, runs: &mut R) -> Result<Option<K::Published>, K::Failure> {
        let at = self.history.len();
        self.last = K::ts(&entry);
        self.history.push(entry);
        self.execute(at, runs).or_else(|error| self.fail(at, error, runs).map(|()| None))
    }

    /// Forget all, without a snapshot: the one that is left says nothing any more.
    pub fn forget_all<R: Runs<K>>(&mut self, runs: &mut R) -> Result<(), K::Failure> {
        self.report_broken(runs)?;
        self.snapshots.begin();
        self.history.clear();
        self.drop_records(self.records.len(), runs)
    }

    /// Forget all, which is final: a plain state is noted in less time than it takes to fetch from memory what was kept for long.
    #[inline]
    fn restart<R: Runs<K>>(&mut self, settled: i64, runs: &mut R) -> Result<(), K::Failure> {
        let is_bare = self.records.is_empty() && self.broken.is_none();
        if is_bare
            && let Some(state) = self.snapshots.only()
            && runs.note_again(&self.detector, state)?
        {
            runs.count(Counted::Snapshots, 1);
            self.history.clear();
            self.snapshots.begin();
            return Ok(());
        }
        self.purge(settled, runs)
    }

    /// Whether an event behind the newest snapshot is final. A lane that waited for `spacing` events to take the next one would
    /// keep up to twice as many, however long they have been final: ten times as much as may be disturbed, for 10,000 keys. A plain
    /// state is copied in no time.
    #[inline]
    fn is_outdated<R: Runs<K>>(&self, settled: i64, runs: &R) -> bool {
        let newest = self.snapshots.newest();
        runs.is_plain(&newest.state) && self.history.get(newest.position).is_some_and(|entry| K::ts(entry) <= settled)
    }

    /// Take a snapshot at the end, and forget what is final where it is much.
    #[cold]
    fn renew<R: Runs<K>>(&mut self, settled: i64, runs: &mut R) -> Result<(), K::Failure> {
        let is_outdated = self.is_outdated(settled, runs);
        self.snapshot(self.history.len(), runs)?;
        if is_outdated || self.history.len() >= 2 * runs.spacing() {
            self.purge(settled, runs)?;
        }
        Ok(())
    }

    /// Forget what is final where it is much: for lanes that are corrected all the time, and so seldom take a snapshot in order.
    pub fn trim<R: Runs<K>>(&mut self, settled: i64, runs: &mut R) -> Result<(), K::Failure> {
        let is_much = self.history.len() >= 2 * runs.spacing() && K::ts(&self.history[runs.spacing()]) <= settled;
        if is_much { self.purge(settled, runs) } else { Ok(()) }
    }

    /// Run the events from `start` to `end`, with a snapshot before every so-manieth of them.
    pub fn run<R: Runs<K>>(&mut self, start: usize, end: usize, runs: &mut R) -> Result<(), K::Failure> {
        for at in start..end {
            if at - self.snapshots.newest().position >= runs.spacing() {
                self.snapshot(at, runs)?;
            }
            if let Err(error) = self.execute(at, runs) {
                self.fail(at, error, runs)?;
            }
        }
        Ok(())
    }

    /// Run the event at `at`; returns what is published, if anything is.
    #[inline]
    fn execute<R: Runs<K>>(&mut self, at: usize, runs: &mut R) -> Result<Option<K::Published>, K::Failure> {
        if runs.is_stopped(&self.detector) {
            let left_out = runs.left_out(&self.history[at])?;
            runs.count(Counted::LeftOut, 1);
            self.record(at, left_out, true, runs);
            return Ok(None);
        }
        let Some(published) = runs.run(&self.detector, &self.history[at])? else { return Ok(None) };
        self.record(at, runs.published_again(&published), false, runs);
        Ok(Some(published))
    }

    fn record<R: Runs<K>>(&mut self, at: usize, published: K::Published, is_failure: bool, runs: &R) {
        self.records.push(Record { cause: runs.entry_again(&self.history[at]), published, is_failure });
    }

    /// Quarantine the event at `at`, at which the detector just raised: continue from the state before it.
    #[cold]
    pub fn fail<R: Runs<K>>(&mut self, at: usize, error: K::Failure, runs: &mut R) -> Result<(), K::Failure> {
        if !runs.is_failure(&error) {
            return Err(error); // such as KeyboardInterrupt
        }
        let reason = runs.reason(error)?;
        let failure = runs.failure(&self.history[at], &reason)?;
        runs.count(Counted::Failures, 1);
        self.record(at, failure, true, runs);
        if runs.stops_on_error() {
            runs.stop(&mut self.detector);
        } else {
            let mut odd = Vec::new();
            while let Err((place, error)) = self.rehearse_without(at, &odd, runs)? {
                if !runs.is_failure(&error) {
                    return Err(error);
                }
                odd.push(place); // it did not fail here before: no pure function of its input
                runs.count(Counted::Failures, 1);
            }
        }
        self.snapshot(at + 1, runs) // so that no stretch between snapshots ever holds an event that failed
    }

    /// Bring the detector to the state before the event at `position`, which is not before the newest snapshot.
    pub fn rewind<R: Runs<K>>(&mut self, position: usize, runs: &mut R) -> Result<(), K::Failure> {
        let mut start = self.restore_newest(runs)?;
        while let Err((at, error)) = self.rehearse(start, position, runs) {
            self.fail(at, error, runs)?; // it did not fail here before: no pure function of its input
            self.records.pop();
            start = at + 1;
        }
        Ok(())
    }

    /// Run events again whose results are known and stand. An error comes with the position of its event.
    fn rehearse<R: Runs<K>>(&self, start: usize, end: usize, runs: &mut R) -> Rehearsed<K> {
        (start..end).try_for_each(|at| runs.rehearse(&self.detector, &self.history[at]).map_err(|error| (at, error)))
    }

    /// Bring the detector from the newest snapshot to the state before the event at `end`, leaving out some events.
    #[cold]
    fn rehearse_without<R: Runs<K>>(&mut self, end: usize, odd: &[usize], runs: &mut R) -> Result<Rehearsed<K>, K::Failure> {
        let mut start = self.restore_newest(runs)?;
        let mut odd = odd.to_vec();
        odd.sort_unstable();
        for place in odd.into_iter().chain([end]) {
            if let Err(failed) = self.rehearse(start, place, runs) {
                return Ok(Err(failed));
            }
            start = place + 1;
        }
        Ok(Ok(()))
    }

    /// Note the state before `position`; an unchanged state is stored once.
    fn snapshot<R: Runs<K>>(&mut self, position: usize, runs: &mut R) -> Result<(), K::Failure> {
        let mut state = self.state(runs)?;
        runs.count(Counted::Snapshots, 1);
        let before = &self.snapshots.newest().state;
        if runs.same_state(&state, before)? {
            state = runs.state_again(before);
        }
        self.snapshots.add(position, state);
        Ok(())
    }

    /// Whether the detector is in a state: a plain one is not copied for that.
    pub fn is_at<R: Runs<K>>(&mut self, state: &K::State, runs: &mut R) -> Result<bool, K::Failure> {
        match runs.is_plainly_at(&self.detector, state)? {
            Some(same) => Ok(same),
            None => {
                let own = self.state(runs)?;
                runs.same_state(&own, state)
            }
        }
    }

    /// The state of the detector. One whose state cannot be copied can never go back: it stops, and says so.
    pub fn state<R: Runs<K>>(&mut self, runs: &mut R) -> Result<K::State, K::Failure> {
        match runs.state(&self.detector) {
            Err(error) if runs.is_failure(&error) => {
                runs.count(Counted::Failures, 1);
                self.broken = Some(runs.reason(error)?);
                runs.stop(&mut self.detector);
                Ok(runs.stopped())
            }
            outcome => outcome,
        }
    }

    /// Go back to the newest snapshot; returns its position.
    fn restore_newest<R: Runs<K>>(&mut self, runs: &R) -> Result<usize, K::Failure> {
        let newest = self.snapshots.newest();
        runs.restore(&mut self.detector, &newest.state)?;
        Ok(newest.position)
    }

    /// How many records have causes before `position`.
    pub fn records_before<R: Runs<K>>(&self, position: usize, runs: &R) -> Result<usize, K::Failure> {
        let Some(before) = position.checked_sub(1) else {
            return Ok(0);
        };
        partition(self.records.len(), |at| {
            Ok(runs.order().compare(&self.records[at].cause, &self.history[before])? != Ordering::Greater)
        })
    }

    /// Forget what lies at or below `settled`, as far as a snapshot allows. Failures among it are final.
    pub fn purge<R: Runs<K>>(&mut self, settled: i64, runs: &mut R) -> Result<(), K::Failure> {
        let count = self.history.partition_point(|entry| K::ts(entry) <= settled);
        if count > self.snapshots.newest().position && (count == self.history.len() || runs.is_stopped(&self.detector)) {
            self.snapshot(count, runs)?;
        }
        self.report_broken(runs)?;
        let position = self.snapshots.last_until(count).position;
        let cut = self.records_before(position, runs)?;
        self.snapshots.forget(position);
        self.history.drain(..position);
        self.drop_records(cut, runs)
    }

    /// Report that the detector's state could not be copied, as a failure of the last event.
    fn report_broken<R: Runs<K>>(&mut self, runs: &mut R) -> Result<(), K::Failure> {
        if let Some(last) = self.history.last()
            && let Some(reason) = self.broken.take()
        {
            if self.records.last().is_some_and(|record| record.is_failure && K::same_event(&record.cause, last)) {
                self.records.pop(); // it was skipped; this is why
            }
            runs.report(runs.failure(last, &reason)?);
        }
        Ok(())
    }

    /// Forget the first records, which are final; report the failures among them.
    fn drop_records<R: Runs<K>>(&mut self, cut: usize, runs: &mut R) -> Result<(), K::Failure> {
        for record in self.records.drain(..cut) {
            if record.is_failure {
                runs.report(record.published);
            } else {
                runs.forget(record.published)?;
            }
        }
        Ok(())
    }

    /// Have later events wait for the pending work of this number.
    pub fn wait_for(&mut self, pending: usize) {
        self.pending = Some(pending);
        self.last = i64::MAX;
    }

    /// Nothing is pending any more.
    pub fn settle(&mut self) {
        self.pending = None;
        self.last = self.history.last().map_or(NEVER, |entry| K::ts(entry));
    }

    /// Every invariant of a lane; returns what is wrong, if anything is.
    pub fn fault<O: TotalOrder<K::Entry>>(&self, order: O) -> Result<Option<&'static str>, O::Failure> {
        for pair in self.history.windows(2) {
            if order.compare(&pair[0], &pair[1])? != Ordering::Less {
                return Ok(Some("history out of order"));
            }
        }
        let mut free = 0;
        for record in &self.records {
            match place_of(order, &self.history[free..], &record.cause)? {
                Ok(offset) => free += offset + 1,
                Err(_) => return Ok(Some("results out of order, or of events that are gone")),
            }
        }
        if self.pending.is_some() || self.history.last().is_some_and(|entry| K::ts(entry) != self.last) {
            return Ok(Some("last is not the last"));
        }
        Ok(self.snapshots.fault(self.history.len()))
    }
}
