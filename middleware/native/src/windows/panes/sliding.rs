//! The windows of one size that were published last, one of each lane: the next ones differ from them by a few panes.

use std::ops::Range;

use super::aggregate::Value;
use super::lane::Lane;
use super::pane::{Entry, Panes};
use super::plan::Plan;
use super::results::Results;
use super::states::States;

pub struct Sliding {
    size: i64,
    /// They are (start, end].
    start: i64,
    end: i64,
    /// How many rows are in the window of each lane.
    pub counts: Vec<i64>,
    pub states: Vec<States>,
    /// Lanes whose aggregate must be calculated anew; only for a moment.
    stale: Vec<usize>,
    /// The stale lanes, with their rows.
    found: Vec<(usize, Range<usize>)>,
}

impl Sliding {
    /// Empty ones.
    pub fn new(plan: &Plan, size: i64, end: i64) -> Self {
        let states = plan.aggregates.iter().map(|&(what, column)| States::new(what, plan.is_float(column))).collect();
        Self { size, start: end - size, end, counts: Vec::new(), states, stale: Vec::new(), found: Vec::new() }
    }

    /// Have so many lanes.
    pub fn resize(&mut self, count: usize) {
        self.counts.resize(count, 0);
        self.states.iter_mut().for_each(|states| states.resize(count));
    }

    /// Whether rows of a time are in them, or in those that come after.
    #[inline]
    pub fn reaches(&self, ts: i64) -> bool {
        ts > self.start
    }

    /// Go on to the windows that end at `end`. O(what comes and goes), mostly.
    pub fn resume(&mut self, plan: &Plan, end: i64, panes: &Panes, lanes: &[Lane]) {
        let start = end - self.size;
        let gone = panes.between(self.start, start.min(self.end)).map(|pane| (pane, false));
        let come = panes.between(start.max(self.end), end).map(|pane| (pane, true));
        (self.start, self.end) = (start, end);
        self.change(plan, lanes, gone.chain(come).map(|(pane, come)| (&pane.entries[..], come)));
    }

    /// A late entry, which its lane knows already, and its pane.
    pub fn take(&mut self, plan: &Plan, ts: i64, entry: &Entry, lanes: &[Lane]) {
        if self.start < ts && ts <= self.end {
            self.change(plan, lanes, std::iter::once((entry, true)));
        }
    }

    /// The results of some rows.
    pub fn over(&self, plan: &Plan, rows: &[u64]) -> Vec<Value> {
        let aggregates = self.states.iter().zip(&plan.aggregates);
        aggregates.map(|(states, &asked)| states.over(asked, rows, plan.width())).collect()
    }

    fn change<'a>(&mut self, plan: &Plan, lanes: &[Lane], changes: impl Iterator<Item = (&'a [u64], bool)> + Clone) {
        let width = plan.width();
        for (entries, come) in changes.clone() {
            for entry in entries.chunks_exact(width) {
                let goes = (entry[0] & 1 != 0) == come;
                self.counts[(entry[0] >> 1) as usize] += if goes { -1 } else { 1 };
            }
        }
        for (states, &asked) in self.states.iter_mut().zip(&plan.aggregates) {
            for (entries, come) in changes.clone() {
                states.change(asked, entries, width, come, &mut self.stale);
            }
            self.stale.sort_unstable();
            self.stale.dedup();
            // all are found before the first is read: their rows are far away, and one search need not wait for another
            self.found.extend(self.stale.drain(..).map(|lane| (lane, lanes[lane].window(self.start, self.end, width))));
            for (lane, window) in self.found.drain(..) {
                states.fill(asked, lane, &lanes[lane].rows[window], width);
            }
        }
    }

    /// Publish them: those that are not empty, lane by lane. O(lanes).
    pub fn publish(&self, plan: &Plan, results: &mut Results) {
        let there = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let (lanes, cells) = results.open(there.map(|(lane, _)| lane), (self.start, self.end));
        for (states, (&asked, cells)) in self.states.iter().zip(plan.aggregates.iter().zip(cells)) {
            states.show(asked, lanes, cells);
        }
    }
}
