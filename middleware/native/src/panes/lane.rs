//! What the windows of one key hold: rows in order of time, in one array.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::aggregate::Value;
use super::made::whole;
use super::plan::Plan;
use super::running::Running;
use crate::msgpack::encode;

/// No window is due.
pub const NEVER: i64 = i64::MAX;

/// Rows looked at from either end before searching.
const NEAR: usize = 3;

/// Bytes of most prefixes, and of the bounds of windows.
const INLINE: usize = 14;
const BOUNDS: usize = 18;

/// The encoded identity of a window of this key, up to its start: most are short, and then lie in the lane itself.
enum Prefix {
    Short([u8; INLINE], usize),
    Long(Box<[u8]>),
}

impl Prefix {
    fn new(bytes: &[u8]) -> Self {
        if bytes.len() > INLINE {
            return Self::Long(bytes.into());
        }
        let mut short = [0; INLINE];
        short[..bytes.len()].copy_from_slice(bytes);
        Self::Short(short, bytes.len())
    }
}

pub struct Lane {
    pub key: Py<PyAny>,
    /// The key's fields, as results show them.
    pub shown: Py<PyTuple>,
    /// The first of them, if it is a 64-bit integer.
    pub whole: Option<i64>,
    prefix: Prefix,
    /// The end of the next window that is due.
    pub next: i64,
    rows: Vec<u64>,
    /// Rows before this one were dropped.
    head: usize,
    width: usize,
    /// The window that was published last, while its rows are the same.
    running: Option<Running>,
    /// The work that waits for this lane, while changes are taken.
    pub pending: Option<usize>,
    /// It holds nothing, and its number may be given to another key.
    pub is_free: bool,
}

impl Lane {
    pub fn new(key: Py<PyAny>, shown: &Bound<'_, PyTuple>, prefix: &[u8], width: usize) -> Self {
        let (whole, shown) = (whole(shown), shown.clone().unbind());
        Self {
            key,
            shown,
            whole,
            prefix: Prefix::new(prefix),
            next: NEVER,
            rows: Vec::new(),
            head: 0,
            width,
            running: None,
            pending: None,
            is_free: false,
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len() / self.width - self.head
    }

    #[inline]
    fn ts(&self, row: usize) -> i64 {
        self.rows[row * self.width].cast_signed()
    }

    fn total(&self) -> usize {
        self.rows.len() / self.width
    }

    /// The first row later than `ts`. O(log n), O(1) near either end, which is where windows begin and end.
    #[inline]
    fn after(&self, ts: i64) -> usize {
        let (mut low, mut high) = (self.head, self.total());
        for _ in 0..NEAR {
            if high == low || self.ts(high - 1) <= ts {
                return high;
            }
            high -= 1;
            if self.ts(low) > ts {
                return low;
            }
            low += 1;
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.ts(middle) <= ts {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The same, if no row before `low` is later. O(rows between).
    #[inline]
    fn after_from(&self, mut low: usize, ts: i64) -> usize {
        while low < self.total() && self.ts(low) <= ts {
            low += 1;
        }
        low
    }

    /// The time of the first row later than `ts`.
    pub fn first_after(&self, ts: i64) -> Option<i64> {
        let row = match &self.running {
            Some(running) if running.start <= ts => self.after_from(running.from, ts),
            _ => self.after(ts),
        };
        (row < self.total()).then(|| self.ts(row))
    }

    /// Add a row behind all of its time: which of them is first never shows.
    #[inline]
    pub fn insert(&mut self, ts: i64, row: &[u64]) {
        let place = self.after(ts);
        if self.running.as_ref().is_some_and(|running| running.to > place) {
            self.running = None;
        }
        let at = place * self.width;
        if at == self.rows.len() {
            self.rows.extend_from_slice(row);
        } else {
            self.rows.splice(at..at, row.iter().copied());
        }
    }

    /// Take out a row of the same content; false if there is none.
    pub fn remove(&mut self, ts: i64, row: &[u64]) -> bool {
        let mut at = self.after(ts);
        while at > self.head && self.ts(at - 1) == ts {
            at -= 1;
            let place = at * self.width;
            if self.rows[place..place + self.width] == *row {
                self.running = None;
                self.rows.drain(place..place + self.width);
                return true;
            }
        }
        false
    }

    /// Forget rows up to `ts`; returns how many.
    pub fn drop_until(&mut self, ts: i64) -> usize {
        let head = self.after(ts);
        let dropped = head - self.head;
        self.head = head;
        if self.head * 2 > self.total() {
            self.rows.drain(..self.head * self.width);
            self.running.take_if(|running| running.from < self.head);
            if let Some(running) = &mut self.running {
                running.from -= self.head;
                running.to -= self.head;
            }
            self.head = 0;
        }
        dropped
    }

    /// Rows that are kept, as they are.
    pub fn content(&self) -> &[u64] {
        &self.rows[self.head * self.width..]
    }

    pub fn refill(&mut self, rows: Vec<u64>) {
        (self.rows, self.head, self.running) = (rows, 0, None);
    }

    /// The results of the window (start, end]; None if it is empty. O(rows in it).
    pub fn results(&self, plan: &Plan, start: i64, end: i64) -> Option<Vec<Value>> {
        let (from, to) = (self.after(start), self.after(end));
        let mut values = Vec::new();
        (from < to).then(|| self.over(plan, (start, end), (from, to)).values(&mut values)).map(|()| values)
    }

    /// The same, for one window after another; false if it is empty. O(rows that enter and leave), mostly.
    #[inline]
    pub fn next_results(&mut self, plan: &Plan, start: i64, end: i64, values: &mut Vec<Value>) -> bool {
        let mut running = self.running.take_if(|running| running.start <= start && running.end <= end);
        let (from, to) = match &running {
            Some(running) => (self.after_from(running.from, start), self.after_from(running.to, end)),
            None => (self.after(start), self.after(end)),
        };
        if from == to {
            return false;
        }
        let running = match running.take_if(|running| running.go_on(plan, &self.rows, (start, end), (from, to))) {
            Some(running) => running,
            None => self.over(plan, (start, end), (from, to)),
        };
        running.values(values);
        self.running = Some(running);
        true
    }

    fn over(&self, plan: &Plan, window: (i64, i64), (from, to): (usize, usize)) -> Running {
        let mut running = Running::new(plan, window, from);
        running.fill(plan, &self.rows, to);
        running
    }

    /// The identity of a window: as `Origin.id(key, start, end)` in Python.
    pub fn id(&self, seed: u64, start: i64, end: i64) -> i64 {
        let mut bytes = [0; INLINE + BOUNDS];
        let known = match &self.prefix {
            Prefix::Short(prefix, known) => {
                bytes[..INLINE].copy_from_slice(prefix);
                *known
            }
            Prefix::Long(_) => 0,
        };
        let first = known + encode(start, &mut bytes[known..]);
        let total = first + encode(end, &mut bytes[first..]);
        match &self.prefix {
            Prefix::Short(..) => xxh3_64_with_seed(&bytes[..total], seed).cast_signed(),
            Prefix::Long(prefix) => xxh3_64_with_seed(&[prefix, &bytes[..total]].concat(), seed).cast_signed(),
        }
    }
}
