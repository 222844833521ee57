//! `middleware.native.BlockReader`: blocks of events, in rows or in columns, read into columns with no object for a value.

use std::ffi::CString;
use std::sync::{Arc, Mutex};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList, PyString};

use crate::block::batch::{Batch, Column, Texts, Values, is_set};
use crate::block::export::{Capsules, capsules};
use crate::block::naming::Naming;
use crate::block::wire::cursor::{Cursor, MAX_TS, is_time};
use crate::block::wire::ipc::{self, columns, schema_of, spelled};
use crate::block::wire::packing::{self, Stream};
use crate::event::fields::Maker;
use crate::event::wholes::Wholes;
use crate::ingress::python::take;
use crate::ingress::seen::Intervals;

/// What is in the last four fields of every event.
const STAMP: usize = 4;

/// Schemas known at once: one for each way in which columns are written.
const MOST_SCHEMAS: usize = 16;

/// As in `middleware.link.columnar`.
const MOST_ROWS: usize = 1 << 16;
pub const MOST_NAMES: usize = 8 << 20;

/// What a field holds.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Integer,
    Time,
    Float,
    Flag,
    Text,
}

/// A type whose events the core reads and writes.
pub struct Form {
    pub maker: Maker,
    /// Name, kind, and whether None may be there.
    pub fields: Vec<(Arc<CString>, Kind, bool)>,
    /// The schemas in Arrow's form with which blocks of the type are written: without levels, and with them.
    schemas: [Vec<u8>; 2],
}

impl Form {
    fn new(maker: Maker, fields: Vec<(Arc<CString>, Kind, bool)>) -> Self {
        let own = fields.len() - STAMP;
        let schema = |count| {
            packing::schema(fields[..count].iter().enumerate().map(|(at, (name, kind, is_nullable))| {
                let kind = match kind {
                    Kind::Integer | Kind::Time => packing::Kind::Integers,
                    Kind::Float => packing::Kind::Floats,
                    Kind::Flag => packing::Kind::Flags,
                    Kind::Text if at < own => packing::Kind::Texts,
                    Kind::Text => packing::Kind::Coded,
                };
                (name.as_c_str(), kind, *is_nullable)
            }))
        };
        Self { schemas: [schema(own + STAMP - 1), schema(own + STAMP)], maker, fields }
    }

    /// How many fields there are before the stamps.
    pub fn own(&self) -> usize {
        self.fields.len() - STAMP
    }

    /// What blocks of so many columns begin with.
    pub fn schema(&self, columns: usize) -> &[u8] {
        &self.schemas[usize::from(columns == self.fields.len())]
    }

    /// Columns of the type as a block; None if one of its stamps is of another kind.
    pub fn block(self: &Arc<Self>, rows: usize, columns: Vec<Column>) -> Option<Block> {
        whole(columns.get(self.own())?)?;
        whole(columns.get(self.own() + 1)?)?;
        if columns.len() == self.fields.len() {
            whole(columns.last()?)?;
        }
        Some(Block::of(Arc::new(Batch { rows, columns }), self.clone()))
    }
}

/// Reads blocks of one type.
#[pyclass(module = "middleware.native", frozen)]
pub struct BlockReader {
    form: Arc<Form>,
    /// The schemas in Arrow's form that are those of the type, and whether they have levels.
    schemas: Mutex<Vec<(Vec<u8>, bool)>>,
}

impl BlockReader {
    pub fn form(&self) -> &Arc<Form> {
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

/// The numbers of a column of whole ones.
pub fn whole(column: &Column) -> Option<&[i64]> {
    match &column.values {
        Values::Integers(values) => Some(values),
        _ => None,
    }
}

#[pymethods]
impl BlockReader {
    /// From what `middleware.model.columns.making.recipe` gives; None if the type has a field of another kind.
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
        let form = Form::new(maker, fields);
        let schemas = form.schemas.iter().cloned().zip([false, true]).collect();
        Ok(Some(Self { form: Arc::new(form), schemas: Mutex::new(schemas) }))
    }

    /// The rows of a block; None if it is anything but `rows` rows whose values all fit their fields as they are. O(bytes).
    fn read(&self, block: &[u8], rows: usize) -> Option<Block> {
        let mut cursor = Cursor::new(block);
        if cursor.array()? != rows || rows > block.len() {
            return None;
        }
        let (own, stamp) = self.form.fields.split_at(self.form.own());
        let mut columns: Vec<Building> = own.iter().map(|(_, kind, nullable)| Building::new(*kind, *nullable, rows)).collect();
        let [mut times, mut ids, mut levels] = [(); 3].map(|()| Vec::with_capacity(rows));
        let mut sources = Sources::new(rows);
        for _ in 0..rows {
            if cursor.array()? != self.form.fields.len() {
                return None;
            }
            for column in &mut columns {
                column.take(&mut cursor)?;
            }
            times.push(cursor.time()?);
            ids.push(cursor.integer()?);
            sources.take(cursor.text()?)?;
            levels.push(cursor.integer()?);
        }
        if !cursor.is_empty() {
            return None;
        }
        let has_levels = levels.iter().any(|level| *level != 0);
        let mut made: Vec<Column> =
            own.iter().zip(columns).map(|((name, _, nullable), column)| column.done(name.clone(), *nullable)).collect();
        let stamps = [Values::Integers(times), Values::Integers(ids), Values::Coded(sources.codes, sources.naming.names)];
        let stamps = stamps.into_iter().chain(has_levels.then_some(Values::Integers(levels)));
        made.extend(stamps.zip(stamp).map(|(values, (name, ..))| Column {
            name: name.clone(),
            is_nullable: false,
            there: None,
            values,
        }));
        self.form.block(rows, made)
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
        let last = self.form.fields.len() - usize::from(!has_levels);
        let stamp = self.form.own();
        let form = |at: usize, kind: Kind| match kind {
            Kind::Integer | Kind::Time => ipc::Form::Integers,
            Kind::Float => ipc::Form::Floats,
            Kind::Flag => ipc::Form::Flags,
            Kind::Text if at < stamp => ipc::Form::Texts,
            Kind::Text => ipc::Form::Coded,
        };
        let forms = self.form.fields[..last].iter().enumerate().map(|(at, (_, kind, nullable))| (form(at, *kind), *nullable));
        let found = columns(stream, rows.min(MOST_ROWS), forms)?;
        let mut made = Vec::with_capacity(last);
        for ((values, there), (name, kind, is_nullable)) in found.into_iter().zip(&self.form.fields) {
            let column = Column { name: name.clone(), is_nullable: *is_nullable, there, values };
            let are_times = *kind == Kind::Time;
            if spelled(&column.values) > MOST_NAMES || (are_times && !whole(&column)?.iter().all(is_time)) {
                return None;
            }
            made.push(column);
        }
        if made.len() < last || rows > MOST_ROWS {
            return None;
        }
        self.form.block(rows, made)
    }
}

/// The rows of a block, in columns.
#[pyclass(module = "middleware.native", frozen)]
pub struct Block {
    batch: Arc<Batch>,
    form: Arc<Form>,
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
    pub fn of(batch: Arc<Batch>, form: Arc<Form>) -> Self {
        let times = batch.columns.get(form.own()).and_then(whole).unwrap_or_default();
        let (oldest, newest) = times.iter().fold((MAX_TS, -MAX_TS), |(low, high), ts| (low.min(*ts), high.max(*ts)));
        let levels = batch.columns.get(form.own() + 3).and_then(whole).unwrap_or_default();
        let has_levels = levels.iter().any(|level| *level != 0);
        Self { batch, form, oldest, newest, has_levels }
    }

