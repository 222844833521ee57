//! Blocks in columns: Arrow's stream of one batch, read into columns. Every bound is checked; what is unusual is left to Python.

use std::str::from_utf8;

use crate::block::batch::{Texts, Values};

/// The version of Arrow's format: V5, which writers of today write.
const VERSION: i16 = 4;

const SCHEMA: u8 = 1;
const DICTIONARY: u8 = 2;
const BATCH: u8 = 3;

/// The form of a column's values.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    Integers,
    Floats,
    Flags,
    Texts,
    /// Texts by number.
    Coded,
}

/// The bytes of the schema's message, with which a stream begins.
pub fn schema_of(stream: &[u8]) -> Option<&[u8]> {
    let message = Message::first(stream)?;
    (message.kind == SCHEMA && message.body.is_empty()).then(|| &stream[..stream.len() - message.rest.len()])
}

/// The columns of the one batch behind the schema; None if it has another form, or is not sound.
/// `forms`: what each holds, and whether a value may be missing.
pub fn columns(stream: &[u8], rows: usize, forms: impl ExactSizeIterator<Item = (Form, bool)>) -> Option<Vec<(Values, There)>> {
    let mut message = Message::first(stream)?;
    let mut names = None;
    if message.kind == DICTIONARY {
        let data = message.header.table(1)?;
        if message.header.number::<1>(2)?[0] != 0 || message.header.number(0)? != [0; 8] {
            return None; // in pieces, or not the one of the sources
        }
        let mut parts = Parts::of(data, message.body)?;
        let (Values::Texts(texts), None) = parts.column(parts.rows, Form::Texts, false)? else { return None };
        names = Some(texts);
        message = Message::first(message.rest)?;
    }
    if message.kind != BATCH || !(message.rest.is_empty() || message.rest == [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]) {
        return None;
    }
    let mut parts = Parts::of(message.header, message.body)?;
    if parts.rows != rows || parts.nodes.len() != forms.len() * 16 {
        return None;
    }
    let mut found = Vec::with_capacity(forms.len());
    for (form, is_nullable) in forms {
        let (mut values, there) = parts.column(rows, form, is_nullable)?;
        if let Values::Coded(codes, texts) = &mut values {
            *texts = names.take()?;
            let count = i32::try_from(texts.len()).ok()?;
            if codes.iter().any(|code| !(0..count).contains(code)) {
                return None;
            }
        }
        found.push((values, there));
    }
    (parts.buffers.is_empty() && names.is_none()).then_some(found)
}

/// Which values are there, as bits, and how many are not.
pub type There = Option<(Vec<u8>, usize)>;

/// A message, and what follows it.
struct Message<'a> {
    kind: u8,
    header: Table<'a>,
    body: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Message<'a> {
    fn first(stream: &'a [u8]) -> Option<Self> {
        let (marker, rest) = stream.split_first_chunk::<4>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        if *marker != [0xFF; 4] {
            return None;
        }
        let (data, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        let message = Table::new(data, u32::from_le_bytes(*data.first_chunk()?) as usize)?;
        if i16::from_le_bytes(message.number(0)?) != VERSION {
            return None;
        }
        let body = i64::from_le_bytes(message.number(3)?);
        let (body, rest) = rest.split_at_checked(usize::try_from(body).ok()?)?;
        Some(Self { kind: message.number::<1>(1)?[0], header: message.table(2)?, body, rest })
    }
}

/// A table of a FlatBuffer.
#[derive(Clone, Copy)]
struct Table<'a> {
    data: &'a [u8],
    at: usize,
    fields: usize,
}

impl<'a> Table<'a> {
    fn new(data: &'a [u8], at: usize) -> Option<Self> {
        let back = i32::from_le_bytes(*data.get(at..)?.first_chunk()?);
        let fields = usize::try_from(i64::try_from(at).ok()? - i64::from(back)).ok()?;
        Some(Self { data, at, fields })
    }

    /// Where a field lies; 0 if it is not there.
    fn place(&self, field: usize) -> Option<usize> {
        let slot = 4 + 2 * field;
        let size = u16::from_le_bytes(*self.data.get(self.fields..)?.first_chunk()?);
        if slot + 2 > size.into() {
            return Some(0);
        }
        let offset = usize::from(u16::from_le_bytes(*self.data.get(self.fields + slot..)?.first_chunk()?));
        Some(if offset == 0 { 0 } else { self.at + offset })
    }

    /// The bytes of a number; zeros if it is not there.
    fn number<const N: usize>(&self, field: usize) -> Option<[u8; N]> {
        match self.place(field)? {
            0 => Some([0; N]),
            place => self.data.get(place..)?.first_chunk().copied(),
        }
    }

    /// Where what a field points to lies.
    fn target(&self, field: usize) -> Option<usize> {
        let place = self.place(field).filter(|place| *place > 0)?;
        place.checked_add(u32::from_le_bytes(*self.data.get(place..)?.first_chunk()?) as usize)
    }

