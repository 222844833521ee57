//! Columns of a batch of rows, in the forms of Arrow.

use std::ffi::CString;
use std::sync::Arc;

/// The values of a column.
pub enum Values {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    /// Bits.
    Flags(Vec<u8>),
    Texts(Texts),
    /// By number: each text once.
    Coded(Vec<i32>, Texts),
}

/// Texts of UTF-8 end to end, and where each begins; one number more than there are texts.
pub struct Texts {
    pub ends: Vec<i32>,
    pub bytes: Vec<u8>,
}

impl Texts {
    pub fn new() -> Self {
        Self { ends: vec![0], bytes: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// None if they would be longer than Arrow can say.
    pub fn push(&mut self, text: &[u8]) -> Option<()> {
        self.bytes.extend_from_slice(text);
        self.ends.push(i32::try_from(self.bytes.len()).ok()?);
        Some(())
    }

    /// Forget all texts from this one on.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count + 1);
        self.bytes.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    pub fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.ends[at] as usize..self.ends[at + 1] as usize]
    }
}

/// Bytes of 0 and 1 as bits.
pub fn bits(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(8).map(|chunk| chunk.iter().rev().fold(0, |bits, byte| bits << 1 | byte)).collect()
}

/// Whether a bit is 1.
#[inline]
pub fn is_set(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

/// A column of a batch.
pub struct Column {
    pub name: Arc<CString>,
    pub is_nullable: bool,
    /// Which values are there, as bits, and how many are not; None if all are, or the column is not nullable.
    pub there: Option<(Vec<u8>, usize)>,
    pub values: Values,
}

impl Column {
    /// How many bytes the values take.
    pub fn size(&self) -> usize {
        let there = self.there.as_ref().map_or(0, |(bits, _)| bits.len());
        let texts = |texts: &Texts| texts.bytes.len() + texts.ends.len() * 4;
        there
            + match &self.values {
                Values::Integers(values) => values.len() * 8,
                Values::Floats(values) => values.len() * 8,
                Values::Flags(bits) => bits.len(),
                Values::Texts(own) => texts(own),
                Values::Coded(codes, names) => codes.len() * 4 + texts(names),
            }
    }
}

/// Columns of so many rows.
pub struct Batch {
    pub rows: usize,
    pub columns: Vec<Column>,
}

/// So many rows are no burden, however few of them are held.
const FEW: usize = 64;
/// One in so many rows of a batch is worth the others.
const SPARSE: usize = 8;

/// Whether the rows of a batch that are held are better copied, as the others would live as long as they do.
pub fn is_sparse(held: usize, rows: usize) -> bool {
    held > 0 && rows > FEW && held * SPARSE < rows
}
