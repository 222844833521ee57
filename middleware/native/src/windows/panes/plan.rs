//! The plan of windows: their bounds, and what is read and calculated. One plan serves all keys.

use super::aggregate::What;

pub struct Plan {
    /// Sizes of the windows that end at one time.
    pub sizes: Vec<i64>,
    pub longest: i64,
    pub every: i64,
    pub offset: i64,
    /// For each column that is read whether it has floats; integers otherwise.
    pub floats: Vec<bool>,
    /// The aggregates and their columns; events are counted without one.
    pub aggregates: Vec<(What, Option<usize>)>,
}

impl Plan {
    /// The first end that is not before `ts`.
    #[inline]
    pub fn end(&self, ts: i64) -> i64 {
        -(self.offset - ts).div_euclid(self.every) * self.every + self.offset
    }

    /// The pane (start, end] of a time: no window begins or ends within it.
    pub fn pane(&self, ts: i64) -> (i64, i64) {
        let (before, end) = (self.end(ts) - self.every, self.end(ts));
        let starts = self.sizes.iter().map(|size| end - size.rem_euclid(self.every));
        let mut bounds = (before, end);
        for start in starts {
            if start < ts {
                bounds.0 = bounds.0.max(start);
            } else {
                bounds.1 = bounds.1.min(start);
            }
        }
        bounds
    }

    /// Whether an aggregate reads floats.
    pub fn is_float(&self, column: Option<usize>) -> bool {
        column.is_some_and(|column| self.floats[column])
    }

    /// Numbers a row takes: time, which columns are there, and the columns.
    pub fn width(&self) -> usize {
        2 + self.floats.len()
    }
}

/// An event as windows keep it: see `Plan::width`.
pub type Row = Vec<u64>;
