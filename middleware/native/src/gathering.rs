//! `middleware.native.Gathering`: events of several types, one after another, as columns of each.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString};

use crate::blocks::{Block, BlockReader, Form, Kind};
use crate::export::{Column, Texts, Values, bits};
use crate::ids::runs;

/// Most bytes in the name of a source: so readers take it in any block that is gathered.
const LONGEST_SOURCE: usize = 512;

/// Most events at once.
const MOST: usize = 1 << 14;

/// Most bytes of values at once: small beside the credit of a link.
const MOST_BYTES: usize = 512 << 10;

/// Times lie strictly between this and its negative.
const MAX_TS: i64 = 1 << 62;

/// Source, first and last id.
type Run = (String, i64, i64);

/// The events of one type: as a block, their identities as runs, and their places among all, 2 bytes each.
type Part<'py> = (Py<BlockReader>, Block, Option<Vec<Run>>, Bound<'py, PyBytes>);

#[pyclass(module = "middleware.native")]
pub struct Gathering {
    types: Vec<Growing>,
    count: usize,
    bytes: usize,
}

#[pymethods]
impl Gathering {
    #[new]
    fn new() -> Self {
        Self { types: Vec::new(), count: 0, bytes: 0 }
    }

    /// Take events of the type of this reader from now on.
    fn include(&mut self, py: Python<'_>, reader: Py<BlockReader>) {
        self.types.push(Growing::new(reader.get().form().clone(), reader.clone_ref(py)));
    }

    /// How many events there are.
    fn __len__(&self) -> usize {
        self.count
    }

    /// How many bytes their values take, about.
    #[getter]
    fn size(&self) -> usize {
        self.bytes
    }

    /// Add events, in this order; false, and none is added, if one of them has a value that does not go into its column as it
    /// is, is of a type that is not included, or derived, or if they would be too many. O(values).
    fn add(&mut self, events: &Bound<'_, PyList>) -> bool {
        let (count, bytes) = (self.count, self.bytes);
        let rows: Vec<_> = self.types.iter().map(|part| (part.ids.len(), part.names.len())).collect();
        let is_added = events.len() <= MOST - count && events.iter().try_for_each(|event| self.put(&event)).is_some();
        if !is_added || self.bytes > MOST_BYTES {
            self.types.iter_mut().zip(rows).for_each(|(part, (rows, names))| part.truncate(rows, names));
            (self.count, self.bytes) = (count, bytes);
            return false;
        }
        true
    }

    /// All events, by type, in the order in which those came first; none are left.
    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Part<'py>>> {
        (self.count, self.bytes) = (0, 0);
        let mut parts: Vec<_> = self.types.iter_mut().filter(|part| !part.ids.is_empty()).collect();
        parts.sort_by_key(|part| part.places[0]);
        parts.into_iter().map(|part| part.take(py)).collect()
    }
}

impl Gathering {
    #[inline]
    fn put(&mut self, event: &Bound<'_, PyAny>) -> Option<()> {
        let kind = event.get_type_ptr();
        let part = self.types.iter_mut().find(|part| part.form.maker.of().as_ptr() == kind.cast())?;
        self.bytes += part.put(event)?;
        if part.levels.last() != Some(&0) {
            return None;
        }
        part.places.push(u16::try_from(self.count).ok()?);
        self.count += 1;
        Some(())
    }
}

/// The events of one type.
struct Growing {
    form: Arc<Form>,
    reader: Py<BlockReader>,
    columns: Vec<Cells>,
    times: Vec<i64>,
    ids: Vec<i64>,
    codes: Vec<i32>,
    levels: Vec<i64>,
    names: Texts,
    known: HashMap<String, i32>,
    /// The source of the event before.
    last: Option<(Py<PyString>, i32)>,
    places: Vec<u16>,
}

impl Growing {
    fn new(form: Arc<Form>, reader: Py<BlockReader>) -> Self {
        Self {
            columns: form.fields[..form.own()].iter().map(|(_, kind, is_nullable)| Cells::new(*kind, *is_nullable)).collect(),
            times: Vec::new(),
            ids: Vec::new(),
            codes: Vec::new(),
            levels: Vec::new(),
            names: Texts::new(),
            known: HashMap::new(),
            last: None,
            places: Vec::new(),
            form,
            reader,
        }
    }

    /// Add an event; how many bytes its values take. None: it is half added.
    #[inline]
    fn put(&mut self, event: &Bound<'_, PyAny>) -> Option<usize> {
        let (maker, own) = (&self.form.maker, self.columns.len());
        let mut bytes = 8 * (own + 3);
        for (field, column) in self.columns.iter_mut().enumerate() {
            bytes += column.put(&maker.value(event, field)?)?;
        }
        let ts = whole(&maker.value(event, own)?).filter(|ts| -MAX_TS < *ts && *ts < MAX_TS)?;
        let id = whole(&maker.value(event, own + 1)?)?;
        let source = maker.value(event, own + 2)?.cast_into_exact::<PyString>().ok()?;
        let level = whole(&maker.value(event, own + 3)?)?;
        let code = match &self.last {
            Some((last, code)) if last.is(&source) => *code,
            _ => self.code(source)?,
        };
        self.times.push(ts);
        self.ids.push(id);
        self.codes.push(code);
        self.levels.push(level);
        Some(bytes)
    }

    fn code(&mut self, source: Bound<'_, PyString>) -> Option<i32> {
        let name = source.to_str().ok().filter(|name| name.len() <= LONGEST_SOURCE)?;
        let code = match self.known.get(name) {
            Some(code) => *code,
            None => {
                let code = i32::try_from(self.names.len()).ok()?;
                self.names.push(name.as_bytes())?;
                self.known.insert(name.to_owned(), code);
                code
            }
        };
        self.last = Some((source.unbind(), code));
        Some(code)
    }

