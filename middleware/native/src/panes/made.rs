//! New results as columns: no object a result, but for keys that are no integers.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyTuple};

use super::aggregate::Value;
use super::lane::Lane;
use super::plan::Plan;
use crate::fiba::columns::array;

/// A column of values, all of one kind.
enum Values {
    /// Of either kind, until the first value comes.
    Unknown(usize),
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

/// A column of values, and for each whether there is one, once one is missing.
struct Cells {
    values: Values,
    there: Option<Vec<u8>>,
}

impl Cells {
    fn len(&self) -> usize {
        match &self.values {
            Values::Unknown(length) => *length,
            Values::Floats(values) => values.len(),
            Values::Integers(values) => values.len(),
        }
    }

    fn fits(&self, value: Value) -> bool {
        match (&self.values, value) {
            (_, Value::Nothing) => true,
            (Values::Unknown(_) | Values::Floats(_), Value::Float(_)) => true,
            (Values::Unknown(_) | Values::Integers(_), Value::Int(_)) => !value.is_beyond(),
            _ => false,
        }
    }

    #[inline]
    fn push(&mut self, value: Value) {
        let (length, is_there) = (self.len(), !matches!(value, Value::Nothing));
        if !is_there || self.there.is_some() {
            self.there.get_or_insert_with(|| vec![1; length]).push(u8::from(is_there));
        }
        if let Values::Unknown(length) = self.values {
            match value {
                Value::Float(_) => self.values = Values::Floats(vec![0.0; length]),
                Value::Int(_) => self.values = Values::Integers(vec![0; length]),
                Value::Nothing => {}
            }
        }
        match (&mut self.values, value) {
            (Values::Floats(values), Value::Float(value)) => values.push(value),
            (Values::Floats(values), _) => values.push(0.0),
            #[expect(clippy::cast_possible_truncation, reason = "what is beyond 64 bits does not fit")]
            (Values::Integers(values), Value::Int(value)) => values.push(value as i64),
            (Values::Integers(values), _) => values.push(0),
            (Values::Unknown(length), _) => *length += 1,
        }
    }

    /// Values (None: all are missing), and a byte for each that says whether it is there (None: all are).
    fn give<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let there = self.there.as_ref().map(|there| PyBytes::new(py, there));
        let values = match &self.values {
            Values::Unknown(_) => py.None().into_bound(py),
            Values::Floats(values) => array(py, values)?,
            Values::Integers(values) => array(py, values)?,
        };
        (values, there).into_bound_py_any(py)
    }
}

/// New results, in the order in which they were made.
pub struct Made {
    lanes: Vec<usize>,
    /// The first field of each key; None once one is no 64-bit integer.
    wholes: Option<Vec<i64>>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    values: Vec<Cells>,
}

impl Made {
    pub fn new(plan: &Plan) -> Self {
        let cells = || Cells { values: Values::Unknown(0), there: None };
        Self {
            lanes: Vec::new(),
            wholes: Some(Vec::new()),
            starts: Vec::new(),
            ends: Vec::new(),
            values: std::iter::repeat_with(cells).take(plan.aggregates.len()).collect(),
        }
    }

    /// Add the result of a window; false, with nothing added, if it has a value that does not fit its column.
    #[inline]
    pub fn push(&mut self, number: usize, lane: &Lane, (start, end): (i64, i64), values: &[Value]) -> bool {
        if !self.values.iter().zip(values).all(|(cells, &value)| cells.fits(value)) {
            return false;
        }
        for (cells, &value) in self.values.iter_mut().zip(values) {
            cells.push(value);
        }
        self.lanes.push(number);
        match (&mut self.wholes, lane.whole) {
            (Some(wholes), Some(whole)) => wholes.push(whole),
            (wholes, _) => *wholes = None,
        }
        self.starts.push(start);
        self.ends.push(end);
        true
    }

    /// (columns of the keys' fields, starts, ends, columns of values, ids); None without results.
    ///
    /// The ids are hashed here and not one by one between other work: a hash reads what was just written in other pieces, and
    /// waits until all that is to be stored before has been.
    pub fn columns<'py>(&self, py: Python<'py>, lanes: &[Lane], seed: u64) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(&first) = self.lanes.first() else { return Ok(None) };
        let windows = self.starts.iter().zip(&self.ends);
        let ids: Vec<i64> =
            self.lanes.iter().zip(windows).map(|(&lane, (&start, &end))| lanes[lane].id(seed, start, end)).collect();
        let fields = lanes[first].shown.bind(py).len();
        let keys = (0..fields).map(|field| self.key_column(py, lanes, field)).collect::<PyResult<Vec<_>>>()?;
        let values = self.values.iter().map(|cells| cells.give(py)).collect::<PyResult<Vec<_>>>()?;
        let columns = (keys, array(py, &self.starts)?, array(py, &self.ends)?, values, array(py, &ids)?);
        columns.into_pyobject(py).map(Some)
    }

    /// A field of the keys: an array, if all are 64-bit integers, else a list.
    fn key_column<'py>(&self, py: Python<'py>, lanes: &[Lane], field: usize) -> PyResult<Bound<'py, PyAny>> {
        if let Some(wholes) = self.wholes.as_ref().filter(|_| field == 0) {
            return array(py, wholes);
        }
        let shown = |&lane: &usize| lanes[lane].shown.bind(py).get_item(field);
        Ok(PyList::new(py, self.lanes.iter().map(shown).collect::<PyResult<Vec<_>>>()?)?.into_any())
    }
}

/// The first field of a key, if it is a 64-bit integer.
pub fn whole(shown: &Bound<'_, PyTuple>) -> Option<i64> {
    shown.get_item(0).ok()?.cast_exact::<PyInt>().ok()?.extract().ok()
}
