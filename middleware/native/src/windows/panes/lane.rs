//! The content of the windows of one key: rows in order of time, in one array.

use std::hint::select_unpredictable;
use std::ops::Range;

#[derive(Default)]
pub struct Lane {
    pub rows: Vec<u64>,
    /// Rows before this one were dropped.
    head: usize,
    /// The work that waits for this lane, while changes are taken.
    pub pending: Option<u32>,
    /// It holds nothing, and its number may be given to another key.
    pub is_free: bool,
}

impl Lane {
    #[inline]
    pub fn len(&self, width: usize) -> usize {
        self.total(width) - self.head
    }

    #[inline]
    pub fn ts(&self, row: usize, width: usize) -> i64 {
        self.rows[row * width].cast_signed()
    }

    #[inline]
    pub fn total(&self, width: usize) -> usize {
        self.rows.len() / width
    }

    /// The first row later than `ts`. O(log n), O(1) behind them all; no step waits for the processor to guess the next.
    #[inline]
    pub fn after(&self, ts: i64, width: usize) -> usize {
        let (mut low, mut count) = (self.head, self.len(width));
        if count == 0 || self.ts(low + count - 1, width) <= ts {
            return low + count;
        }
        while count > 1 {
            let half = count / 2;
            low = select_unpredictable(self.ts(low + half - 1, width) <= ts, low + half, low);
            count -= half;
        }
        low + usize::from(self.ts(low, width) <= ts)
    }

    /// Add a row behind all of its time: which of them is first never shows.
    #[inline]
    pub fn insert(&mut self, ts: i64, row: &[u64]) {
        let width = row.len();
        if self.rows.len() < width || self.rows[self.rows.len() - width].cast_signed() <= ts {
            append(&mut self.rows, row);
        } else {
            let at = self.after(ts, width) * width;
            self.rows.splice(at..at, row.iter().copied());
        }
    }

    /// Take out a row of the same content; false if there is none.
    pub fn remove(&mut self, ts: i64, row: &[u64]) -> bool {
        let width = row.len();
        let mut at = self.after(ts, width);
        while at > self.head && self.ts(at - 1, width) == ts {
            at -= 1;
            let place = at * width;
            if self.rows[place..place + width] == *row {
                self.rows.drain(place..place + width);
                return true;
            }
        }
        false
    }

    /// Forget rows up to `ts`; returns how many.
    pub fn drop_until(&mut self, ts: i64, width: usize) -> usize {
        let head = self.after(ts, width);
        let dropped = head - self.head;
        self.head = head;
        if self.head * 2 > self.total(width) {
            self.rows.drain(..self.head * width);
            self.head = 0;
        }
        dropped
    }

    /// Rows that are kept, as they are.
    pub fn content(&self, width: usize) -> &[u64] {
        &self.rows[self.head * width..]
    }

    pub fn refill(&mut self, rows: Vec<u64>) {
        (self.rows, self.head) = (rows, 0);
    }

    /// Where the rows of the window (start, end] are.
    #[inline]
    pub fn window(&self, start: i64, end: i64, width: usize) -> Range<usize> {
        self.after(start, width) * width..self.after(end, width) * width
    }
}

/// Add a row of a few numbers to others: one of a single column without a call.
#[inline]
pub fn append(rows: &mut Vec<u64>, row: &[u64]) {
    match *row {
        [ts, there, value] => rows.extend_from_slice(&[ts, there, value]),
        _ => rows.extend_from_slice(row),
    }
}
