//! Contents by key, what a change touches, and what is due when time passes.
//!
//! Published results are never stored: they follow from the windows' content, and are calculated again where a change touches
//! them. `detectors.window.windows_operation` is the twin, for all kinds of windows and all monoids.

use super::correcting::{Corrected, Late};
use super::lane::{Lane, append};
use super::pane::{Panes, head};
use super::plan::Plan;
use super::results::Results;
use super::sliding::Sliding;

/// Watermark of a stream that has promised nothing.
const NOTHING: i64 = -(1 << 62);
pub const END: i64 = 1 << 62;

/// Keys are numbers here, those of their lanes.
pub struct Windows {
    pub plan: Plan,
    pub lanes: Vec<Lane>,
    pub(super) free: Vec<usize>,
    /// The windows published last, by size.
    pub(super) sliding: Vec<Sliding>,
    /// The panes in the window, and those after it.
    pub(super) panes: Panes,
    /// Windows that end until here are published.
    pub upto: i64,
    pub swept: i64,
    pub held: usize,
    /// New ones, until they are asked for; kept for their memory.
    pub results: Results,
}

impl Windows {
    /// `at_once`: every window is published, whatever the time.
    pub fn new(plan: Plan, at_once: bool) -> Self {
        let upto = if at_once { END } else { NOTHING };
        let floats = plan.aggregates.iter().map(|&(what, column)| what.gives_floats(plan.is_float(column)));
        Self {
            lanes: Vec::new(),
            free: Vec::new(),
            sliding: slidings(&plan, upto),
            panes: Panes::default(),
            results: Results::new(floats),
            plan,
            upto,
            swept: NOTHING,
            held: 0,
        }
    }

    /// The number of the lane that `open` gives.
    pub fn next_lane(&self) -> usize {
        self.free.last().copied().unwrap_or(self.lanes.len())
    }

    /// A lane for a new key.
    pub fn open(&mut self) -> usize {
        if let Some(number) = self.free.pop() {
            self.lanes[number] = Lane::default();
            return number;
        }
        self.lanes.push(Lane::default());
        self.sliding.iter_mut().for_each(|sliding| sliding.resize(self.lanes.len()));
        self.lanes.len() - 1
    }

    /// Begin anew where another has come to; `refill` has what it holds.
    pub fn restart(&mut self, upto: i64, swept: i64) {
        (self.upto, self.swept, self.held) = (upto, swept, 0);
        self.sliding = slidings(&self.plan, upto);
    }

    /// Give a new lane its rows.
    pub fn refill(&mut self, number: usize, rows: Vec<u64>) {
        self.lanes[number].refill(rows);
        self.held += self.lanes[number].len(self.plan.width());
        let rows = self.lanes[number].rows.clone();
        rows.chunks_exact(self.plan.width()).for_each(|row| self.note(number, row[0].cast_signed(), row, false));
    }

    /// A row for a lane: at once, or, if it touches published windows, when all has been taken.
    #[inline]
    pub fn put(&mut self, lane: usize, ts: i64, row: &[u64], late: &mut Vec<Late>) {
        if ts > self.upto {
            self.insert(lane, ts, row);
        } else {
            self.pending(lane, late).come.push((ts, row.to_vec()));
        }
    }

    /// Withdraw a row of a lane: as `put`.
    pub fn take_back(&mut self, lane: usize, ts: i64, row: &[u64], late: &mut Vec<Late>) {
        if ts > self.upto {
            self.remove(lane, ts, row);
        } else {
            self.pending(lane, late).gone.push((ts, row.to_vec()));
        }
    }

    /// Once all has been taken, or as much as could be: nothing waits any more.
    pub fn close(&mut self, late: &[Late]) {
        self.results.clear();
        for work in late {
            self.lanes[work.lane].pending = None;
        }
    }

    /// Correct results, and publish new ones.
    pub fn publish(&mut self, late: Vec<Late>, upto: i64) -> Corrected {
        let corrected = self.correct(late);
        self.pass(upto);
        corrected
    }

    /// Add a row to a lane.
    #[inline]
    pub(super) fn insert(&mut self, lane: usize, ts: i64, row: &[u64]) {
        self.held += 1;
        self.lanes[lane].insert(ts, row);
        self.note(lane, ts, row, false);
    }

    /// Take a row of this content out of a lane, if there is one.
    pub(super) fn remove(&mut self, lane: usize, ts: i64, row: &[u64]) {
        if self.lanes[lane].remove(ts, row) {
            self.held -= 1;
            self.note(lane, ts, row, true);
        }
    }

    /// A row has come or gone: windows that were published last have it, or those to come will.
    #[inline]
    fn note(&mut self, lane: usize, ts: i64, row: &[u64], goes: bool) {
        if !self.sliding.iter().any(|sliding| sliding.reaches(ts)) {
            return;
        }
        let pane = self.panes.of(&self.plan, ts);
        let at = pane.len();
        append(pane, row);
        pane[at] = head(lane, goes);
        if ts <= self.upto {
            for sliding in &mut self.sliding {
                sliding.take(&self.plan, ts, &pane[at..], &self.lanes);
            }
        }
    }

    fn pending<'a>(&mut self, lane: usize, late: &'a mut Vec<Late>) -> &'a mut Late {
        let at = *self.lanes[lane].pending.get_or_insert_with(|| {
            late.push(Late::new(lane));
            u32::try_from(late.len() - 1).expect("fewer than 2^32 keys")
        });
        &mut late[at as usize]
    }
}

/// The state once all windows that end until `upto` were published, without content.
fn slidings(plan: &Plan, upto: i64) -> Vec<Sliding> {
    let end = plan.end(upto.saturating_add(1)) - plan.every;
    plan.sizes.iter().map(|&size| Sliding::new(plan, size, end)).collect()
}
