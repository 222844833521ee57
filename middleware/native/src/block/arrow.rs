//! Columns of record batches, read where they lie: those of Arrow through its C data interface, and those of the core.
#![expect(unsafe_code, reason = "the C data interface is pointers; their lengths and types follow from its specification")]

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::slice;

use crate::block::batch;

#[repr(C)]
pub struct Schema {
    format: *const c_char,
    name: *const c_char,
    _metadata: *const c_char,
    _flags: i64,
    pub n_children: i64,
    pub children: *const *const Schema,
    dictionary: *const Schema,
    _release: *const c_void,
    _private_data: *const c_void,
}

#[repr(C)]
pub struct Array {
    pub length: i64,
    null_count: i64,
    pub offset: i64,
    n_buffers: i64,
    pub n_children: i64,
    buffers: *const *const c_void,
    pub children: *const *const Array,
    dictionary: *const Array,
    _release: *const c_void,
    _private_data: *const c_void,
}

/// A column of a batch.
#[derive(Clone, Copy)]
pub enum Column<'a> {
    Foreign(Foreign<'a>),
    /// A column of the core, with so many rows.
    Own(&'a batch::Column, usize),
}

impl<'a> Column<'a> {
    pub fn name(&self) -> &'a [u8] {
        match self {
            Self::Foreign(column) => column.name(),
            Self::Own(column, _) => column.name.to_bytes(),
        }
    }

    /// Which values are there, a byte for each; None: all.
    pub fn there(&self) -> Option<Vec<u8>> {
        match self {
            Self::Foreign(column) => column.there(),
            Self::Own(column, rows) => column.there.as_ref().map(|(bits, _)| bytes(bits, *rows)),
        }
    }

    /// Whether no value is null, nor any that is there by number.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Foreign(column) => column.is_full(),
            Self::Own(column, _) => column.there.is_none(),
        }
    }

    pub fn cells(&self) -> Cells<'a> {
        match self {
            Self::Foreign(column) => column.cells(),
            Self::Own(column, rows) => match &column.values {
                batch::Values::Integers(cells) => Cells::Integers(Cow::Borrowed(cells)),
                batch::Values::Floats(cells) => Cells::Floats(Cow::Borrowed(cells)),
                batch::Values::Flags(bits) => Cells::Flags(bytes(bits, *rows)),
                batch::Values::Texts(texts) => Cells::Texts(texts.into()),
                batch::Values::Coded(..) => Cells::Other,
            },
        }
    }

    /// Texts by number: each once, and for each row which it is. None for another type.
    pub fn coded(&self) -> Option<(Texts<'a>, Cow<'a, [i32]>)> {
        match self {
            Self::Foreign(column) => column.coded(),
            Self::Own(batch::Column { values: batch::Values::Coded(codes, names), .. }, _) => {
                Some((names.into(), Cow::Borrowed(codes)))
            }
            Self::Own(..) => None,
        }
    }
}

/// Bits as bytes of 0 and 1, so many.
fn bytes(bits: &[u8], count: usize) -> Vec<u8> {
    (0..count).map(|at| batch::is_set(bits, at).into()).collect()
}

/// A column that is Arrow's.
#[derive(Clone, Copy)]
pub struct Foreign<'a> {
    pub schema: &'a Schema,
    pub array: &'a Array,
}

/// Texts, end to end, and where each begins and ends.
#[derive(Clone)]
pub struct Texts<'a> {
    ends: Cow<'a, [i32]>,
    bytes: Cow<'a, [u8]>,
}

