//! Record batches, read where they lie: those of Arrow through its C data interface, and those of the core.
#![expect(unsafe_code, reason = "the C data interface is pointers; their lengths and types follow from its specification")]

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::slice;

use pyo3::exceptions::PyValueError;
use pyo3::ffi::PyCapsule_GetPointer;
use pyo3::intern;
use pyo3::prelude::*;

use crate::block::export;

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    _metadata: *const c_char,
    _flags: i64,
    n_children: i64,
    children: *const *const Schema,
    dictionary: *const Schema,
    _release: *const c_void,
    _private_data: *const c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *const *const Array,
    dictionary: *const Array,
    _release: *const c_void,
    _private_data: *const c_void,
}

/// A record batch. The capsules own what it reads.
pub struct Batch {
    schema: Py<PyAny>,
    array: Py<PyAny>,
}

impl Batch {
    /// From whatever has `__arrow_c_array__`, and is sound.
    pub fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = given.py();
        let (schema, array) = given.call_method0(intern!(py, "__arrow_c_array__"))?.extract()?;
        let batch = Self { schema, array };
        let (_, whole) = batch.roots(py)?;
        if whole.offset != 0 {
            return Err(PyValueError::new_err("a record batch begins at its first row"));
        }
        Ok(batch)
    }

    fn roots(&self, py: Python<'_>) -> PyResult<(&Schema, &Array)> {
        // SAFETY: a capsule of that name has a pointer to that struct, which lives as long as the capsule
        unsafe {
            let schema = PyCapsule_GetPointer(self.schema.as_ptr(), c"arrow_schema".as_ptr()).cast::<Schema>();
            let array = PyCapsule_GetPointer(self.array.as_ptr(), c"arrow_array".as_ptr()).cast::<Array>();
            match (schema.as_ref(), array.as_ref()) {
                (Some(schema), Some(array)) => Ok((schema, array)),
                _ => Err(PyErr::take(py).unwrap_or_else(|| PyValueError::new_err("no batch"))),
            }
        }
    }

    pub fn rows(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.roots(py)?.1.length as usize)
    }

    pub fn columns(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.roots(py)?.1.n_children as usize)
    }

    pub fn column(&self, py: Python<'_>, at: usize) -> PyResult<Column<'_>> {
        let (schema, array) = self.roots(py)?;
        if i64::try_from(at)? >= schema.n_children.min(array.n_children) {
            return Err(PyValueError::new_err("the batch has too few columns"));
        }
        // SAFETY: there are so many children, alive as long as their parent
        Ok(Column::Foreign(unsafe { Foreign { schema: &**schema.children.add(at), array: &**array.children.add(at) } }))
    }
}

/// A column of a batch.
#[derive(Clone, Copy)]
pub enum Column<'a> {
    Foreign(Foreign<'a>),
    /// Of the core, of so many rows.
    Own(&'a export::Column, usize),
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
                export::Values::Integers(cells) => Cells::Integers(Cow::Borrowed(cells)),
                export::Values::Floats(cells) => Cells::Floats(Cow::Borrowed(cells)),
                export::Values::Flags(bits) => Cells::Flags(bytes(bits, *rows)),
                export::Values::Texts(texts) => Cells::Texts(texts.into()),
                export::Values::Coded(..) => Cells::Other,
            },
        }
    }

    /// Texts by number: each once, and for each row which it is. None for another type.
    pub fn coded(&self) -> Option<(Texts<'a>, Cow<'a, [i32]>)> {
        match self {
            Self::Foreign(column) => column.coded(),
            Self::Own(export::Column { values: export::Values::Coded(codes, names), .. }, _) => {
                Some((names.into(), Cow::Borrowed(codes)))
            }
            Self::Own(..) => None,
        }
    }
}

/// Bits as bytes of 0 and 1, so many.
fn bytes(bits: &[u8], count: usize) -> Vec<u8> {
    (0..count).map(|at| export::is_set(bits, at).into()).collect()
}

/// A column that is Arrow's.
#[derive(Clone, Copy)]
pub struct Foreign<'a> {
    schema: &'a Schema,
    array: &'a Array,
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
    /// The same, copied.
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

impl<'a> From<&'a export::Texts> for Texts<'a> {
    fn from(texts: &'a export::Texts) -> Self {
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
