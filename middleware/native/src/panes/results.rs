//! New results in columns: no object a result, but for keys that are no integers.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::aggregate::Value;
use super::named::Named;
use super::states::Step;
use crate::fiba::columns::array;

/// Of more results the memory is not kept.
const MOST: usize = 1 << 17;

/// A column of values, with a byte for each that says whether there is one.
pub struct Cells {
    values: Values,
    there: Vec<u8>,
    /// Whole numbers beyond 64 bits, and their places.
    beyond: Vec<(usize, i128)>,
}

enum Values {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

impl Cells {
    fn new(is_float: bool) -> Self {
        let values = if is_float { Values::Floats(Vec::new()) } else { Values::Integers(Vec::new()) };
        Self { values, there: Vec::new(), beyond: Vec::new() }
    }

    fn resize(&mut self, count: usize) {
        match &mut self.values {
            Values::Floats(values) => values.resize(count, 0.0),
            Values::Integers(values) => values.resize(count, 0),
        }
        self.there.resize(count, 1);
    }

    #[inline]
    pub fn set(&mut self, place: usize, value: Value) {
        self.there[place] = u8::from(!matches!(value, Value::Nothing));
        match (&mut self.values, value) {
            (Values::Floats(values), Value::Float(value)) => values[place] = value,
            (Values::Integers(values), Value::Int(value)) => match i64::try_from(value) {
                Ok(value) => values[place] = value,
                Err(_) => self.beyond.push((place, value)),
            },
            _ => {}
        }
    }

    fn get(&self, place: usize) -> Value {
        match &self.values {
            _ if self.there[place] == 0 => Value::Nothing,
            Values::Floats(values) => Value::Float(values[place]),
            Values::Integers(values) => {
                let beyond = self.beyond.iter().find(|(at, _)| *at == place);
                Value::Int(beyond.map_or(i128::from(values[place]), |(_, value)| *value))
            }
        }
    }

    /// Values, and a byte for each that says whether it is there (None: all are).
    fn give<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let there = self.there.contains(&0).then(|| PyBytes::new(py, &self.there));
        let values = match &self.values {
            Values::Floats(values) => array(py, values)?,
            Values::Integers(values) => array(py, values)?,
        };
        (values, there).into_bound_py_any(py)
    }
}

/// New results, in order of time.
pub struct Results {
    lanes: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    /// Only for `columns`; here for its memory.
    ids: Vec<i64>,
    pub cells: Vec<Cells>,
}

impl Results {
    /// `floats`: for each aggregate whether it gives floats.
    pub fn new(floats: impl Iterator<Item = bool>) -> Self {
        let cells = floats.map(Cells::new).collect();
        Self { lanes: Vec::new(), starts: Vec::new(), ends: Vec::new(), ids: Vec::new(), cells }
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether a whole number among them is beyond 64 bits.
    pub fn is_beyond(&self) -> bool {
        self.cells.iter().any(|cells| !cells.beyond.is_empty())
    }

    pub fn clear(&mut self) {
        if self.len() > MOST {
            *self = Self::new(self.cells.iter().map(|cells| matches!(cells.values, Values::Floats(_))));
        }
        self.resize(0);
        self.cells.iter_mut().for_each(|cells| cells.beyond.clear());
    }

    fn resize(&mut self, count: usize) {
        self.lanes.resize(count, 0);
        self.starts.resize(count, 0);
        self.ends.resize(count, 0);
        for cells in &mut self.cells {
            cells.resize(count);
        }
    }

    /// Add the result of a window.
    pub fn push(&mut self, lane: usize, (start, end): (i64, i64), values: &[Value]) {
        let place = self.len();
        self.resize(place + 1);
        self.name(place, lane, start, end);
        for (cells, &value) in self.cells.iter_mut().zip(values) {
            cells.set(place, value);
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 keys")]
    fn name(&mut self, place: usize, lane: usize, start: i64, end: i64) {
        (self.lanes[place], self.starts[place], self.ends[place]) = (lane as u32, start, end);
    }

    /// Give each step a place behind all that are there, in order of their ends, and those of one end in their order here.
    pub fn place(&mut self, steps: &mut [Step], sizes: &[i64], every: i64) {
        let ends = || steps.iter().map(|step| step.end);
        let (Some(first), Some(last)) = (ends().min(), ends().max()) else { return };
        let known = self.len();
        let number = |end: i64| end.abs_diff(first) / every.cast_unsigned();
        if number(last) <= 2 * steps.len() as u64 {
            let mut places = vec![0; number(last) as usize + 2];
            for step in &mut *steps {
                step.place = number(step.end) as usize;
                places[step.place + 1] += 1;
            }
            places[0] = known;
            for end in 1..places.len() {
                places[end] += places[end - 1];
            }
            for step in &mut *steps {
                let next = &mut places[step.place];
                step.place = std::mem::replace(next, *next + 1);
            }
        } else {
            steps.sort_by_key(|step| step.end);
            steps.iter_mut().zip(known..).for_each(|(step, place)| step.place = place);
        }
        self.resize(known + steps.len());
        for step in steps {
            self.name(step.place, step.lane, step.end - sizes[step.size], step.end);
        }
    }

    /// A result: its lane, its window, and its values.
    pub fn get<'a>(&'a self, place: usize) -> (usize, (i64, i64), impl Iterator<Item = Value> + 'a) {
        let values = self.cells.iter().map(move |cells| cells.get(place));
        (self.lanes[place] as usize, (self.starts[place], self.ends[place]), values)
    }

    /// (columns of the keys' fields, starts, ends, columns of values, ids); None without results.
    ///
    /// The ids are hashed here and not one by one between other work: a hash reads what was just written in other pieces, and
    /// waits until all that is to be stored before has been.
    pub fn columns<'py>(&mut self, py: Python<'py>, named: &[Named], seed: u64) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(&first) = self.lanes.first() else { return Ok(None) };
        let lanes = self.lanes.iter().map(|&lane| lane as usize);
        let windows = self.starts.iter().zip(&self.ends);
        self.ids.clear();
        self.ids.extend(lanes.zip(windows).map(|(lane, (&start, &end))| named[lane].id(seed, start, end)));
        let fields = named[first as usize].shown.bind(py).len();
        let keys = (0..fields).map(|field| self.key_column(py, named, field)).collect::<PyResult<Vec<_>>>()?;
        let values = self.cells.iter().map(|cells| cells.give(py)).collect::<PyResult<Vec<_>>>()?;
        let columns = (keys, array(py, &self.starts)?, array(py, &self.ends)?, values, array(py, &self.ids)?);
        columns.into_pyobject(py).map(Some)
    }

    /// A field of the keys: an array, if all are 64-bit integers, else a list.
    fn key_column<'py>(&self, py: Python<'py>, named: &[Named], field: usize) -> PyResult<Bound<'py, PyAny>> {
        let named = self.lanes.iter().map(|&lane| &named[lane as usize]);
        if let Some(wholes) = named.clone().map(|each| each.whole).collect::<Option<Vec<_>>>().filter(|_| field == 0) {
            return array(py, &wholes);
        }
        let shown = named.map(|each| each.shown.bind(py).get_item(field));
        Ok(PyList::new(py, shown.collect::<PyResult<Vec<_>>>()?)?.into_any())
    }
}
