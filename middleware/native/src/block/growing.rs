//! Events of one type as columns that grow.

use std::mem;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::block::arrow;
use crate::block::batch::{Column, Values};
use crate::block::blocks::{Block, BlockReader, Form};
use crate::block::cells::{Cells, whole};
use crate::block::naming::Naming;
use crate::block::tables::Rows;
use crate::block::wire::cursor::is_time;
use crate::ingress::ids::runs;

/// Most bytes in the name of a source, as in model/event.py: a node rejects longer ones.
const LONGEST_SOURCE: usize = 256;

/// Source, first and last id.
type Run = (String, i64, i64);

/// The events of one type: as a block, their identities as runs, and their places among all, 2 bytes each.
pub type Part<'py> = (Py<BlockReader>, Block, Option<Vec<Run>>, Bound<'py, PyBytes>);

/// The events of one type.
pub struct Growing {
    pub form: Arc<Form>,
    reader: Py<BlockReader>,
    columns: Vec<Cells>,
    times: Vec<i64>,
    ids: Vec<i64>,
    codes: Vec<i32>,
    levels: Vec<i64>,
    sources: Naming<Box<[u8]>>,
    /// The source of the event before.
    last: Option<(Py<PyString>, i32)>,
    /// The place of each among all that came with it, if there are others.
    pub places: Vec<u16>,
}

impl Growing {
    pub fn new(form: Arc<Form>, reader: Py<BlockReader>) -> Self {
        Self {
            columns: form.fields[..form.own()].iter().map(|(_, kind, is_nullable)| Cells::new(*kind, *is_nullable)).collect(),
            times: Vec::new(),
            ids: Vec::new(),
            codes: Vec::new(),
            levels: Vec::new(),
            sources: Naming::new(),
            last: None,
            places: Vec::new(),
            form,
            reader,
        }
    }

    /// How many events there are, and how many sources.
    pub fn size(&self) -> (usize, usize) {
        (self.ids.len(), self.sources.names.len())
    }

    /// Whether the last event is not derived.
    pub fn is_raw(&self) -> bool {
        self.levels.last() == Some(&0)
    }

    /// Add an event; how many bytes its values take. None: it is half added.
    #[inline]
    pub fn put(&mut self, event: &Bound<'_, PyAny>) -> Option<usize> {
        let (maker, own) = (&self.form.maker, self.columns.len());
        let mut bytes = 8 * (own + 3);
        for (field, column) in self.columns.iter_mut().enumerate() {
            bytes += column.put(&maker.value(event, field)?)?;
        }
        let ts = whole(&maker.value(event, own)?).filter(is_time)?;
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
        let code = self.number(source.to_str().ok()?)?;
        self.last = Some((source.unbind(), code));
        Some(code)
    }

    /// The number of a source.
    fn number(&mut self, name: &str) -> Option<i32> {
        if name.len() > LONGEST_SOURCE { None } else { self.sources.number(name.as_bytes()) }
    }

    /// Add the rows of a table, but for their places; how many bytes their values take. None: they are half added.
    pub fn put_rows(&mut self, rows: &Rows<'_>, source: &str, number: &mut i64) -> Option<usize> {
        let count = rows.times.len();
        let mut bytes = 8 * (self.columns.len() + 3) * count;
        for (column, given) in self.columns.iter_mut().zip(&rows.own) {
            bytes += column.extend(given, count)?;
        }
        if !rows.times.iter().all(is_time) {
            return None;
        }
        self.times.extend_from_slice(&rows.times);
        match &rows.ids {
            Some(ids) => self.ids.extend_from_slice(ids),
            None => {
                let after = number.checked_add(i64::try_from(count).ok()?)?;
                self.ids.extend(*number..after);
                *number = after;
            }
        }
        self.put_sources(rows.sources, source, count)?;
        self.levels.resize(self.ids.len(), 0);
        Some(bytes)
    }

    fn put_sources(&mut self, given: Option<arrow::Column<'_>>, source: &str, count: usize) -> Option<()> {
        let Some(column) = given else {
            let code = self.number(source)?;
            self.codes.resize(self.codes.len() + count, code);
            return Some(());
        };
        let before = self.sources.names.len();
        self.sources.add(column, 0..count, &mut self.codes)?;
        let names = &self.sources.names;
        (before..names.len()).all(|at| names.get(at).len() <= LONGEST_SOURCE).then_some(())
    }

    /// Forget all events from this one on, and the names of sources from that one on.
    pub fn truncate(&mut self, rows: usize, names: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        self.times.truncate(rows);
        self.ids.truncate(rows);
        self.codes.truncate(rows);
        self.levels.truncate(rows);
        self.places.truncate(rows);
        self.sources.truncate(names);
        self.last = None;
    }

    pub fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Part<'py>> {
        let reader = self.reader.clone_ref(py);
        let done = mem::replace(self, Self::new(self.form.clone(), reader.clone_ref(py)));
        let rows = done.ids.len();
        let codes = done.codes.iter().map(|code| code.cast_unsigned());
        let runs = runs(&done.ids, codes, rows / 4 + 1).map(|runs| {
            let name = |at| String::from_utf8_lossy(done.sources.names.get(at)).into_owned();
            runs.into_iter().map(|(at, first, last)| (name(at), first, last)).collect()
        });
        let places: Vec<u8> = done.places.iter().flat_map(|place| place.to_le_bytes()).collect();
        Ok((reader, done.block()?, runs, PyBytes::new(py, &places)))
    }

    fn block(self) -> PyResult<Block> {
        let rows = self.ids.len();
        let has_levels = self.levels.iter().any(|level| *level != 0);
        let stamps = [Values::Integers(self.times), Values::Integers(self.ids), Values::Coded(self.codes, self.sources.names)];
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