    fn table(&self, field: usize) -> Option<Self> {
        Self::new(self.data, self.target(field)?)
    }

    /// The bytes of a vector of structs of 16 bytes.
    fn pairs(&self, field: usize) -> Option<&'a [u8]> {
        let (count, rest) = self.data.get(self.target(field)?..)?.split_first_chunk::<4>()?;
        rest.get(..(u32::from_le_bytes(*count) as usize).checked_mul(16)?)
    }
}

/// The columns of a batch that are yet to be read.
struct Parts<'a> {
    rows: usize,
    nodes: &'a [u8],
    buffers: &'a [u8],
    body: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(batch: Table<'a>, body: &'a [u8]) -> Option<Self> {
        if batch.place(3)? != 0 {
            return None; // compressed
        }
        let rows = usize::try_from(i64::from_le_bytes(batch.number(0)?)).ok().filter(|rows| *rows <= body.len())?;
        Some(Self { rows, nodes: batch.pairs(1)?, buffers: batch.pairs(2)?, body })
    }

    fn pair(of: &mut &'a [u8]) -> Option<(usize, usize)> {
        let (first, rest) = of.split_first_chunk::<8>()?;
        let (second, rest) = rest.split_first_chunk::<8>()?;
        *of = rest;
        Some((usize::try_from(i64::from_le_bytes(*first)).ok()?, usize::try_from(i64::from_le_bytes(*second)).ok()?))
    }

    fn buffer(&mut self) -> Option<&'a [u8]> {
        let (from, length) = Self::pair(&mut self.buffers)?;
        if !from.is_multiple_of(8) {
            return None;
        }
        self.body.get(from..from.checked_add(length)?)
    }

    /// So many numbers of a buffer.
    fn numbers<const N: usize, T>(&mut self, count: usize, of: fn([u8; N]) -> T) -> Option<Vec<T>> {
        let bytes = self.buffer()?.get(..count.checked_mul(N)?)?;
        Some(bytes.as_chunks::<N>().0.iter().copied().map(of).collect())
    }

    /// The next column, which must have so many rows.
    fn column(&mut self, rows: usize, form: Form, is_nullable: bool) -> Option<(Values, There)> {
        let (length, nulls) = Self::pair(&mut self.nodes)?;
        let bits = self.buffer()?;
        if length != rows || (nulls > 0 && !is_nullable) {
            return None;
        }
        let there = if bits.is_empty() { None } else { Some(set_bits(bits, rows)?) };
        if there.as_ref().map_or(0, |(_, missing)| *missing) != nulls {
            return None;
        }
        let there = there.filter(|_| nulls > 0);
        let values = match form {
            Form::Integers => Values::Integers(self.numbers(rows, i64::from_le_bytes)?),
            Form::Floats => Values::Floats(self.numbers(rows, f64::from_le_bytes)?),
            Form::Flags => Values::Flags(self.buffer()?.get(..rows.div_ceil(8))?.to_vec()),
            Form::Coded => Values::Coded(self.numbers(rows, i32::from_le_bytes)?, Texts::new()),
            Form::Texts => Values::Texts(self.texts(rows)?),
        };
        Some((values, there))
    }

    fn texts(&mut self, rows: usize) -> Option<Texts> {
        if rows == 0 {
            self.buffer()?;
            self.buffer()?;
            return Some(Texts::new());
        }
        let ends = self.numbers(rows + 1, i32::from_le_bytes)?;
        let first = usize::try_from(ends[0]).ok()?;
        let last = usize::try_from(*ends.last()?).ok()?;
        let bytes = self.buffer()?.get(first..last)?;
        let text = from_utf8(bytes).ok()?;
        let ends: Vec<i32> = ends.into_iter().map(|end| end.wrapping_sub(first as i32)).collect();
        let are_whole = ends.windows(2).all(|pair| pair[0] <= pair[1])
            && ends.iter().all(|end| usize::try_from(*end).is_ok_and(|end| text.is_char_boundary(end)));
        are_whole.then(|| Texts { ends, bytes: bytes.to_vec() })
    }
}

/// The bits of so many rows, and how many of them are not set.
fn set_bits(bits: &[u8], rows: usize) -> Option<(Vec<u8>, usize)> {
    let mut bits = bits.get(..rows.div_ceil(8))?.to_vec();
    if let Some(last) = bits.last_mut().filter(|_| !rows.is_multiple_of(8)) {
        *last &= (1 << (rows % 8)) - 1;
    }
    let missing = rows - bits.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
    Some((bits, missing))
}

/// The bytes of all the names that rows would spell out.
pub fn spelled(values: &Values) -> usize {
    match values {
        Values::Coded(codes, names) => {
            codes.len() * names.ends.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0)
        }
        _ => 0,
    }
}
