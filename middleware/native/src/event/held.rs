//! What a barrier holds back. `tests.oracles.held_events` says what it means.

use std::cmp::{Ordering, Reverse};
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::event::fields::Stamps;
use crate::hashing::Scattered;

/// With more names than this, they are forgotten as soon as nothing is held.
const MANY: usize = 1_024;

/// An event that came, by its order. The number says which of several under one identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    ts: i64,
    level: i64,
    id: i64,
    source: i64,
    number: u64,
}

/// Numbers for names of sources.
#[derive(Default)]
struct Sources {
    names: Vec<String>,
    numbers: HashMap<String, i64>,
    last: Option<(Py<PyString>, i64)>,
}

impl Sources {
    fn number(&mut self, name: Bound<'_, PyString>) -> PyResult<i64> {
        if let Some((last, number)) = &self.last
            && last.is(&name)
        {
            return Ok(*number);
        }
        let text = name.to_str()?;
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => {
                let next = i64::try_from(self.names.len()).expect("names are held in memory");
                self.names.push(text.to_owned());
                self.numbers.insert(text.to_owned(), next);
                next
            }
        };
        self.last = Some((name.unbind(), number));
        Ok(number)
    }

    /// The total order of events.
    fn order(&self, one: &Arrival, other: &Arrival) -> Ordering {
        let name = |arrival: &Arrival| &self.names[usize::try_from(arrival.source).expect("numbers of names")];
        (one.ts, one.level)
            .cmp(&(other.ts, other.level))
            .then_with(|| if one.source == other.source { Ordering::Equal } else { name(one).cmp(name(other)) })
            .then(one.id.cmp(&other.id))
    }
}

#[pyclass(module = "middleware.native")]
#[derive(Default)]
pub struct HeldEvents {
    /// The events that stand, by source and id, each with the number of its arrival.
    standing: Scattered<(i64, i64), (u64, Py<PyAny>)>,
    /// Arrivals in order of time, and those that came behind a later one.
    ahead: VecDeque<Arrival>,
    behind: BinaryHeap<Reverse<Arrival>>,
    sources: Sources,
    arrivals: u64,
}

#[pymethods]
impl HeldEvents {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.standing.len()
    }

    fn __contains__(&mut self, identity: (Bound<'_, PyString>, i64)) -> PyResult<bool> {
        let (source, id) = identity;
        Ok(self.standing.contains_key(&(self.sources.number(source)?, id)))
    }

    fn hold(&mut self, events: &Bound<'_, PyList>, above: i64) -> PyResult<usize> {
        let stamps = Stamps::get(events.py())?;
        let mut refused = 0;
        for event in events {
            let ts = stamps.ts(&event)?;
            if ts <= above {
                refused += 1;
                continue;
            }
            let (id, source) = (stamps.id(&event)?.extract()?, self.sources.number(stamps.source(&event)?)?);
            self.arrivals += 1;
            let arrival = Arrival { ts, level: stamps.level(&event)?, id, source, number: self.arrivals };
            self.standing.insert((source, id), (self.arrivals, event.unbind()));
            if self.ahead.back().is_none_or(|last| last.ts <= ts) {
                self.ahead.push_back(arrival);
            } else {
                self.behind.push(Reverse(arrival));
            }
        }
        Ok(refused)
    }

    #[pyo3(signature = (event, of_any_type = false))]
    fn discard(&mut self, event: &Bound<'_, PyAny>, of_any_type: bool) -> PyResult<bool> {
        let stamps = Stamps::get(event.py())?;
        let identity = (self.sources.number(stamps.source(event)?)?, stamps.id(event)?.extract()?);
        let Entry::Occupied(held) = self.standing.entry(identity) else { return Ok(false) };
        if !of_any_type && !held.get().1.bind(event.py()).get_type().is(event.get_type()) {
            return Ok(false);
        }
        held.remove();
        Ok(true)
    }

    fn release<'py>(&mut self, py: Python<'py>, until: i64) -> PyResult<Bound<'py, PyList>> {
        let mut free = Vec::new();
        while self.ahead.front().is_some_and(|first| first.ts <= until) {
            free.extend(self.ahead.pop_front());
        }
        while let Some(Reverse(arrival)) = self.behind.peek().copied()
            && arrival.ts <= until
        {
            self.behind.pop();
            free.push(arrival);
        }
        free.sort_by(|one, other| self.sources.order(one, other));
        let mut events = Vec::with_capacity(free.len());
        for Arrival { source, id, number, .. } in free {
            if let Entry::Occupied(held) = self.standing.entry((source, id))
                && held.get().0 == number
            {
                events.push(held.remove().1);
            }
        }
        if self.standing.is_empty() && self.sources.names.len() > MANY {
            self.clear();
        }
        PyList::new(py, events)
    }

    fn clear(&mut self) {
        *self = Self { arrivals: self.arrivals, ..Self::default() };
    }

    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.standing.values().map(|(_, event)| event.bind(py)))
    }
}
