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
        let state =
            |&(what, column): &(_, Option<usize>)| State::new(what, column.is_some_and(|column| plan.columns[column].is_float));
        Self { start, end, from: at, to: at, states: plan.aggregates.iter().map(state).collect() }
    }

    /// Move on to the window that holds other rows, none of them before `self.from`; false if it must be calculated anew.
    #[inline]
    pub fn go_on(&mut self, plan: &Plan, rows: &[u64], window: (i64, i64), (from, to): (usize, usize)) -> bool {
        if from >= self.to || from < self.from || to < self.to {
            return false;
        }
        self.fill(plan, rows, to);
        let width = plan.width();
        for row in rows[self.from * width..from * width].chunks_exact(width) {
            if !self.each(plan, row, State::take) {
                return false;
            }
        }
        self.from = from;
        (self.start, self.end) = window;
        true
    }

    /// Take the rows up to the place `to`.
    #[inline]
    pub fn fill(&mut self, plan: &Plan, rows: &[u64], to: usize) {
        let width = plan.width();
        for row in rows[self.to * width..to * width].chunks_exact(width) {
            self.each(plan, row, |state, bits| {
                state.add(bits);
                true
            });
        }
        self.to = to;
    }

    /// Do something with each aggregate that a row counts for.
    #[inline]
    fn each(&mut self, plan: &Plan, row: &[u64], mut with: impl FnMut(&mut State, u64) -> bool) -> bool {
        self.states.iter_mut().zip(&plan.aggregates).all(|(state, &(_, column))| match column {
            None => with(state, 0),
            Some(column) => row[1] >> column & 1 == 0 || with(state, row[2 + column]),
        })
    }

    pub fn values(&self, values: &mut Vec<Value>) {
        values.clear();
        values.extend(self.states.iter().map(State::value));
    }
}