    /// Forget all events from this one on, and the names of sources from that one on.
    fn truncate(&mut self, rows: usize, names: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        self.times.truncate(rows);
        self.ids.truncate(rows);
        self.codes.truncate(rows);
        self.levels.truncate(rows);
        self.places.truncate(rows);
        self.names.truncate(names);
        self.known.retain(|_, code| (*code as usize) < names);
        self.last = None;
    }

    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Part<'py>> {
        let reader = self.reader.clone_ref(py);
        let done = mem::replace(self, Self::new(self.form.clone(), reader.clone_ref(py)));
        let rows = done.ids.len();
        let entries = done.codes.iter().zip(&done.ids).enumerate().map(|(at, (code, id))| (code.cast_unsigned(), *id, at));
        let runs = runs(entries.collect(), rows / 4 + 1).map(|runs| {
            let name = |at| String::from_utf8_lossy(done.names.get(at)).into_owned();
            runs.into_iter().map(|(at, first, last)| (name(at), first, last)).collect()
        });
        let places: Vec<u8> = done.places.iter().flat_map(|place| place.to_le_bytes()).collect();
        Ok((reader, done.block()?, runs, PyBytes::new(py, &places)))
    }

    fn block(self) -> PyResult<Block> {
        let rows = self.ids.len();
        let has_levels = self.levels.iter().any(|level| *level != 0);
        let stamps = [Values::Integers(self.times), Values::Integers(self.ids), Values::Coded(self.codes, self.names)];
        let stamps = stamps.into_iter().chain(has_levels.then_some(Values::Integers(self.levels)));
        let cells = self.columns.into_iter().map(Cells::done).chain(stamps.map(|values| (None, values)));
        let columns = self.form.fields.iter().zip(cells).map(|((name, _, is_nullable), (there, values))| Column {
            name: name.clone(),
            is_nullable: *is_nullable,
            there,
            values,
        });
        self.form.block(rows, columns.collect()).ok_or_else(|| PyValueError::new_err("events without stamps"))
    }
}

/// Events of the type of a reader as columns; None if one has a value that does not go into its column as it is. O(values).
#[pyfunction]
pub fn in_columns(reader: &Bound<'_, BlockReader>, events: &Bound<'_, PyList>) -> PyResult<Option<Block>> {
    let mut part = Growing::new(reader.get().form().clone(), reader.clone().unbind());
    let of = part.form.maker.of().as_ptr();
    for event in events.iter() {
        if event.get_type_ptr().cast() != of || part.put(&event).is_none() {
            return Ok(None);
        }
    }
    part.block().map(Some)
}

fn whole(value: &Bound<'_, PyAny>) -> Option<i64> {
    value.cast_exact::<PyInt>().ok()?.extract().ok()
}

/// The values of a field.
struct Cells {
    kind: Kind,
    values: Values,
    /// Whether each is there; None if all must be.
    there: Option<Vec<u8>>,
}

impl Cells {
    fn new(kind: Kind, is_nullable: bool) -> Self {
        let values = match kind {
            Kind::Integer | Kind::Time => Values::Integers(Vec::new()),
            Kind::Float => Values::Floats(Vec::new()),
            Kind::Flag => Values::Flags(Vec::new()), // a byte for each, until they are done
            Kind::Text => Values::Texts(Texts::new()),
        };
        Self { kind, values, there: is_nullable.then(Vec::new) }
    }

    /// Add a value; how many bytes it takes besides a number's.
    #[inline]
    fn put(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        if let Some(there) = &mut self.there {
            let is_there = !value.is_none();
            there.push(is_there.into());
            if !is_there {
                match &mut self.values {
                    Values::Integers(values) => values.push(0),
                    Values::Floats(values) => values.push(0.0),
                    Values::Flags(values) => values.push(0),
                    Values::Texts(texts) => texts.push(b"")?,
                    Values::Coded(..) => {}
                }
                return Some(0);
            }
        }
        match &mut self.values {
            Values::Integers(values) => {
                let is_time = self.kind == Kind::Time;
                values.push(whole(value).filter(|ts| !is_time || (-MAX_TS < *ts && *ts < MAX_TS))?);
            }
            Values::Floats(values) => values.push(match value.cast_exact::<PyFloat>() {
                Ok(float) => float.value(),
                Err(_) => whole(value).filter(|whole| whole.unsigned_abs() <= 1 << 53)? as f64,
            }),
            Values::Flags(values) => values.push(value.cast_exact::<PyBool>().ok()?.is_true().into()),
            Values::Texts(texts) => {
                let text = value.cast_exact::<PyString>().ok()?.to_str().ok()?;
                texts.push(text.as_bytes())?;
                return Some(text.len());
            }
            Values::Coded(..) => return None,
        }
        Some(0)
    }

    fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Integers(values) => values.truncate(rows),
            Values::Floats(values) => values.truncate(rows),
            Values::Flags(values) => values.truncate(rows),
            Values::Texts(texts) => texts.truncate(rows),
            Values::Coded(codes, _) => codes.truncate(rows),
        }
        if let Some(there) = &mut self.there {
            there.truncate(rows);
        }
    }

    fn done(self) -> (Option<(Vec<u8>, usize)>, Values) {
        let there = self.there.and_then(|there| {
            let missing = there.iter().filter(|is_there| **is_there == 0).count();
            (missing > 0).then(|| (bits(&there), missing))
        });
        let values = match self.values {
            Values::Flags(flags) => Values::Flags(bits(&flags)),
            values => values,
        };
        (there, values)
    }
}
