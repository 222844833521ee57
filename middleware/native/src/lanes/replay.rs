//! The correction of a lane, a batch at a time (algorithms 1 and 2 of DEBS'13): merge all that came, go back once, replay once.

use std::cmp::Ordering;

use crate::event::order::{TotalOrder, arranged, insertions, place_of};
use crate::event::search::partition;
use crate::event::splice::splice;
use crate::lanes::disturbance::Disturbance;
use crate::lanes::emission::Pending;
use crate::lanes::lane::{Lane, Record};
use crate::lanes::runs::{Counted, Kind, Runs};
use crate::lanes::snapshots::Snapshot;

/// The records and snapshots of the former run behind the first disturbed event.
struct Former<K: Kind> {
    records: Vec<Record<K>>,
    /// Snapshots behind all that was disturbed: where the state is again what it was, the replay may stop.
    stops: Vec<Snapshot<K::State>>,
    /// The state at the end.
    live: K::State,
}

/// The outcome of a correction: the lane's records from a place on are new.
pub enum Corrected<P> {
    /// None before them is touched.
    Added(usize),
    /// They replace these.
    Replaced(Vec<P>, usize),
}

impl<K: Kind> Lane<K> {
    /// Take what came out of order, and forget what was withdrawn; returns what changes downstream.
    pub fn correct<R: Runs<K>>(
        &mut self,
        pending: Pending<K::Entry>,
        runs: &mut R,
    ) -> Result<Corrected<K::Published>, K::Failure> {
        let gone = self.remove(pending.gone, runs)?;
        let run = self.history.len();
        let (behind, repeats) = arranged(runs.order(), pending.behind)?;
        let (came, known) = insertions(runs.order(), &self.history, behind)?; // what is in the history came first
        runs.count(Counted::Duplicates, repeats + known);
        let places: Vec<usize> = came.iter().map(|(place, _)| *place).collect();
        splice(&mut self.history, came);
        self.settle();
        if let Some(disturbance) = Disturbance::new(&gone, &places, run) {
            return self.roll_back(disturbance, runs);
        }
        let known = self.records.len();
        self.run(run, self.history.len(), runs)?;
        Ok(Corrected::Added(known))
    }

    /// Take events out of the history; returns where they stood, all of them taken out.
    fn remove<R: Runs<K>>(&mut self, gone: Vec<K::Entry>, runs: &R) -> Result<Vec<usize>, K::Failure> {
        let (gone, repeats) = arranged(runs.order(), gone)?;
        runs.count(Counted::Unknown, repeats);
        let mut places = Vec::with_capacity(gone.len());
        for entry in &gone {
            match place_of(runs.order(), &self.history, entry)? {
                Ok(at) => {
                    self.history.remove(at);
                    places.push(at);
                }
                Err(_) => runs.count(Counted::Unknown, 1),
            }
        }
        Ok(places)
    }

    /// Go back to before what is disturbed, and replay.
    fn roll_back<R: Runs<K>>(&mut self, disturbance: Disturbance, runs: &mut R) -> Result<Corrected<K::Published>, K::Failure> {
        runs.count(Counted::Rollbacks, 1);
        let cut = self.records_before(disturbance.start, runs)?;
        let records = self.records.split_off(cut);
        let later = self.snapshots.back_to(disturbance.start);
        let origin = self.snapshots.newest();
        let old = records.iter().map(|record| runs.published_again(&record.published)).collect();
        let mut stops = Vec::new();
        if !runs.retracts_all() {
            let moved = |snapshot: Snapshot<K::State>| {
                let position = disturbance.moved(snapshot.position)?;
                Some(Snapshot { position, state: snapshot.state })
            };
            // where only what came stands between it and its event, the snapshot to go back to is a stop, too
            let own = (origin.position == disturbance.start)
                .then(|| Snapshot { position: origin.position, state: runs.state_again(&origin.state) });
            stops.extend(own.into_iter().chain(later).filter_map(moved));
        }
        let live = if stops.is_empty() { runs.stopped() } else { self.state(runs)? };
        self.rewind(disturbance.start, runs)?;
        let done = self.replay(disturbance, Former { records, stops, live }, runs)?;
        self.run(done, self.history.len(), runs)?;
        Ok(Corrected::Replaced(old, cut))
    }

    /// Run what was run before, until the state is what it was at a former snapshot; returns where the detector stands then.
    fn replay<R: Runs<K>>(&mut self, disturbance: Disturbance, former: Former<K>, runs: &mut R) -> Result<usize, K::Failure> {
        let mut start = disturbance.start;
        for index in 0..former.stops.len() {
            let stop = &former.stops[index];
            self.run(start, stop.position, runs)?;
            start = stop.position;
            if self.is_at(&stop.state, runs)? {
                self.resume(index, disturbance.end, former, runs)?;
                return Ok(disturbance.end);
            }
        }
        self.run(start, disturbance.end, runs)?;
        Ok(disturbance.end)
    }

    /// From stop `index` up to `end`, the former snapshots, records and state are good again (4.3.2, property 1).
    fn resume<R: Runs<K>>(&mut self, index: usize, end: usize, former: Former<K>, runs: &mut R) -> Result<(), K::Failure> {
        runs.count(Counted::Stops, 1);
        let Former { records, mut stops, live } = former;
        let (order, event) = (runs.order(), &self.history[stops[index].position]);
        let before = partition(records.len(), |at| Ok(order.compare(&records[at].cause, event)? == Ordering::Less))?;
        self.records.extend(records.into_iter().skip(before));
        let newest = self.snapshots.newest().position;
        for stop in stops.drain(index..).filter(|stop| stop.position > newest) {
            self.snapshots.add(stop.position, stop.state);
        }
        runs.restore(&mut self.detector, &live)?;
        if end > newest {
            self.snapshots.add(end, live);
        }
        Ok(())
    }
}
