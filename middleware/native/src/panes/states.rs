//! The aggregates of the windows that were published last, one of each lane: the next ones differ from them by a few rows.
//!
//! They lie in arrays, an aggregate each, and go on aggregate by aggregate over all windows that are to be published. So what
//! an aggregate does is decided once, and what one window waits for does not hold up the others.

use super::aggregate::{Count, Ends, Fold, Ranks, Value, What, Whole};
use super::lane::{Lane, Range};
use super::results::Cells;
use crate::fiba::moments::{Moments, Spread};

/// From one window of a lane to the next.
pub struct Step {
    pub end: i64,
    /// Which of the windows that end there.
    pub size: usize,
    pub lane: usize,
    /// The place of its aggregates.
    pub state: usize,
    /// The place of its result.
    pub place: usize,
    /// The rows of the window before, if they are known, and its own.
    pub old: Range,
    pub new: Range,
}

pub enum States {
    Count(Vec<Count>),
    Sums(Vec<Moments>),
    Spreads(Vec<Spread>),
    Wholes(Vec<Whole>),
    Floats(Vec<Ends<f64>>),
    Integers(Vec<Ends<i64>>),
    Ranks(Vec<Ranks>),
}

/// The same for states of each kind.
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

    /// The aggregate of some rows, whatever the states are.
    pub fn over(&self, (what, column): (What, Option<usize>), rows: &[u64], width: usize) -> Value {
        each!(self, states => folded(states, what, bits(rows, width, column)))
    }

    /// Take all steps, in their order, and write down the results.
    pub fn go(&mut self, (what, column): (What, Option<usize>), steps: &[Step], lanes: &[Lane], width: usize, cells: &mut Cells) {
        each!(self, states => go(states, what, column, steps, lanes, width, cells));
    }
}

fn go<F: Fold>(
    states: &mut [F],
    what: What,
    column: Option<usize>,
    steps: &[Step],
    lanes: &[Lane],
    width: usize,
    cells: &mut Cells,
) {
    for step in steps {
        let rows = &lanes[step.lane].rows;
        let part = |from: u32, to: u32| bits(&rows[from as usize * width..to as usize * width], width, column);
        let (state, old, new) = (&mut states[step.state], step.old, step.new);
        let goes_on = new.from < old.to && old.from <= new.from && old.to <= new.to;
        if goes_on && part(old.from, new.from).all(|bits| state.take(what, bits)) {
            part(old.to, new.to).for_each(|bits| state.add(bits));
        } else {
            *state = F::default();
            part(new.from, new.to).for_each(|bits| state.add(bits));
        }
        cells.set(step.place, state.value(what));
    }
}

fn folded<F: Fold>(_: &[F], what: What, values: impl Iterator<Item = u64>) -> Value {
    let mut state = F::default();
    values.for_each(|bits| state.add(bits));
    state.value(what)
}

/// What rows say of a column, where they say something; of none, that they are there.
#[inline]
fn bits(rows: &[u64], width: usize, column: Option<usize>) -> impl Iterator<Item = u64> {
    rows.chunks_exact(width).filter_map(move |row| match column {
        None => Some(0),
        Some(column) => (row[1] >> column & 1 != 0).then(|| row[2 + column]),
    })
}
