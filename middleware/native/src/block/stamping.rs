//! Results of an operation as a batch: the columns of their fields, and their stamps.

use crate::block::batch::{Batch, Texts, Values};
use crate::block::form::{Form, Kind};
use crate::expr::program;

/// Which values are there, as in a `Column`, and the values.
pub type Made = (Option<(Vec<u8>, usize)>, Values);

/// Columns that a program made; None if one is not of the kind of its field.
pub fn made(form: &Form, columns: Vec<program::Column>) -> Option<Vec<Made>> {
    if columns.len() != form.own() {
        return None;
    }
    let made = columns.into_iter().zip(&form.fields).map(|(column, (_, kind, is_nullable))| {
        let (there, values) = column.done();
        let is_its_kind = match values {
            Values::Integers(_) => *kind == Kind::Integer,
            Values::Floats(_) => *kind == Kind::Float,
            Values::Flags(_) => *kind == Kind::Flag,
            Values::Texts(_) => *kind == Kind::Text,
            Values::Coded(..) => false,
        };
        (is_its_kind && (*is_nullable || there.is_none())).then_some((there, values))
    });
    made.collect()
}

/// Results of one source and level; None if there is not an id for each.
pub fn stamped(form: &Form, made: Vec<Made>, times: Vec<i64>, ids: Vec<i64>, source: &str, level: i64) -> Option<Batch> {
    let (rows, mut names) = (times.len(), Texts::new());
    names.push(source.as_bytes())?;
    if ids.len() != rows {
        return None;
    }
    let codes = Values::Coded(vec![0; rows], names);
    let stamps = [Values::Integers(times), Values::Integers(ids), codes, Values::Integers(vec![level; rows])];
    form.batch(rows, made.into_iter().chain(stamps.map(|values| (None, values))))
}

/// So many values that are not there.
pub fn nothing(kind: Kind, rows: usize) -> Values {
    match kind {
        Kind::Integer | Kind::Time => Values::Integers(vec![0; rows]),
        Kind::Float => Values::Floats(vec![0.0; rows]),
        Kind::Flag => Values::Flags(vec![0; rows.div_ceil(8)]),
        Kind::Text => Values::Texts(Texts { ends: vec![0; rows + 1], bytes: Vec::new() }),
    }
}
