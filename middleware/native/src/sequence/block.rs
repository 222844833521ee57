//! Events that came as columns, with what matches need of them: no object an event, unless Python asks for one.

use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyList, PyString};

use super::rows::Cell;
use super::value::Value;
use crate::fiba::columns::numbers;
use crate::fiba::errors::same_length;
use crate::fields::{Field, Stamps};
use crate::search::in_time;

enum Cells {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Objects(Vec<Py<PyAny>>),
}

struct Column {
    name: Py<PyString>,
    cells: Cells,
    /// Which values are there; None: all.
    there: Option<Vec<u8>>,
}

/// Rows hold it as Python objects are held: counting them needs no atomic instruction, which waits for all that is to be stored.
#[pyclass(frozen)]
pub struct Block {
    /// The same as a sequence of events.
    events: Py<PyAny>,
    pub times: Vec<i64>,
    ids: Vec<i64>,
    sources: Vec<Py<PyString>>,
    /// Which source each is of; None: all are of the first.
    codes: Option<Vec<i64>>,
    columns: Vec<Column>,
}

type Spec<'py> = (
    Py<PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Vec<Py<PyString>>,
    Option<Bound<'py, PyAny>>,
    Vec<(Py<PyString>, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)>,
);

impl Block {
    /// From (events, times, ids, sources, codes or None, [(field, array or list, bytes or None)]).
    pub fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (events, times, ids, sources, codes, columns): Spec<'_> = spec.extract()?;
        let times = numbers::<i64>(&times)?;
        let length = times.len();
        let columns = columns.into_iter().map(|(name, values, there)| Column::new(name, &values, there.as_ref(), length));
        let block = Self {
            events,
            ids: numbers::<i64>(&ids)?,
            codes: codes.map(|codes| numbers::<i64>(&codes)).transpose()?,
            columns: columns.collect::<PyResult<_>>()?,
            sources,
            times,
        };
        same_length(length, block.ids.len())?;
        same_length(length, block.codes.as_ref().map_or(length, Vec::len))?;
        Ok(block)
    }

    /// The rows in order of time; those of one time in order of arrival.
    pub fn in_time(&self) -> Vec<usize> {
        in_time(self.times.len(), |row| self.times[row])
    }

    #[inline]
    fn column(&self, py: Python<'_>, name: &Py<PyString>) -> PyResult<&Column> {
        if let Some(found) = self.columns.iter().find(|each| each.name.is(name)) {
            return Ok(found);
        }
        let text = name.bind(py).to_str()?;
        for each in &self.columns {
            if each.name.bind(py).to_str()? == text {
                return Ok(each);
            }
        }
        Err(pyo3::exceptions::PyAttributeError::new_err(format!("the columns have no {text}")))
    }

    fn source(&self, row: usize) -> &Py<PyString> {
        let code = self.codes.as_ref().map_or(0, |codes| codes[row]);
        &self.sources[usize::try_from(code).expect("codes are not negative")]
    }
}

/// The one object for a text: names are then compared by address.
pub fn interned(name: &Bound<'_, PyString>) -> Py<PyString> {
    name.to_str().map_or_else(|_| name.clone().unbind(), |text| PyString::intern(name.py(), text).unbind())
}

impl Column {
    fn new(name: Py<PyString>, values: &Bound<'_, PyAny>, there: Option<&Bound<'_, PyAny>>, length: usize) -> PyResult<Self> {
        let name = interned(name.bind(values.py()));
        let cells = if let Ok(list) = values.cast::<PyList>() {
            Cells::Objects(list.iter().map(Bound::unbind).collect())
        } else if values.getattr(intern!(values.py(), "dtype"))?.getattr(intern!(values.py(), "kind"))?.eq("f")? {
            Cells::Floats(numbers(values)?)
        } else {
            Cells::Integers(numbers(values)?)
        };
        let there = there.map(|there| PyBuffer::<u8>::get(there)?.to_vec(there.py())).transpose()?;
        let count = match &cells {
            Cells::Integers(cells) => cells.len(),
            Cells::Floats(cells) => cells.len(),
            Cells::Objects(cells) => cells.len(),
        };
        same_length(length, count)?;
        same_length(length, there.as_ref().map_or(length, Vec::len))?;
        Ok(Self { name, cells, there })
    }

