//! The input of one step: rows of columns, or events as objects. Instances on stacks are rows of such blocks, and a block lives
//! as long as one of its rows is on a stack.

use std::collections::HashMap;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString};

use super::plan::{Layout, Reading};
use crate::block::arrow::{Cells, Column};
use crate::block::python::event_batch::EventBatch;
use crate::event::python::fields::{Field, Stamps};
use crate::expr::program::{Cell, Input};
use crate::expr::python::tuples::of_object;
use crate::expr::value::Value;
use crate::sequence::blocks::Blocks;
use crate::sequence::encoder::Encoder;
use crate::sequence::stack::Instance;

/// Rows of a record batch, with what matches need of them: no object an event, unless Python asks for one.
pub struct Columns {
    /// The rows as a sequence of events.
    events: Py<PyAny>,
    ids: Vec<i64>,
    /// The sources, and which of them each row has; None: all have the first.
    names: Vec<Box<str>>,
    codes: Option<Vec<i32>>,
    /// By the number of a name in the plan; None: it is not read of this type.
    inputs: Vec<Option<Input<'static>>>,
}

impl Columns {
    /// And the times; None if a column is of a type that is not read here. `events`: the same as a sequence of events.
    pub fn of(layout: &Layout, events: &Bound<'_, PyAny>, block: &EventBatch) -> PyResult<Option<(Self, Vec<i64>)>> {
        let py = events.py();
        let (source, count) = (block.source_place(), block.len());
        let Some((names, codes)) = sources(block.column(py, source)?)? else { return Ok(None) };
        let mut inputs = Vec::with_capacity(layout.places.len());
        for place in &layout.places {
            let input = match *place {
                None => None,
                Some(place) if place == source => Some(Input::of_texts(&names, codes.as_deref(), count)),
                Some(place) if place > source && block.column(py, place).is_err() => Some(Input::zeros(count)), // all of level 0
                Some(place) => Some(Input::of(block.column(py, place)?).into_owned()),
            };
            if input.as_ref().is_some_and(Input::is_other) {
                return Ok(None);
            }
            inputs.push(input);
        }
        let columns = Self { events: events.clone().unbind(), ids: block.ids(py)?.into_owned(), names, codes, inputs };
        Ok(Some((columns, block.times(py)?.into_owned())))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// These rows of it alone.
    fn taken(&self, py: Python<'_>, rows: &[u32]) -> PyResult<Self> {
        let mut known = HashMap::new();
        let codes = self.codes.as_ref().map(|codes| {
            let code = |row: &u32| {
                let next = known.len() as i32;
                *known.entry(codes[*row as usize]).or_insert(next)
            };
            rows.iter().map(code).collect()
        });
        let mut names = self.names.clone();
        if codes.is_some() {
            names = vec![Box::default(); known.len()];
            known.iter().for_each(|(old, new)| names[*new as usize].clone_from(&self.names[*old as usize]));
        }
        let events = self.events.bind(py).call_method1(intern!(py, "take"), (rows.to_vec(),))?;
        Ok(Self {
            events: events.unbind(),
            ids: rows.iter().map(|row| self.ids[*row as usize]).collect(),
            codes,
            names,
            inputs: self.inputs.iter().map(|input| input.as_ref().map(|input| input.taken(rows))).collect(),
        })
    }

    /// A column that is read, by the number of its name.
    #[inline]
    pub fn input(&self, number: usize) -> &Input<'static> {
        self.inputs[number].as_ref().expect("whatever is read of a type is in its layout")
    }

    /// An event; all of the block are made, once.
    fn event<'py>(&self, py: Python<'py>, row: u32) -> PyResult<Bound<'py, PyAny>> {
        self.events.bind(py).call_method0(intern!(py, "events"))?.get_item(row)
    }

    fn source(&self, row: usize) -> &str {
        &self.names[self.codes.as_ref().map_or(0, |codes| codes[row] as usize)]
    }
}

type Sources = (Vec<Box<str>>, Option<Vec<i32>>);

fn sources(column: Column<'_>) -> PyResult<Option<Sources>> {
    let name = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Box::from(text)),
        Err(error) => Err(PyValueError::new_err(format!("the name of a source is no text: {error}"))),
    };
    if let Some((texts, codes)) = column.coded() {
        let names = (0..texts.len()).map(|at| name(texts.get(at))).collect::<PyResult<Vec<_>>>()?;
        let codes = (names.len() != 1).then(|| codes.into_owned());
        return Ok(Some((names, codes)));
    }
    let Cells::Texts(texts) = column.cells() else { return Ok(None) };
    let (mut names, mut codes, mut known) = (Vec::new(), Vec::with_capacity(texts.len()), HashMap::new());
    for row in 0..texts.len() {
        let next = names.len() as i32;
        let code = *known.entry(texts.get(row)).or_insert(next);
        if code == next {
            names.push(name(texts.get(row))?);
        }
        codes.push(code);
    }
    Ok(Some((names, Some(codes))))
}