    pub fn batch(&self) -> &Arc<Batch> {
        &self.batch
    }

    pub fn form(&self) -> &Arc<Form> {
        &self.form
    }

    /// Times, ids, or levels, if some are not 0: by their place behind the fields.
    pub fn stamps(&self, at: usize) -> Option<&[i64]> {
        whole(self.batch.columns.get(self.form.own() + at)?)
    }

    /// The sources, by number.
    pub fn codes(&self) -> Option<(&[i32], &Texts)> {
        match &self.batch.columns.get(self.form.own() + 2)?.values {
            Values::Coded(codes, names) => Some((codes, names)),
            _ => None,
        }
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

/// A column as it is read.
struct Building {
    kind: Kind,
    values: Values,
    /// Bits, and how many are not set; None if all must be there.
    there: Option<(Vec<u8>, usize)>,
    rows: usize,
}

impl Building {
    fn new(kind: Kind, nullable: bool, rows: usize) -> Self {
        let values = match kind {
            Kind::Integer | Kind::Time => Values::Integers(Vec::with_capacity(rows)),
            Kind::Float => Values::Floats(Vec::with_capacity(rows)),
            Kind::Flag => Values::Flags(vec![0; rows.div_ceil(8)]),
            Kind::Text => Values::Texts(Texts::new()),
        };
        Self { kind, values, there: nullable.then(|| (vec![0; rows.div_ceil(8)], 0)), rows: 0 }
    }

    /// The next value.
    #[inline]
    fn take(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let row = self.rows;
        self.rows += 1;
        if let Some((bits, nulls)) = &mut self.there {
            if cursor.none() {
                *nulls += 1;
                match &mut self.values {
                    Values::Integers(values) => values.push(0),
                    Values::Floats(values) => values.push(0.0),
                    Values::Texts(texts) => texts.push(b"")?,
                    Values::Flags(_) | Values::Coded(..) => {}
                }
                return Some(());
            }
            bits[row / 8] |= 1 << (row % 8);
        }
        match &mut self.values {
            Values::Integers(values) if self.kind == Kind::Time => values.push(cursor.time()?),
            Values::Integers(values) => values.push(cursor.integer()?),
            Values::Floats(values) => values.push(cursor.float()?),
            Values::Flags(bits) => bits[row / 8] |= u8::from(cursor.flag()?) << (row % 8),
            Values::Texts(texts) => texts.push(cursor.text()?.as_bytes())?,
            Values::Coded(..) => return None,
        }
        Some(())
    }

    fn done(self, name: Arc<CString>, is_nullable: bool) -> Column {
        Column { name, is_nullable, there: self.there.filter(|(_, nulls)| *nulls > 0), values: self.values }
    }
}

/// The sources of events: mostly those of the event before.
struct Sources<'a> {
    naming: Naming<&'a [u8]>,
    codes: Vec<i32>,
    last: Option<(&'a str, i32)>,
}

impl<'a> Sources<'a> {
    fn new(rows: usize) -> Self {
        Self { naming: Naming::new(), codes: Vec::with_capacity(rows), last: None }
    }

    #[inline]
    fn take(&mut self, name: &'a str) -> Option<()> {
        let code = match self.last {
            Some((last, code)) if last == name => code,
            _ => self.naming.number(name.as_bytes())?,
        };
        self.last = Some((name, code));
        self.codes.push(code);
        Some(())
    }
}
