//! Columns of events as the bytes of a block: as Arrow's stream of one batch, or as rows in MessagePack. What `blocks` reads.

use std::ffi::CStr;

use crate::block::batch::{Batch, Column, Texts, Values, is_set};
use crate::block::wire::flat::{Flat, Slot};
use crate::block::wire::msgpack;

/// As in `ipc`.
const VERSION: i16 = 4;

/// Kinds of messages, and of columns, in Arrow's format.
const SCHEMA: u8 = 1;
const DICTIONARY: u8 = 2;
const BATCH: u8 = 3;
const INT: u8 = 2;
const FLOAT: u8 = 3;
const TEXT: u8 = 5;
const FLAG: u8 = 6;
const DOUBLE: i16 = 2;

const END: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];

/// The type of a column, as a schema states it.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Integers,
    Floats,
    Flags,
    Texts,
    Coded,
}

/// The bytes with which streams of such columns begin.
pub fn schema<'a>(columns: impl ExactSizeIterator<Item = (&'a CStr, Kind, bool)>) -> Vec<u8> {
    let (mut flat, header) = message(SCHEMA, 0);
    let own = flat.child(header, &[Slot::Absent, Slot::Offset]);
    let places = flat.offsets(own[1], columns.len());
    for (place, (name, kind, is_nullable)) in places.into_iter().zip(columns) {
        let tag = match kind {
            Kind::Integers => INT,
            Kind::Floats => FLOAT,
            Kind::Flags => FLAG,
            Kind::Texts | Kind::Coded => TEXT,
        };
        let coding = if kind == Kind::Coded { Slot::Offset } else { Slot::Absent };
        let slots = [Slot::Offset, Slot::Byte(is_nullable.into()), Slot::Byte(tag), Slot::Offset, coding, Slot::Offset];
        let field = flat.child(place, &slots);
        flat.text(field[0], name.to_bytes());
        match kind {
            Kind::Integers => flat.child(field[3], &[Slot::Int(64), Slot::Byte(1)]),
            Kind::Floats => flat.child(field[3], &[Slot::Short(DOUBLE)]),
            Kind::Flags | Kind::Texts | Kind::Coded => flat.child(field[3], &[]),
        };
        if kind == Kind::Coded {
            let coding = flat.child(field[4], &[Slot::Long(0), Slot::Offset]);
            flat.child(coding[1], &[Slot::Int(32), Slot::Byte(1)]);
        }
        flat.offsets(field[5], 0);
    }
    let mut out = Vec::new();
    put(&mut out, flat);
    out
}

/// A message, and where it points to its header.
fn message(kind: u8, body: usize) -> (Flat, usize) {
    let (flat, places) = Flat::new(&[Slot::Short(VERSION), Slot::Byte(kind), Slot::Offset, Slot::Long(body as i64)]);
    (flat, places[2])
}

fn put(out: &mut Vec<u8>, message: Flat) {
    let mut bytes = message.done();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    out.extend_from_slice(&END[..4]);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// The values of a column where they lie.
#[derive(Clone, Copy)]
pub enum Cells<'a> {
    Integers(&'a [i64]),
    Floats(&'a [f64]),
    /// Bits.
    Flags(&'a [u8]),
    Texts(&'a Texts),
    Coded(&'a [i32], &'a Texts),
}

/// A column where it lies: as bits, which values are there, and how many are not; None if all are.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    pub there: Option<(&'a [u8], usize)>,
    pub cells: Cells<'a>,
}

impl<'a> From<&'a Values> for Cells<'a> {
    fn from(values: &'a Values) -> Self {
        match values {
            Values::Integers(values) => Self::Integers(values),
            Values::Floats(values) => Self::Floats(values),
            Values::Flags(bits) => Self::Flags(bits),
            Values::Texts(texts) => Self::Texts(texts),
            Values::Coded(codes, names) => Self::Coded(codes, names),
        }
    }
}

impl<'a> Shown<'a> {
    pub fn new(there: Option<&'a (Vec<u8>, usize)>, cells: Cells<'a>) -> Self {
        Self { there: there.map(|(bits, missing)| (&bits[..], *missing)), cells }
    }
}

impl<'a> From<&'a Column> for Shown<'a> {
    fn from(column: &'a Column) -> Self {
        Self::new(column.there.as_ref(), (&column.values).into())
    }
}

/// Bytes that are written unchanged.
enum Run<'a> {
    Own(Vec<u8>),
    Bytes(&'a [u8]),
    Integers(&'a [i64]),
    Floats(&'a [f64]),
    Codes(&'a [i32]),
}

impl Run<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Integers(values) => 8 * values.len(),
            Self::Floats(values) => 8 * values.len(),
            Self::Codes(codes) => 4 * codes.len(),
        }
    }

    /// Into as many bytes.
    fn write(&self, out: &mut [u8]) {
        fn all<const N: usize>(out: &mut [u8], cells: impl Iterator<Item = [u8; N]>) {
            out.chunks_exact_mut(N).zip(cells).for_each(|(chunk, cell)| chunk.copy_from_slice(&cell));
        }
        match self {
            Self::Own(bytes) => out.copy_from_slice(bytes),
            Self::Bytes(bytes) => out.copy_from_slice(bytes),
            Self::Integers(values) => all(out, values.iter().map(|value| value.to_le_bytes())),
            Self::Floats(values) => all(out, values.iter().map(|value| value.to_le_bytes())),
            Self::Codes(codes) => all(out, codes.iter().map(|code| code.to_le_bytes())),
        }
    }
}

/// A batch as it is put together: how many values there are in each column and how many are missing, and the buffers, each of
/// which begins at a multiple of 8 bytes.
#[derive(Default)]
struct Parts<'a> {
    nodes: Vec<(i64, i64)>,
    buffers: Vec<(i64, i64)>,
    runs: Vec<Run<'a>>,
    body: usize,
}

