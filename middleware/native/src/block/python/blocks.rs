//! `middleware.native.BlockReader`: blocks of events, in rows or in columns, read into columns with no object for a value.

use std::ffi::CString;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList, PyString};

use crate::block::batch::{Batch, Column, Texts, Values, is_set};
use crate::block::form::{Form, Kind, whole};
use crate::block::python::export::{Capsules, capsules};
use crate::block::wire::cursor::MAX_TS;
use crate::block::wire::ipc::schema_of;
use crate::block::wire::packing::{self, Stream};
use crate::event::python::fields::Maker;
use crate::event::python::wholes::Wholes;
use crate::ingress::python::take;
use crate::ingress::seen::Intervals;

/// Schemas known at once: one for each way in which columns are written.
const MOST_SCHEMAS: usize = 16;

/// A type whose events the core reads, writes and makes.
pub struct EventForm {
    pub maker: Maker,
    form: Form,
}

impl Deref for EventForm {
    type Target = Form;

    fn deref(&self) -> &Form {
        &self.form
    }
}

/// Reads blocks of one type.
#[pyclass(module = "middleware.native", frozen)]
pub struct BlockReader {
    form: Arc<EventForm>,
    /// The schemas in Arrow's form that are those of the type, and whether they have levels.
    schemas: Mutex<Vec<(Vec<u8>, bool)>>,
}

impl BlockReader {
    pub fn form(&self) -> &Arc<EventForm> {
        &self.form
    }

    /// The stream behind a schema that is known, and whether it has levels.
    fn known<'a>(&self, block: &'a [u8]) -> Option<(&'a [u8], bool)> {
        let schemas = self.schemas.lock().ok()?;
        schemas.iter().find_map(|(schema, has_levels)| Some((block.strip_prefix(schema.as_slice())?, *has_levels)))
    }
}

/// A stream as bytes of Python: what its columns hold is copied once.
pub fn streamed<'py>(py: Python<'py>, stream: &Stream<'_>) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, stream.size(), |out| {
        stream.write(out);
        Ok(())
    })
}

#[pymethods]
impl BlockReader {
    /// From what `middleware.model.block.recipe.recipe` gives; None if the type has a field of another kind.
    #[staticmethod]
    fn of(recipe: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(maker) = Maker::new(recipe)? else { return Ok(None) };
        let (_, given): (Bound<'_, PyAny>, Vec<(String, String, bool)>) = recipe.extract()?;
        let mut fields = Vec::with_capacity(given.len());
        for (name, takes, nullable) in given {
            let kind = match takes.as_str() {
                "int" | "long" => Kind::Integer,
                "time" => Kind::Time,
                "float" => Kind::Float,
                "bool" => Kind::Flag,
                "str" => Kind::Text,
                _ => return Ok(None),
            };
            let name = CString::new(name).map_err(|_| PyValueError::new_err("a name with a zero byte"))?;
            fields.push((Arc::new(name), kind, nullable));
        }
        let form = EventForm { maker, form: Form::new(fields) };
        let schemas = form.schemas.iter().cloned().zip([false, true]).collect();
        Ok(Some(Self { form: Arc::new(form), schemas: Mutex::new(schemas) }))
    }

    /// The rows of a block; None if it is anything but `rows` rows whose values all fit their fields as they are. O(bytes).
    fn read(&self, block: &[u8], rows: usize) -> Option<Block> {
        self.form.read_rows(block, rows).map(|batch| Block::of(Arc::new(batch), self.form.clone()))
    }

    /// Note that blocks in columns with the schema of this one have just the columns of the type.
    fn accept(&self, block: &[u8], has_levels: bool) {
        let Ok(mut schemas) = self.schemas.lock() else { return };
        if let Some(schema) = schema_of(block).filter(|_| schemas.len() < MOST_SCHEMAS && !block.is_empty()) {
            schemas.push((schema.to_vec(), has_levels));
        }
    }

    /// The columns of a block; None if its schema is not known, or it is anything but `rows` sound rows. O(bytes).
    fn read_columns(&self, block: &[u8], rows: usize) -> Option<Block> {
        let (stream, has_levels) = self.known(block)?;
        self.form.read_columns(stream, rows, has_levels).map(|batch| Block::of(Arc::new(batch), self.form.clone()))
    }
}

/// The rows of a block, in columns.
#[pyclass(module = "middleware.native", name = "CoreBlock", frozen)]
pub struct Block {
    batch: Arc<Batch>,
    form: Arc<EventForm>,
    /// The earliest and the latest time; 2**62 and -2**62 if there are no rows.
    #[pyo3(get)]
    oldest: i64,
    #[pyo3(get)]
    newest: i64,
    /// Whether some level is not 0.
    #[pyo3(get)]
    has_levels: bool,
}

impl Block {
    /// Columns whose stamps are of the kinds that they should be.
    pub fn of(batch: Arc<Batch>, form: Arc<EventForm>) -> Self {
        let times = form.stamps(&batch, 0).unwrap_or_default();
        let (oldest, newest) = times.iter().fold((MAX_TS, -MAX_TS), |(low, high), ts| (low.min(*ts), high.max(*ts)));
        let levels = form.stamps(&batch, 3).unwrap_or_default();
        let has_levels = levels.iter().any(|level| *level != 0);
        Self { batch, form, oldest, newest, has_levels }
    }