/// Events as objects, each in one role, with the values that conditions read of it as that.
#[derive(Default)]
pub struct Events {
    all: Vec<Py<PyAny>>,
    /// Where the values of each begin.
    starts: Vec<u32>,
    values: Vec<Value>,
}

pub enum Block {
    Columns(Box<Columns>),
    Events(Events),
}

/// All blocks that rows are held of.
pub type Rows = Blocks<Block>;

impl Rows {
    /// A block for events that are objects.
    pub fn open_events(&mut self) -> u32 {
        self.open(Block::Events(Events::default()))
    }

    pub fn columns(&self, number: u32) -> Option<&Columns> {
        match self.get(number) {
            Block::Columns(columns) => Some(columns),
            Block::Events(_) => None,
        }
    }

    /// Keep these rows of a block of columns alone: they are counted from 0 then.
    pub fn thin(&mut self, py: Python<'_>, number: u32, rows: &[u32]) -> PyResult<()> {
        if let Block::Columns(columns) = self.get_mut(number) {
            **columns = columns.taken(py, rows)?;
        }
        Ok(())
    }

    /// Add an event to a block of such; its row there.
    pub fn add(&mut self, number: u32, event: Py<PyAny>, values: &mut Vec<Value>) -> u32 {
        let Block::Events(events) = self.get_mut(number) else { unreachable!("a block of columns is whole") };
        events.all.push(event);
        events.starts.push(events.values.len() as u32);
        events.values.append(values);
        events.all.len() as u32 - 1
    }

    /// The object, made if there is none.
    pub fn event<'py>(&self, py: Python<'py>, of: Instance) -> PyResult<Bound<'py, PyAny>> {
        match self.get(of.block) {
            Block::Columns(columns) => columns.event(py, of.row),
            Block::Events(events) => Ok(events.all[of.row as usize].bind(py).clone()),
        }
    }

    /// One of the values that conditions read of it as a component.
    #[inline]
    pub fn value(&self, of: Instance, reading: &Reading, at: usize) -> Value {
        match self.get(of.block) {
            Block::Columns(columns) => value(&columns.input(reading.read[at]).cell(of.row as usize)),
            Block::Events(events) => events.values[events.starts[of.row as usize] as usize + at].clone(),
        }
    }

    /// A field, as columns of results take it; by name and by its number.
    pub fn cell(&self, py: Python<'_>, of: Instance, field: &Field, number: usize) -> Cell<'_> {
        match self.get(of.block) {
            Block::Columns(columns) => columns.input(number).cell(of.row as usize),
            Block::Events(events) => {
                field.of(events.all[of.row as usize].bind(py)).map_or(Cell::Other, |found| of_object(&found))
            }
        }
    }

    /// A field, as Python has it.
    pub fn attribute<'py>(&self, py: Python<'py>, of: Instance, field: &Field, number: usize) -> PyResult<Bound<'py, PyAny>> {
        match self.get(of.block) {
            Block::Columns(columns) => object(py, &columns.input(number).cell(of.row as usize)),
            Block::Events(events) => field.of(events.all[of.row as usize].bind(py)),
        }
    }

    /// Write down whose event it is.
    #[inline]
    pub fn identify(&self, py: Python<'_>, of: Instance, encoder: &mut Encoder) -> PyResult<()> {
        let row = of.row as usize;
        match self.get(of.block) {
            Block::Columns(columns) => encoder.pair(columns.source(row), columns.ids[row]),
            Block::Events(events) => encoder.event(events.all[row].bind(py))?,
        }
        Ok(())
    }

    /// Whether this is the event with that identity.
    pub fn is(&self, of: Instance, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (stamps, row) = (Stamps::get(event.py())?, of.row as usize);
        match self.get(of.block) {
            Block::Columns(columns) => {
                let is_its_id = stamps.id(event)?.extract::<i64>().is_ok_and(|id| id == columns.ids[row]);
                Ok(is_its_id && stamps.source(event)?.to_str()? == columns.source(row))
            }
            Block::Events(events) => {
                let own = events.all[row].bind(event.py());
                Ok(own.is(event)
                    || (stamps.id(own)?.eq(stamps.id(event)?)? && stamps.source(own)?.as_any().eq(stamps.source(event)?)?))
            }
        }
    }
}

/// A cell, as conditions read it.
#[inline]
pub fn value(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) => Value::Int(*number),
        Cell::Float(number) => Value::Float(*number),
        Cell::Flag(flag) => Value::Bool(*flag != 0),
        Cell::Text(text) => std::str::from_utf8(text).map_or(Value::Other, |text| Value::Text(text.into())),
        Cell::Other => Value::Other,
    }
}

/// A cell, as Python has it.
pub fn object<'py>(py: Python<'py>, cell: &Cell<'_>) -> PyResult<Bound<'py, PyAny>> {
    match cell {
        Cell::Null | Cell::Other => Ok(py.None().into_bound(py)),
        Cell::Int(number) => number.into_bound_py_any(py),
        Cell::Float(number) => number.into_bound_py_any(py),
        Cell::Flag(flag) => (*flag != 0).into_bound_py_any(py),
        Cell::Text(text) => Ok(PyString::from_bytes(py, text)?.into_any()),
    }
}