impl<'a> Parts<'a> {
    fn buffer(&mut self, run: Run<'a>) {
        self.buffers.push((self.body as i64, run.len() as i64));
        self.body += run.len().next_multiple_of(8);
        self.runs.push(run);
    }

    fn texts(&mut self, texts: &'a Texts) {
        self.buffer(Run::Codes(&texts.ends));
        self.buffer(Run::Bytes(&texts.bytes));
    }

    fn column(&mut self, rows: usize, column: Shown<'a>) {
        let (bits, missing) = column.there.unwrap_or_default();
        self.nodes.push((rows as i64, missing as i64));
        self.buffer(Run::Bytes(bits));
        match column.cells {
            Cells::Integers(values) => self.buffer(Run::Integers(values)),
            Cells::Floats(values) => self.buffer(Run::Floats(values)),
            Cells::Flags(bits) => self.buffer(Run::Bytes(bits)),
            Cells::Texts(texts) => self.texts(texts),
            Cells::Coded(codes, _) => self.buffer(Run::Codes(codes)),
        }
    }

    /// A message about them, and then their bytes.
    fn put(self, runs: &mut Vec<Run<'a>>, about: Flat) {
        let mut head = Vec::new();
        put(&mut head, about);
        runs.push(Run::Own(head));
        runs.extend(self.runs);
    }

    /// The record batch that the offset at `place` points to.
    fn head(&self, flat: &mut Flat, place: usize, rows: usize) {
        let own = flat.child(place, &[Slot::Long(rows as i64), Slot::Offset, Slot::Offset]);
        flat.pairs(own[1], &self.nodes);
        flat.pairs(own[2], &self.buffers);
    }
}

/// Arrow's stream, as it lies in pieces.
pub struct Stream<'a>(Vec<Run<'a>>);

impl<'a> Stream<'a> {
    /// Columns of so many rows, behind their schema.
    pub fn new(schema: &'a [u8], rows: usize, columns: impl Iterator<Item = Shown<'a>> + Clone) -> Self {
        let mut runs = vec![Run::Bytes(schema)];
        for column in columns.clone() {
            if let Cells::Coded(_, names) = column.cells {
                let mut parts = Parts { nodes: vec![(names.len() as i64, 0)], ..Parts::default() };
                parts.buffer(Run::Bytes(&[]));
                parts.texts(names);
                let (mut flat, header) = message(DICTIONARY, parts.body);
                let own = flat.child(header, &[Slot::Long(0), Slot::Offset]);
                parts.head(&mut flat, own[1], names.len());
                parts.put(&mut runs, flat);
            }
        }
        let mut parts = Parts::default();
        columns.for_each(|column| parts.column(rows, column));
        let (mut flat, header) = message(BATCH, parts.body);
        parts.head(&mut flat, header, rows);
        parts.put(&mut runs, flat);
        runs.push(Run::Bytes(&END));
        Self(runs)
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.0.iter().map(|run| run.len().next_multiple_of(8)).sum()
    }

    /// Into as many bytes, all of them zeros.
    pub fn write(&self, mut out: &mut [u8]) {
        for run in &self.0 {
            let (own, rest) = out.split_at_mut(run.len().next_multiple_of(8));
            run.write(&mut own[..run.len()]);
            out = rest;
        }
    }
}

/// A batch as rows, each of so many fields: those that it has no columns for are 0.
pub fn rows(batch: &Batch, fields: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(batch.rows * fields * 6 + 8);
    array(&mut out, batch.rows);
    for row in 0..batch.rows {
        array(&mut out, fields);
        batch.columns.iter().for_each(|column| cell(&mut out, column, row));
        out.resize(out.len() + fields - batch.columns.len(), 0);
    }
    out
}

fn cell(out: &mut Vec<u8>, column: &Column, row: usize) {
    if column.there.as_ref().is_some_and(|(bits, _)| !is_set(bits, row)) {
        return out.push(0xC0);
    }
    match &column.values {
        Values::Integers(values) => {
            let mut bytes = [0; 9];
            let size = msgpack::encode(values[row], &mut bytes);
            out.extend_from_slice(&bytes[..size]);
        }
        Values::Floats(values) => {
            out.push(0xCB);
            out.extend_from_slice(&values[row].to_be_bytes());
        }
        Values::Flags(bits) => out.push(if is_set(bits, row) { 0xC3 } else { 0xC2 }),
        Values::Texts(texts) => text(out, texts.get(row)),
        Values::Coded(codes, names) => text(out, names.get(codes[row] as usize)),
    }
}

/// Write the head of an array of so many elements.
fn array(out: &mut Vec<u8>, count: usize) {
    match count {
        0..16 => out.push(0x90 | count as u8),
        16..0x1_0000 => {
            out.push(0xDC);
            out.extend_from_slice(&(count as u16).to_be_bytes());
        }
        _ => {
            out.push(0xDD);
            out.extend_from_slice(&(count as u32).to_be_bytes());
        }
    }
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    let count = text.len();
    match count {
        0..32 => out.push(0xA0 | count as u8),
        32..0x100 => out.extend_from_slice(&[0xD9, count as u8]),
        0x100..0x1_0000 => {
            out.push(0xDA);
            out.extend_from_slice(&(count as u16).to_be_bytes());
        }
        _ => {
            out.push(0xDB);
            out.extend_from_slice(&(count as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}