    pub fn batch(&self) -> &Arc<Batch> {
        &self.batch
    }

    pub fn form(&self) -> &Arc<EventForm> {
        &self.form
    }

    /// Times, ids, or levels, if some are not 0: by their place behind the fields.
    pub fn stamps(&self, at: usize) -> Option<&[i64]> {
        self.form.stamps(&self.batch, at)
    }

    /// The sources, by number.
    pub fn codes(&self) -> Option<(&[i32], &Texts)> {
        self.form.codes(&self.batch)
    }
}

#[pymethods]
impl Block {
    fn __len__(&self) -> usize {
        self.batch.rows
    }

    /// How many bytes the values take. O(columns).
    #[getter]
    fn size(&self) -> usize {
        self.batch.columns.iter().map(|column| column.size()).sum()
    }

    /// The times, of 8 bytes each. O(rows).
    fn times<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let times = self.stamps(0).unwrap_or_default();
        PyBytes::new_with(py, times.len() * 8, |bytes| {
            bytes.chunks_exact_mut(8).zip(times).for_each(|(chunk, ts)| chunk.copy_from_slice(&ts.to_ne_bytes()));
            Ok(())
        })
    }

    /// The names of the sources, each once.
    fn sources(&self) -> Vec<String> {
        let names = self.codes().map_or(&[][..], |(_, names)| &names.ends[..]).len().saturating_sub(1);
        let text = |at| String::from_utf8_lossy(self.codes()?.1.get(at)).into_owned().into();
        (0..names).filter_map(text).collect()
    }

    /// Add the identities to the intervals of their sources: see `take_ids`.
    fn take_ids<'py>(&self, py: Python<'py>, of: Vec<Bound<'py, Intervals>>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let codes = self.codes().map_or(&[][..], |(codes, _)| codes);
        take(py, self.stamps(1).unwrap_or_default(), codes.iter().map(|code| code.cast_unsigned()), &of)
    }

    /// As a block in columns, which a reader of the type knows. O(values).
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let columns = self.batch.columns.iter().map(packing::Shown::from);
        streamed(py, &Stream::new(self.form.schema(self.batch.columns.len()), self.batch.rows, columns))
    }

    /// As a block in rows. O(values).
    fn rows<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &packing::rows(&self.batch, self.form.fields.len()))
    }

    /// For Arrow, which shares the columns.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(&self, py: Python<'py>, requested_schema: Option<&Bound<'_, PyAny>>) -> PyResult<Capsules<'py>> {
        let _ = requested_schema; // it may be ignored
        capsules(py, &self.batch)
    }

    /// The events from place `start` to before `stop`. O(values).
    fn events<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyList>> {
        let fields: Vec<Field<'py, '_>> =
            self.batch.columns.iter().map(|column| Field::new(py, column, start)).collect::<PyResult<_>>()?;
        let zero = 0.into_bound_py_any(py)?;
        let stop = stop.min(self.batch.rows);
        let mut made = Vec::with_capacity(stop.saturating_sub(start));
        for row in start..stop {
            let value = |field: usize| fields.get(field).map_or_else(|| Ok(zero.clone()), |field| field.get(py, row));
            made.push(self.form.maker.filled(py, value)?);
        }
        PyList::new(py, made)
    }
}

/// A column whose values become objects.
struct Field<'py, 'a> {
    column: &'a Column,
    /// The texts that it numbers.
    names: Vec<Bound<'py, PyString>>,
    wholes: Wholes<'py>,
}

impl<'py, 'a> Field<'py, 'a> {
    /// For the values from a row on.
    fn new(py: Python<'py>, column: &'a Column, start: usize) -> PyResult<Self> {
        let wholes = Wholes::of(whole(column).and_then(|values| values.get(start..)).unwrap_or_default());
        let names = match &column.values {
            Values::Coded(_, names) => (0..names.len()).map(|at| text_of(py, names.get(at))).collect::<PyResult<_>>()?,
            _ => Vec::new(),
        };
        Ok(Self { column, names, wholes })
    }

    #[inline]
    fn get(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        if self.column.there.as_ref().is_some_and(|(bits, _)| !is_set(bits, row)) {
            return Ok(py.None().into_bound(py));
        }
        match &self.column.values {
            Values::Integers(values) => self.wholes.object(py, values[row]),
            Values::Floats(values) => values[row].into_bound_py_any(py),
            Values::Flags(bits) => Ok(PyBool::new(py, is_set(bits, row)).to_owned().into_any()),
            Values::Texts(texts) => Ok(text_of(py, texts.get(row))?.into_any()),
            Values::Coded(codes, _) => Ok(self.names[codes[row] as usize].clone().into_any()),
        }
    }
}

fn text_of<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyString>> {
    PyString::from_bytes(py, text)
}