    #[inline]
    fn is_there(&self, row: usize) -> bool {
        self.there.as_ref().is_none_or(|there| there[row] != 0)
    }

    #[inline]
    fn value(&self, py: Python<'_>, row: usize) -> Value {
        match &self.cells {
            _ if !self.is_there(row) => Value::Null,
            Cells::Integers(cells) => Value::Int(cells[row]),
            Cells::Floats(cells) => Value::Float(cells[row]),
            Cells::Objects(cells) => Value::of(cells[row].bind(py)),
        }
    }

    fn object<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        match &self.cells {
            _ if !self.is_there(row) => Ok(py.None().into_bound(py)),
            Cells::Integers(cells) => cells[row].into_bound_py_any(py),
            Cells::Floats(cells) => cells[row].into_bound_py_any(py),
            Cells::Objects(cells) => Ok(cells[row].bind(py).clone()),
        }
    }
}

/// An event: an object, or a row of columns.
pub enum Held {
    Event(Py<PyAny>),
    Row(Py<Block>, usize),
}

impl Held {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Event(event) => Self::Event(event.clone_ref(py)),
            Self::Row(block, row) => Self::Row(block.clone_ref(py), *row),
        }
    }

    /// The object, made if there is none.
    pub fn event<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Event(event) => Ok(event.bind(py).clone()),
            Self::Row(block, row) => block.get().events.bind(py).get_item(row),
        }
    }

    pub fn attribute<'py>(&self, py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Event(event) => field.of(event.bind(py)),
            Self::Row(block, row) => block.get().column(py, field.name())?.object(py, *row),
        }
    }

    /// A field, as conditions read it.
    #[inline]
    pub fn value(&self, py: Python<'_>, field: &Field) -> PyResult<Value> {
        match self {
            Self::Event(event) => Ok(Value::of(&field.of(event.bind(py))?)),
            Self::Row(block, row) => Ok(block.get().column(py, field.name())?.value(py, *row)),
        }
    }

    /// A field, as columns of results take it.
    pub fn cell(&self, py: Python<'_>, field: &Field) -> PyResult<Cell> {
        let Self::Row(block, row) = self else { return Ok(Cell::of(self.attribute(py, field)?)) };
        let column = block.get().column(py, field.name())?;
        Ok(match &column.cells {
            _ if !column.is_there(*row) => Cell::Nothing,
            Cells::Integers(cells) => Cell::Integer(cells[*row]),
            Cells::Floats(cells) => Cell::Float(cells[*row]),
            Cells::Objects(cells) => Cell::Object(cells[*row].clone_ref(py)),
        })
    }

    /// A field that is a whole number of a column.
    #[inline]
    pub fn whole(&self, py: Python<'_>, field: &Field) -> PyResult<Option<i64>> {
        let Self::Row(block, row) = self else { return Ok(None) };
        let column = block.get().column(py, field.name())?;
        Ok(match &column.cells {
            Cells::Integers(cells) if column.is_there(*row) => Some(cells[*row]),
            _ => None,
        })
    }

    pub fn source<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        match self {
            Self::Event(event) => Stamps::get(py)?.source(event.bind(py)),
            Self::Row(block, row) => Ok(block.get().source(*row).bind(py).clone()),
        }
    }

    pub fn id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Event(event) => Stamps::get(py)?.id(event.bind(py)),
            Self::Row(block, row) => block.get().ids[*row].into_bound_py_any(py),
        }
    }

    /// Whether this is the event with that identity.
    pub fn is(&self, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = event.py();
        if let Self::Event(own) = self
            && own.is(event)
        {
            return Ok(true);
        }
        let stamps = Stamps::get(py)?;
        Ok(self.id(py)?.eq(stamps.id(event)?)? && self.source(py)?.as_any().eq(stamps.source(event)?)?)
    }
}
