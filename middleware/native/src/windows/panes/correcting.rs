//! Late events: results of windows that are published change. They are calculated as they were, and as they are.

use super::aggregate::Value;
use super::plan::Row;
use super::windows::Windows;

/// Changes of one key that touch windows which are published.
pub struct Late {
    pub lane: usize,
    pub come: Vec<(i64, Row)>,
    pub gone: Vec<(i64, Row)>,
}

impl Late {
    pub fn new(lane: usize) -> Self {
        Self { lane, come: Vec::new(), gone: Vec::new() }
    }
}

/// A result: its lane, its window, and its values.
pub type WindowResult = (usize, (i64, i64), Vec<Value>);

/// Former results that are others now: as they were, as they are, and those that are no more.
#[derive(Default)]
pub struct Corrected {
    pub old: Vec<WindowResult>,
    pub new: Vec<WindowResult>,
    pub gone: Vec<WindowResult>,
}

impl Corrected {
    /// Whether a whole number among them is beyond 64 bits.
    pub fn is_beyond(&self) -> bool {
        let results = [&self.old, &self.new, &self.gone];
        results.into_iter().flatten().any(|(_, _, values)| values.iter().any(|value| value.is_beyond()))
    }
}

impl Windows {
    /// Take late changes; results that were not there before are new ones, in order of time.
    pub(super) fn correct(&mut self, late: Vec<Late>) -> Corrected {
        let (mut corrected, mut inserted) = (Corrected::default(), Vec::new());
        for work in late {
            self.correct_lane(work, &mut corrected, &mut inserted);
        }
        inserted.sort_by_key(|(_, (_, end), _)| *end);
        for (lane, window, values) in &inserted {
            self.results.push(*lane, *window, values);
        }
        corrected
    }

    fn correct_lane(&mut self, work: Late, corrected: &mut Corrected, inserted: &mut Vec<WindowResult>) {
        let windows = self.touched(&work);
        let before = self.values_of(work.lane, &windows);
        for (ts, row) in &work.gone {
            self.remove(work.lane, *ts, row);
        }
        for (ts, row) in &work.come {
            self.insert(work.lane, *ts, row);
        }
        let after = self.values_of(work.lane, &windows);
        for (&window, (old, new)) in windows.iter().zip(before.into_iter().zip(after)) {
            let result = |values| (work.lane, window, values);
            match (old, new) {
                (None, Some(new)) => inserted.push(result(new)),
                (Some(old), None) => corrected.gone.push(result(old)),
                (Some(old), Some(new)) if !old.iter().zip(&new).all(|(old, new)| old.same(*new)) => {
                    corrected.old.push(result(old));
                    corrected.new.push(result(new));
                }
                _ => {}
            }
        }
    }

    /// The published windows that changes touch, in order of their ends.
    fn touched(&self, work: &Late) -> Vec<(i64, i64)> {
        let (every, mut ends) = (usize::try_from(self.plan.every).expect("positive"), Vec::new());
        for &(ts, _) in work.gone.iter().chain(&work.come) {
            let last = (ts + self.plan.longest - 1).min(self.upto);
            ends.extend((self.plan.end(ts)..=last).step_by(every));
        }
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().flat_map(|end| self.plan.sizes.iter().map(move |&size| (end - size, end))).collect()
    }

    /// The results of windows of a lane; None for those that are empty.
    fn values_of(&self, lane: usize, windows: &[(i64, i64)]) -> Vec<Option<Vec<Value>>> {
        let width = self.plan.width();
        let values = |&(start, end): &(i64, i64)| {
            let rows = &self.lanes[lane].rows[self.lanes[lane].window(start, end, width)];
            (!rows.is_empty()).then(|| self.sliding[0].over(&self.plan, rows))
        };
        windows.iter().map(values).collect()
    }
}
