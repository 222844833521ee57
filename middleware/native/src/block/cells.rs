//! The values of a field, one after another, as they come from events or from Arrow.

use crate::block::arrow;
use crate::block::batch::{Texts, Values, bits};
use crate::block::form::Kind;
use crate::block::wire::cursor::is_time;

/// A value as an event has it. It is at most one of these.
pub trait Scalar {
    fn is_missing(&self) -> bool;
    /// A whole number of 64 bits.
    fn whole(&self) -> Option<i64>;
    fn float(&self) -> Option<f64>;
    fn flag(&self) -> Option<bool>;
    fn text(&self) -> Option<&str>;
}

fn is_there(there: Option<&[u8]>, row: usize) -> bool {
    there.is_none_or(|there| there[row] != 0)
}

/// These values, those that are not there as zeros.
fn filled<T: Copy + Default>(cells: &[T], there: Option<&[u8]>) -> impl Iterator<Item = T> {
    cells.iter().enumerate().map(move |(row, cell)| if is_there(there, row) { *cell } else { T::default() })
}

/// The values of a field.
pub struct Cells {
    kind: Kind,
    values: Values,
    /// Whether each is there; None if all must be.
    there: Option<Vec<u8>>,
}

impl Cells {
    pub fn new(kind: Kind, is_nullable: bool) -> Self {
        let values = match kind {
            Kind::Integer | Kind::Time => Values::Integers(Vec::new()),
            Kind::Float => Values::Floats(Vec::new()),
            Kind::Flag => Values::Flags(Vec::new()), // a byte for each, until they are done
            Kind::Text => Values::Texts(Texts::new()),
        };
        Self { kind, values, there: is_nullable.then(Vec::new) }
    }

    /// Add a value; how many bytes it takes besides a number's.
    #[inline]
    pub fn put(&mut self, value: &impl Scalar) -> Option<usize> {
        if let Some(there) = &mut self.there {
            let is_there = !value.is_missing();
            there.push(is_there.into());
            if !is_there {
                match &mut self.values {
                    Values::Integers(values) => values.push(0),
                    Values::Floats(values) => values.push(0.0),
                    Values::Flags(values) => values.push(0),
                    Values::Texts(texts) => texts.push(b"")?,
                    Values::Coded(..) => {}
                }
                return Some(0);
            }
        }
        match &mut self.values {
            Values::Integers(values) => {
                let are_times = self.kind == Kind::Time;
                values.push(value.whole().filter(|number| !are_times || is_time(number))?);
            }
            Values::Floats(values) => values.push(match value.float() {
                Some(float) => float,
                None => value.whole().filter(|whole| whole.unsigned_abs() <= 1 << 53)? as f64,
            }),
            Values::Flags(values) => values.push(value.flag()?.into()),
            Values::Texts(texts) => {
                let text = value.text()?;
                texts.push(text.as_bytes())?;
                return Some(text.len());
            }
            Values::Coded(..) => return None,
        }
        Some(0)
    }

    /// Add the values of a column, so many; how many bytes they take besides those of numbers.
    pub fn extend(&mut self, column: &arrow::Column<'_>, count: usize) -> Option<usize> {
        let there = column.there();
        if there.is_some() && self.there.is_none() {
            return None;
        }
        let mut bytes = 0;
        match (&mut self.values, column.cells()) {
            (Values::Integers(values), arrow::Cells::Integers(cells)) => {
                let before = values.len();
                values.extend(filled(&cells, there.as_deref()));
                if self.kind == Kind::Time && !values[before..].iter().all(is_time) {
                    return None;
                }
            }
            (Values::Floats(values), arrow::Cells::Floats(cells)) => {
                values.extend(filled(&cells, there.as_deref()));
            }
            (Values::Flags(values), arrow::Cells::Flags(cells)) => {
                values.extend(filled(&cells, there.as_deref()));
            }
            (Values::Texts(texts), arrow::Cells::Texts(cells)) => {
                for row in 0..count {
                    let text = if is_there(there.as_deref(), row) { cells.get(row) } else { b"" };
                    texts.push(text)?;
                    bytes += text.len();
                }
            }
            _ => return None,
        }
        if let Some(own) = &mut self.there {
            own.extend((0..count).map(|row| u8::from(is_there(there.as_deref(), row))));
        }
        Some(bytes)
    }

    pub fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Integers(values) => values.truncate(rows),
            Values::Floats(values) => values.truncate(rows),
            Values::Flags(values) => values.truncate(rows),
            Values::Texts(texts) => texts.truncate(rows),
            Values::Coded(codes, _) => codes.truncate(rows),
        }
        if let Some(there) = &mut self.there {
            there.truncate(rows);
        }
    }

    pub fn done(self) -> (Option<(Vec<u8>, usize)>, Values) {
        let there = self.there.and_then(|there| {
            let missing = there.iter().filter(|is_there| **is_there == 0).count();
            (missing > 0).then(|| (bits(&there), missing))
        });
        let values = match self.values {
            Values::Flags(flags) => Values::Flags(bits(&flags)),
            values => values,
        };
        (there, values)
    }
}