/// The values of a column; those of nulls are anything.
pub enum Cells<'a> {
    Integers(Cow<'a, [i64]>),
    Floats(Cow<'a, [f64]>),
    Flags(Vec<u8>),
    Texts(Texts<'a>),
    /// Some other type.
    Other,
}

impl<'a> Foreign<'a> {
    fn name(&self) -> &'a [u8] {
        // SAFETY: null, or a string that ends with a zero byte
        if self.schema.name.is_null() { b"" } else { unsafe { CStr::from_ptr(self.schema.name) }.to_bytes() }
    }

    fn format(&self) -> &'a [u8] {
        // SAFETY: a string that ends with a zero byte
        unsafe { CStr::from_ptr(self.schema.format) }.to_bytes()
    }

    fn rows(&self) -> (usize, usize) {
        (self.array.offset as usize, self.array.length as usize)
    }

    /// `count` numbers of a buffer, from one of them on; copied if they lie where the processor does not read them.
    fn buffer<T: Copy>(&self, at: usize, from: usize, count: usize) -> Cow<'a, [T]> {
        // SAFETY: fixed-width columns and offsets have so many numbers of that width in this buffer
        unsafe {
            let start = (*self.array.buffers.add(at)).cast::<T>();
            if count == 0 || start.is_null() {
                return Cow::Borrowed(&[]);
            }
            let start = start.add(from);
            if start.is_aligned() {
                return Cow::Borrowed(slice::from_raw_parts(start, count));
            }
            Cow::Owned((0..count).map(|at| start.add(at).read_unaligned()).collect())
        }
    }

    fn bits(&self, at: usize) -> Vec<u8> {
        let (from, count) = self.rows();
        let bytes = self.buffer::<u8>(at, 0, (from + count).div_ceil(8));
        (from..from + count).map(|bit| bytes[bit / 8] >> (bit % 8) & 1).collect()
    }

    fn there(&self) -> Option<Vec<u8>> {
        // SAFETY: the first buffer is the one of validity, null if all are there
        let has_bits = self.array.n_buffers > 0 && unsafe { !(*self.array.buffers).is_null() };
        if self.array.null_count == 0 || !has_bits {
            return None;
        }
        Some(self.bits(0)).filter(|there| there.contains(&0))
    }

    fn is_full(&self) -> bool {
        self.there().is_none() && self.dictionary().is_none_or(|names| names.there().is_none())
    }

    /// The texts, or others, that the numbers in it stand for.
    fn dictionary(&self) -> Option<Self> {
        // SAFETY: null, or alive as long as the column
        let (schema, array) = unsafe { self.schema.dictionary.as_ref().zip(self.array.dictionary.as_ref()) }?;
        Some(Self { schema, array })
    }

    fn cells(&self) -> Cells<'a> {
        let (from, count) = self.rows();
        if !self.schema.dictionary.is_null() {
            return Cells::Other;
        }
        match self.format() {
            b"l" => Cells::Integers(self.buffer(1, from, count)),
            b"g" => Cells::Floats(self.buffer(1, from, count)),
            b"b" => Cells::Flags(self.bits(1)),
            b"u" => Cells::Texts(self.texts()),
            _ => Cells::Other,
        }
    }

    fn texts(&self) -> Texts<'a> {
        let (from, count) = self.rows();
        if count == 0 {
            return Texts { ends: Cow::Borrowed(&[]), bytes: Cow::Borrowed(&[]) };
        }
        let ends = self.buffer::<i32>(1, from, count + 1);
        let length = ends.last().map_or(0, |end| *end as usize);
        Texts { ends, bytes: self.buffer(2, 0, length) }
    }

    fn coded(&self) -> Option<(Texts<'a>, Cow<'a, [i32]>)> {
        let names = self.dictionary().filter(|names| names.format() == b"u")?;
        let (from, count) = self.rows();
        (self.format() == b"i").then(|| (names.texts(), self.buffer(1, from, count)))
    }
}

impl Cells<'_> {
    /// Copy the cells, so that they outlive their column.
    pub fn into_owned(self) -> Cells<'static> {
        match self {
            Self::Integers(cells) => Cells::Integers(Cow::Owned(cells.into_owned())),
            Self::Floats(cells) => Cells::Floats(Cow::Owned(cells.into_owned())),
            Self::Flags(cells) => Cells::Flags(cells),
            Self::Texts(texts) => {
                let from = texts.ends.first().map_or(0, |end| *end as usize);
                let ends = texts.ends.iter().map(|end| *end - from as i32).collect();
                Cells::Texts(Texts { ends: Cow::Owned(ends), bytes: Cow::Owned(texts.bytes[from..].to_vec()) })
            }
            Self::Other => Cells::Other,
        }
    }
}

impl<'a> From<&'a batch::Texts> for Texts<'a> {
    fn from(texts: &'a batch::Texts) -> Self {
        Self { ends: Cow::Borrowed(&texts.ends), bytes: Cow::Borrowed(&texts.bytes) }
    }
}

impl<'a> FromIterator<&'a [u8]> for Texts<'static> {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(texts: I) -> Self {
        let (mut ends, mut bytes) = (vec![0], Vec::new());
        for text in texts {
            bytes.extend_from_slice(text);
            ends.push(bytes.len() as i32);
        }
        Self { ends: Cow::Owned(ends), bytes: Cow::Owned(bytes) }
    }
}

impl Texts<'_> {
    pub fn len(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    /// The bytes of a text, which are UTF-8.
    pub fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.ends[row] as usize..self.ends[row + 1] as usize]
    }
}
