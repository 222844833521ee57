//! The rows that come and go between two bounds of windows: a window is a run of panes, whatever the key.

use std::collections::VecDeque;

use super::plan::Plan;

/// A row that comes or goes: `lane << 1`, and 1 if it goes; which columns are there; the columns.
pub type Entry = [u64];

/// The entry of a row that comes or goes.
#[inline]
pub fn head(lane: usize, goes: bool) -> u64 {
    (lane as u64) << 1 | u64::from(goes)
}

/// Its entries, one after another, are of times in (start, end].
pub struct Pane {
    start: i64,
    end: i64,
    pub entries: Vec<u64>,
}

#[derive(Default)]
pub struct Panes {
    /// In order of time.
    all: VecDeque<Pane>,
    /// The one that was last added to.
    last: usize,
    /// Memory of those that were dropped.
    spare: Vec<Vec<u64>>,
}

impl Panes {
    /// The pane of a time. O(1) mostly, else O(panes).
    #[inline]
    pub fn of(&mut self, plan: &Plan, ts: i64) -> &mut Vec<u64> {
        if !self.all.get(self.last).is_some_and(|pane| pane.start < ts && ts <= pane.end) {
            self.find(plan, ts);
        }
        &mut self.all[self.last].entries
    }

    fn find(&mut self, plan: &Plan, ts: i64) {
        self.last = self.all.partition_point(|pane| pane.end < ts);
        if self.all.get(self.last).is_none_or(|pane| pane.start >= ts) {
            let (start, end) = plan.pane(ts);
            let entries = self.spare.pop().unwrap_or_default();
            self.all.insert(self.last, Pane { start, end, entries });
        }
    }

    /// The panes in (start, end].
    pub fn between(&self, start: i64, end: i64) -> impl Iterator<Item = &Pane> + Clone {
        let from = self.all.partition_point(|pane| pane.end <= start);
        let to = self.all.partition_point(|pane| pane.end <= end);
        self.all.range(from..to.max(from))
    }

    /// The end of the first pane that ends after `ts`.
    pub fn first_after(&self, ts: i64) -> Option<i64> {
        self.all.get(self.all.partition_point(|pane| pane.end <= ts)).map(|pane| pane.end)
    }

    /// Drop those that end until `ts`.
    pub fn drop_until(&mut self, ts: i64) {
        let dropped = self.all.partition_point(|pane| pane.end <= ts);
        self.spare.extend(self.all.drain(..dropped).map(|pane| pane.entries));
        self.spare.iter_mut().for_each(Vec::clear);
        self.last = self.last.saturating_sub(dropped);
        self.spare.truncate(self.all.len() + 1);
    }
}
