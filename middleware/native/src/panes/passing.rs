//! Time passes: windows that have ended are published, and what no window needs any more is forgotten.
//!
//! Key after key, and of each key all windows that are due: so its rows are at hand. Results are put in order of time after.

use std::mem::take;

use pyo3::prelude::*;

use super::agenda::NEVER;
use super::lane::Range;
use super::states::Step;
use super::windows::{END, KeyedWindows};

impl KeyedWindows {
    /// An event came at `ts`: its first window that is not published is due at its end.
    #[inline]
    pub(super) fn schedule(&mut self, lane: usize, ts: i64) {
        let (next, ts_or_later) = (self.agenda.get(lane), ts.max(self.upto.saturating_add(1)));
        if ts_or_later > next.saturating_sub(self.plan.every) {
            return; // its end is not before the next one
        }
        let end = self.plan.end(ts_or_later);
        if end < next && end - self.plan.longest < ts {
            self.agenda.set(lane, end);
        }
    }

    /// Publish the windows that end until `upto`.
    pub(super) fn pass(&mut self, upto: i64) {
        if upto <= self.upto {
            return;
        }
        let (mut due, mut steps) = (take(&mut self.due), take(&mut self.steps));
        self.agenda.due(upto, &mut due);
        for &lane in &due {
            self.follow(lane, upto, &mut steps);
        }
        self.results.place(&mut steps, &self.plan.sizes, self.plan.every);
        let width = self.plan.width();
        for (states, (&each, cells)) in self.states.iter_mut().zip(self.plan.aggregates.iter().zip(&mut self.results.cells)) {
            states.go(each, &steps, &self.lanes, width, cells);
        }
        due.clear();
        steps.clear();
        (self.due, self.steps, self.upto) = (due, steps, upto);
    }

    /// Find the windows of a lane that are due until `upto`, and put it down for the one after.
    #[inline]
    fn follow(&mut self, number: usize, upto: i64, steps: &mut Vec<Step>) {
        let (plan, lane, width, first) = (&self.plan, &self.lanes[number], self.plan.width(), self.agenda.get(number));
        let (total, mut next) = (lane.total(width), NEVER);
        for (size, &length) in plan.sizes.iter().enumerate() {
            let state = number * plan.sizes.len() + size;
            let (mut old, mut end) = (self.published[state], first);
            let (mut from, mut to) = (old.from as usize, old.to as usize);
            if old.is_empty() {
                (from, to) = (lane.after(end - length, width), lane.after(end, width));
            }
            loop {
                from = lane.after_from(from, end - length, width);
                to = lane.after_from(to.max(from), end, width);
                if from == to && to == total {
                    break;
                } else if from == to {
                    end = plan.end(lane.ts(to, width)).max(end + plan.every); // and look again: it may lie between windows
                } else if end <= upto {
                    let new = Range::new(from, to);
                    steps.push(Step { end, size, lane: number, state, place: 0, old, new });
                    (old, end) = (new, end + plan.every);
                } else {
                    next = next.min(end);
                    break;
                }
            }
            self.published[state] = old;
        }
        self.agenda.set(number, next);
    }

    /// The end of the first window of a lane that is not empty, from the one that ends at `end`.
    pub(super) fn next(&self, lane: usize, mut end: i64) -> i64 {
        let (lane, width) = (&self.lanes[lane], self.plan.width());
        loop {
            let row = lane.after(end - self.plan.longest, width);
            if row == lane.total(width) {
                return NEVER;
            }
            let first = lane.ts(row, width);
            if first <= end {
                return end;
            }
            end = self.plan.end(first); // and look again: it may lie between windows
        }
    }

    /// Forget what no window needs any more; now and then, since each key is looked at.
    pub(super) fn purge(&mut self, py: Python<'_>, r#final: i64) -> PyResult<()> {
        if r#final <= self.swept || (r#final != END && r#final - self.swept < self.plan.longest / 4) {
            return Ok(());
        }
        self.swept = r#final;
        let (last, width) = (self.plan.end(r#final + 1) - self.plan.longest, self.plan.width());
        for number in 0..self.lanes.len() {
            let lane = &mut self.lanes[number];
            let (dropped, moved) = lane.drop_until(last, width);
            self.held -= dropped;
            if lane.len(width) == 0 && !lane.is_free {
                lane.is_free = true;
                self.agenda.set(number, NEVER);
                let key = self.named[number].key.clone_ref(py);
                self.keys.remove(key.bind(py))?;
                self.free.push(number);
            }
            if moved > 0 {
                self.published_in(number).iter_mut().for_each(|range| *range = range.moved(moved));
            }
        }
        Ok(())
    }
}
