//! The columns of a type's events, and the form in which they are written.

use std::ffi::CString;
use std::sync::Arc;

use crate::block::batch::{Batch, Column, Texts, Values};
use crate::block::wire::packing;

/// The number of fields at the end of every event: ts, id, source and level.
const STAMP: usize = 4;

/// As in `middleware.link.columnar`.
pub const MOST_ROWS: usize = 1 << 16;
pub const MOST_NAMES: usize = 8 << 20;

/// The kind of a field's values.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Integer,
    Time,
    Float,
    Flag,
    Text,
}

/// The fields of a type whose events the core reads and writes.
pub struct Form {
    /// Name, kind, and whether None may be there.
    pub fields: Vec<(Arc<CString>, Kind, bool)>,
    /// The schemas in Arrow's form with which blocks of the type are written: without levels, and with them.
    pub schemas: [Vec<u8>; 2],
}

impl Form {
    pub fn new(fields: Vec<(Arc<CString>, Kind, bool)>) -> Self {
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
        Self { schemas: [schema(own + STAMP - 1), schema(own + STAMP)], fields }
    }

    /// How many fields there are before the stamps.
    pub fn own(&self) -> usize {
        self.fields.len() - STAMP
    }

    /// The bytes with which blocks of so many columns begin.
    pub fn schema(&self, columns: usize) -> &[u8] {
        &self.schemas[usize::from(columns == self.fields.len())]
    }

    /// Columns of the type, one after another, by their values; None if one of the stamps is of another kind.
    pub fn batch(&self, rows: usize, cells: impl Iterator<Item = (Option<(Vec<u8>, usize)>, Values)>) -> Option<Batch> {
        let columns = self.fields.iter().zip(cells).map(|((name, _, is_nullable), (there, values))| Column {
            name: name.clone(),
            is_nullable: *is_nullable,
            there,
            values,
        });
        let batch = Batch { rows, columns: columns.collect() };
        self.stamps(&batch, 0)?;
        self.stamps(&batch, 1)?;
        if batch.columns.len() == self.fields.len() {
            self.stamps(&batch, 3)?;
        }
        Some(batch)
    }

    /// Times, ids, or levels, if some are not 0: by their place behind the fields.
    pub fn stamps<'a>(&self, batch: &'a Batch, at: usize) -> Option<&'a [i64]> {
        whole(batch.columns.get(self.own() + at)?)
    }

    /// The sources, by number.
    pub fn codes<'a>(&self, batch: &'a Batch) -> Option<(&'a [i32], &'a Texts)> {
        match &batch.columns.get(self.own() + 2)?.values {
            Values::Coded(codes, names) => Some((codes, names)),
            _ => None,
        }
    }
}

/// The numbers of a column of whole ones.
pub fn whole(column: &Column) -> Option<&[i64]> {
    match &column.values {
        Values::Integers(values) => Some(values),
        _ => None,
    }
}
