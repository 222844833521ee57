//! Aggregates by lane, in an array: what an aggregate does is decided once for all that comes and goes.

use super::aggregate::{Value, What};
use super::folds::{Count, Ends, Fold, Ranks, Whole};
use super::results::Cells;
use crate::windows::fiba::moments::{Moments, Spread};

pub enum States {
    Count(Vec<Count>),
    Sums(Vec<Moments>),
    Spreads(Vec<Spread>),
    Wholes(Vec<Whole>),
    Floats(Vec<Ends<f64>>),
    Integers(Vec<Ends<i64>>),
    Ranks(Vec<Ranks>),
}

/// Do the same for states of each kind.
macro_rules! each {
    ($given:expr, $states:ident => $do:expr) => {
        match $given {
            Self::Count($states) => $do,
            Self::Sums($states) => $do,
            Self::Spreads($states) => $do,
            Self::Wholes($states) => $do,
            Self::Floats($states) => $do,
            Self::Integers($states) => $do,
            Self::Ranks($states) => $do,
        }
    };
}

impl States {
    pub fn new(what: What, is_float: bool) -> Self {
        match what {
            What::Count => Self::Count(Vec::new()),
            What::Variance(..) => Self::Spreads(Vec::new()),
            What::Median => Self::Ranks(Vec::new()),
            What::Sum | What::Total | What::Mean if is_float => Self::Sums(Vec::new()),
            What::Sum | What::Total | What::Mean => Self::Wholes(Vec::new()),
            What::Min | What::Max | What::Range if is_float => Self::Floats(Vec::new()),
            What::Min | What::Max | What::Range => Self::Integers(Vec::new()),
        }
    }

    /// Have so many.
    pub fn resize(&mut self, count: usize) {
        each!(self, states => states.resize_with(count, Default::default));
    }

    /// Entries of `width` come, or go again; lanes that must be calculated anew then are `stale`.
    pub fn change(&mut self, (what, column): Asked, entries: &[u64], width: usize, come: bool, stale: &mut Vec<usize>) {
        let entries = entries.chunks_exact(width);
        if come {
            each!(self, states => change(states, what, column, entries, come, stale));
        } else {
            each!(self, states => change(states, what, column, entries.rev(), come, stale)); // nothing goes that is not there
        }
    }

    /// Calculate a lane anew from its rows.
    pub fn fill(&mut self, asked: Asked, lane: usize, rows: &[u64], width: usize) {
        each!(self, states => states[lane] = folded(asked, rows, width));
    }

    /// The results of lanes.
    pub fn show(&self, (what, _): Asked, lanes: &[u32], cells: &mut Cells) {
        each!(self, states => cells.extend(lanes.iter().map(|&lane| states[lane as usize].value(what))));
    }

    /// The result of some rows, whatever the states are.
    pub fn over(&self, asked: Asked, rows: &[u64], width: usize) -> Value {
        each!(self, states => of_kind(states, folded(asked, rows, width)).value(asked.0))
    }
}

/// An aggregate and its column; without one, the number of rows.
pub type Asked = (What, Option<usize>);

fn of_kind<F>(_: &[F], state: F) -> F {
    state
}

#[inline]
fn change<'a, F: Fold>(
    states: &mut [F],
    what: What,
    column: Option<usize>,
    entries: impl Iterator<Item = &'a [u64]>,
    come: bool,
    stale: &mut Vec<usize>,
) {
    for entry in entries {
        let Some(bits) = bits(entry, column) else { continue };
        let (lane, goes) = ((entry[0] >> 1) as usize, entry[0] & 1 != 0);
        let state = &mut states[lane];
        if come != goes {
            state.add(bits);
        } else if !state.take(what, bits) {
            stale.push(lane);
        }
    }
}

fn folded<F: Fold>((_, column): Asked, rows: &[u64], width: usize) -> F {
    let mut state = F::default();
    rows.chunks_exact(width).filter_map(|row| bits(row, column)).for_each(|bits| state.add(bits));
    state
}

/// The value of a row or an entry in a column, if there is one; without a column, a sign that the row is there.
#[inline]
fn bits(row: &[u64], column: Option<usize>) -> Option<u64> {
    match column {
        None => Some(0),
        Some(column) => (row[1] >> column & 1 != 0).then(|| row[2 + column]),
    }
}
