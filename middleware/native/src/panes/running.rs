//! The aggregates of the window that a lane published last: the next one differs from it by a few rows.

use super::aggregate::{State, Value};
use super::plan::Plan;

pub struct Running {
    /// The window is (start, end].
    pub start: i64,
    pub end: i64,
    /// The rows that it holds, as places in the lane.
    pub from: usize,
    pub to: usize,
    states: Vec<State>,
}

impl Running {
    /// Of no rows yet.
    pub fn new(plan: &Plan, (start, end): (i64, i64), at: usize) -> Self {
        let states = plan.aggregates.iter().map(|&(what, column)| plan.state(what, column)).collect();
        Self { start, end, from: at, to: at, states }
    }

    /// Move on to the window that holds other rows, none of them before `self.from`; false if it must be calculated anew.
    ///
    /// An aggregate from which a row that leaves cannot be taken (the largest value, say) is calculated anew alone.
    #[inline]
    pub fn go_on(&mut self, plan: &Plan, rows: &[u64], window: (i64, i64), (from, to): (usize, usize)) -> bool {
        if from >= self.to || from < self.from || to < self.to {
            return false;
        }
        let width = plan.width();
        let part = |from: usize, to: usize| rows[from * width..to * width].chunks_exact(width);
        for (state, &(what, column)) in self.states.iter_mut().zip(&plan.aggregates) {
            if bits(part(self.from, from), column).all(|bits| state.take(bits)) {
                bits(part(self.to, to), column).for_each(|bits| state.add(bits));
            } else {
                *state = plan.state(what, column);
                bits(part(from, to), column).for_each(|bits| state.add(bits));
            }
        }
        (self.from, self.to) = (from, to);
        (self.start, self.end) = window;
        true
    }

    /// Take the rows up to the place `to`.
    #[inline]
    pub fn fill(&mut self, plan: &Plan, rows: &[u64], to: usize) {
        let width = plan.width();
        for (state, &(_, column)) in self.states.iter_mut().zip(&plan.aggregates) {
            bits(rows[self.to * width..to * width].chunks_exact(width), column).for_each(|bits| state.add(bits));
        }
        self.to = to;
    }

    pub fn values(&self, values: &mut Vec<Value>) {
        values.clear();
        values.extend(self.states.iter().map(State::value));
    }
}

/// What rows say of a column, where they say something; of none, that they are there.
#[inline]
fn bits<'a>(rows: impl Iterator<Item = &'a [u64]>, column: Option<usize>) -> impl Iterator<Item = u64> {
    rows.filter_map(move |row| match column {
        None => Some(0),
        Some(column) => (row[1] >> column & 1 != 0).then(|| row[2 + column]),
    })
}
