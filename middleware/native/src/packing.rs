//! Columns of events as the bytes of a block: as Arrow's stream of one batch, or as rows in MessagePack. What `blocks` reads.

use std::ffi::CStr;

use crate::export::{Batch, Column, Texts, Values};
use crate::flat::{Flat, Slot};
use crate::msgpack;

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

/// What a column holds, as a schema says it.
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

/// A batch as it is put together: how many values there are in each column and how many are missing, and the buffers.
#[derive(Default)]
struct Parts {
    nodes: Vec<(i64, i64)>,
    buffers: Vec<(i64, i64)>,
    body: Vec<u8>,
}

impl Parts {
    fn buffer<const N: usize>(&mut self, cells: impl ExactSizeIterator<Item = [u8; N]>) {
        let (from, size) = (self.body.len(), cells.len() * N);
        self.body.resize((from + size).next_multiple_of(8), 0);
        self.body[from..].chunks_exact_mut(N).zip(cells).for_each(|(chunk, cell)| chunk.copy_from_slice(&cell));
        self.buffers.push((from as i64, size as i64));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.buffer(bytes.iter().map(|byte| [*byte]));
    }

    fn texts(&mut self, texts: &Texts) {
        self.buffer(texts.ends.iter().map(|end| end.to_le_bytes()));
        self.bytes(&texts.bytes);
    }

    fn column(&mut self, rows: usize, column: &Column) {
        let missing = column.there.as_ref().map_or(0, |(_, missing)| *missing);
        self.nodes.push((rows as i64, missing as i64));
        self.bytes(column.there.as_ref().map_or(&[], |(bits, _)| bits));
        match &column.values {
            Values::Integers(values) => self.buffer(values.iter().map(|value| value.to_le_bytes())),
            Values::Floats(values) => self.buffer(values.iter().map(|value| value.to_le_bytes())),
            Values::Flags(bits) => self.bytes(bits),
            Values::Texts(texts) => self.texts(texts),
            Values::Coded(codes, _) => self.buffer(codes.iter().map(|code| code.to_le_bytes())),
        }
    }

    /// The record batch that the offset at `place` points to.
    fn head(&self, flat: &mut Flat, place: usize, rows: usize) {
        let own = flat.child(place, &[Slot::Long(rows as i64), Slot::Offset, Slot::Offset]);
        flat.pairs(own[1], &self.nodes);
        flat.pairs(own[2], &self.buffers);
    }
}

/// A batch as Arrow's stream, behind its schema.
pub fn stream(schema: &[u8], batch: &Batch) -> Vec<u8> {
    let mut out = schema.to_vec();
    for column in &batch.columns {
        if let Values::Coded(_, names) = &column.values {
            let mut parts = Parts { nodes: vec![(names.len() as i64, 0)], ..Parts::default() };
            parts.bytes(&[]);
            parts.texts(names);
            let (mut flat, header) = message(DICTIONARY, parts.body.len());
            let own = flat.child(header, &[Slot::Long(0), Slot::Offset]);
            parts.head(&mut flat, own[1], names.len());
            put(&mut out, flat);
            out.append(&mut parts.body);
        }
    }
    let mut parts = Parts::default();
    batch.columns.iter().for_each(|column| parts.column(batch.rows, column));
    let (mut flat, header) = message(BATCH, parts.body.len());
    parts.head(&mut flat, header, batch.rows);
    put(&mut out, flat);
    out.append(&mut parts.body);
    out.extend_from_slice(&END);
    out
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
    let bit = |bits: &[u8]| bits[row / 8] >> (row % 8) & 1 == 1;
    if column.there.as_ref().is_some_and(|(bits, _)| !bit(bits)) {
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
        Values::Flags(bits) => out.push(if bit(bits) { 0xC3 } else { 0xC2 }),
        Values::Texts(texts) => text(out, texts.get(row)),
        Values::Coded(codes, names) => text(out, names.get(codes[row] as usize)),
    }
}

/// What opens an array of so many elements.
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
