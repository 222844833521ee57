//! Times as Python sees them: plain ones, and places in the total order.

use std::collections::{BTreeMap, HashMap};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::columns::numbers;
use crate::windows::fiba::monoid::Monoid;
use crate::windows::fiba::tree::{Time, Tree};

/// The number that stands for a time in the tree, and the conversions.
pub trait Stamps: Send + Sync + 'static {
    type Time: Time;

    /// Whether taking one may change what stands for those taken before.
    const MOVES: bool = false;

    fn take<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>) -> PyResult<Self::Time>;

    /// A time as a lower bound, which is included.
    fn low<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>) -> PyResult<Self::Time>;

    /// A time as an upper bound, which is included.
    fn high<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>) -> PyResult<Self::Time>;

    fn column<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>) -> PyResult<Vec<Self::Time>>;

    fn column_high<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, tree: &mut Tree<Self::Time, M>)
    -> PyResult<Vec<Self::Time>>;

    fn give<'py>(&self, py: Python<'py>, time: Self::Time) -> PyResult<Bound<'py, PyAny>>;
}

/// Plain times: 64-bit integers.
pub struct Plain;

impl Stamps for Plain {
    type Time = i64;

    #[inline]
    fn take<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<i64> {
        time.extract()
    }

    #[inline]
    fn low<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<i64> {
        time.extract()
    }

    #[inline]
    fn high<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<i64> {
        time.extract()
    }

    fn column<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<Vec<i64>> {
        numbers(times)
    }

    fn column_high<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, _: &mut Tree<i64, M>) -> PyResult<Vec<i64>> {
        numbers(times)
    }

    fn give<'py>(&self, py: Python<'py>, time: i64) -> PyResult<Bound<'py, PyAny>> {
        Ok(time.into_pyobject(py)?.into_any())
    }
}

/// A place in the total order of events. `source` is a label, sorted as (level, source) are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    ts: i64,
    source: u64,
    id: i64,
}

/// Labels are spread so that one fits between any two, nearly always.
const GAP: u64 = 1 << 40;

/// Places in the total order: (ts, source, id), or (ts, level, source, id). A bare ts is a bound: before or behind all at it.
#[derive(Default)]
pub struct Ordered {
    labels: HashMap<i64, HashMap<String, u64>>,
    names: BTreeMap<u64, (i64, String)>,
    /// Whether levels were given.
    levels: bool,
    /// How often labels were given out anew.
    spreads: u32,
}

impl Ordered {
    fn label<M: Monoid>(&mut self, level: i64, source: &str, tree: &mut Tree<Order, M>) -> u64 {
        if let Some(&label) = self.labels.get(&level).and_then(|sources| sources.get(source)) {
            return label;
        }
        let after = |(_, name): &(&u64, &(i64, String))| (name.0, name.1.as_str()) > (level, source);
        let next = self.names.iter().find(after).map(|(&label, _)| label);
        let previous = match next {
            Some(next) => self.names.range(..next).next_back(),
            None => self.names.iter().next_back(),
        };
        let label = match (previous.map(|(&label, _)| label), next) {
            (None, None) => u64::MAX / 2,
            (Some(previous), None) => previous.saturating_add(GAP),
            (previous, Some(next)) => previous.unwrap_or(0) + (next - previous.unwrap_or(0)) / 2,
        };
        if label == 0 || label == u64::MAX || self.names.contains_key(&label) {
            self.spread(tree);
            return self.label(level, source, tree);
        }
        self.names.insert(label, (level, source.to_owned()));
        self.labels.entry(level).or_default().insert(source.to_owned(), label);
        label
    }

    /// Give out all labels anew, evenly; the tree's times take theirs. O(n), and rare.
    fn spread<M: Monoid>(&mut self, tree: &mut Tree<Order, M>) {
        self.spreads += 1;
        let step = u64::MAX / (self.names.len() as u64 + 1);
        let mut new = HashMap::new();
        for (place, (label, (level, source))) in std::mem::take(&mut self.names).into_iter().enumerate() {
            let fresh = (place as u64 + 1) * step;
            new.insert(label, fresh);
            self.labels.entry(level).or_default().insert(source.clone(), fresh);
            self.names.insert(fresh, (level, source));
        }
        for time in &mut tree.times {
            time.source = new.get(&time.source).copied().unwrap_or_default();
        }
    }

    fn bound<M: Monoid>(
        &mut self,
        time: &Bound<'_, PyAny>,
        tree: &mut Tree<Order, M>,
        source: u64,
        id: i64,
    ) -> PyResult<Order> {
        match time.extract::<i64>() {
            Ok(ts) => Ok(Order { ts, source, id }),
            Err(_) => self.take(time, tree),
        }
    }
}

impl Stamps for Ordered {
    type Time = Order;

    const MOVES: bool = true;

    fn take<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Order, M>) -> PyResult<Order> {
        let time = time.cast::<PyTuple>()?;
        let (ts, level, source, id) = if time.len() == 4 {
            self.levels = true;
            time.extract::<(i64, i64, Bound<'_, PyAny>, i64)>()?
        } else {
            let (ts, source, id) = time.extract::<(i64, Bound<'_, PyAny>, i64)>()?;
            (ts, 0, source, id)
        };
        let source = self.label(level, source.extract::<&str>()?, tree);
        Ok(Order { ts, source, id })
    }

    fn low<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Order, M>) -> PyResult<Order> {
        self.bound(time, tree, 0, i64::MIN)
    }

    fn high<M: Monoid>(&mut self, time: &Bound<'_, PyAny>, tree: &mut Tree<Order, M>) -> PyResult<Order> {
        self.bound(time, tree, u64::MAX, i64::MAX)
    }

    fn column<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, tree: &mut Tree<Order, M>) -> PyResult<Vec<Order>> {
        let times: Vec<_> = times.try_iter()?.collect::<PyResult<_>>()?;
        loop {
            let spreads = self.spreads;
            let found = times.iter().map(|time| self.take(time, tree)).collect::<PyResult<Vec<_>>>()?;
            if spreads == self.spreads {
                return Ok(found);
            }
        }
    }

    fn column_high<M: Monoid>(&mut self, times: &Bound<'_, PyAny>, tree: &mut Tree<Order, M>) -> PyResult<Vec<Order>> {
        let times: Vec<_> = times.try_iter()?.collect::<PyResult<_>>()?;
        loop {
            let spreads = self.spreads;
            let found = times.iter().map(|time| self.high(time, tree)).collect::<PyResult<Vec<_>>>()?;
            if spreads == self.spreads {
                return Ok(found);
            }
        }
    }

    fn give<'py>(&self, py: Python<'py>, time: Order) -> PyResult<Bound<'py, PyAny>> {
        let (level, source) = &self.names[&time.source];
        if self.levels {
            Ok((time.ts, level, source, time.id).into_pyobject(py)?.into_any())
        } else {
            Ok((time.ts, source, time.id).into_pyobject(py)?.into_any())
        }
    }
}
