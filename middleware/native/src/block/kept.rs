//! A column of a record batch as the column of a type.

use std::borrow::Cow;
use std::ops::Range;

use crate::block::arrow::{self, Cells};
use crate::block::batch::{Texts, Values, bits};
use crate::block::form::{Form, Kind, MOST_NAMES};
use crate::block::naming::Naming;
use crate::block::stamping::Made;
use crate::block::wire::ipc::spelled;
use crate::block::wire::packing::{self, Shown};

/// The values of a column: where they lie, of all rows, or made for the requested rows.
enum Source<'a> {
    Integers(Cow<'a, [i64]>),
    Floats(Cow<'a, [f64]>),
    Made(Values),
}

pub struct Kept<'a> {
    there: Option<(Vec<u8>, usize)>,
    source: Source<'a>,
}

impl<'a> Kept<'a> {
    pub fn of(form: &Form, at: usize, column: arrow::Column<'a>, rows: Range<usize>) -> Option<Self> {
        let (_, kind, is_nullable) = &form.fields[at];
        let missing = |there: Vec<u8>| {
            let there = &there[rows.clone()];
            let missing = there.iter().filter(|is_there| **is_there == 0).count();
            (missing > 0).then(|| (bits(there), missing))
        };
        let there = column.there().and_then(missing);
        if there.is_some() && !is_nullable {
            return None;
        }
        let source = match (kind, column.cells()) {
            (Kind::Integer | Kind::Time, Cells::Integers(cells)) => Source::Integers(cells),
            (Kind::Float, Cells::Floats(cells)) => Source::Floats(cells),
            (Kind::Flag, Cells::Flags(cells)) => Source::Made(Values::Flags(bits(&cells[rows]))),
            (Kind::Text, Cells::Texts(texts)) if at < form.own() => {
                let mut own = Texts::new();
                rows.clone().try_for_each(|row| own.push(texts.get(row)))?;
                Source::Made(Values::Texts(own))
            }
            (Kind::Text, _) if at == form.own() + 2 => {
                let (mut naming, mut codes) = (Naming::new(), Vec::with_capacity(rows.len()));
                naming.add(column, rows, &mut codes)?;
                let own = Values::Coded(codes, naming.names);
                (spelled(&own) <= MOST_NAMES).then_some(Source::Made(own))?
            }
            _ => return None,
        };
        Some(Self { there, source })
    }

    /// As a column of all rows: which values are there, and the values.
    pub fn made(self) -> Made {
        let values = match self.source {
            Source::Integers(cells) => Values::Integers(cells.into_owned()),
            Source::Floats(cells) => Values::Floats(cells.into_owned()),
            Source::Made(values) => values,
        };
        (self.there, values)
    }

    pub fn shown(&self, rows: Range<usize>) -> Shown<'_> {
        let cells = match &self.source {
            Source::Integers(cells) => packing::Cells::Integers(&cells[rows]),
            Source::Floats(cells) => packing::Cells::Floats(&cells[rows]),
            Source::Made(values) => values.into(),
        };
        Shown::new(self.there.as_ref(), cells)
    }
}
