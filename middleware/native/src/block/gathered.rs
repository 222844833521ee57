//! Rows of several batches of one type as one batch.

use std::sync::Arc;

use crate::block::batch::{Batch, Column, Texts, Values, bits, is_set};
use crate::block::form::Form;
use crate::block::naming::Naming;

/// A row of a batch, and which batch it is of those at hand.
pub type Row = (usize, u32);

/// These rows, of which there is at least one; None if texts are too long for a column. O(values).
pub fn gathered(form: &Form, parts: &[&Arc<Batch>], rows: &[Row]) -> Option<Arc<Batch>> {
    let is_whole = parts.len() == 1 && rows.len() == parts[0].rows;
    if is_whole && rows.iter().enumerate().all(|(at, (_, row))| at == *row as usize) {
        return Some(parts[0].clone());
    }
    let count = parts.iter().map(|part| part.columns.len()).max().unwrap_or_default();
    let made = (0..count).map(|column| {
        let (name, _, is_nullable) = &form.fields[column];
        let parts: Vec<_> = parts.iter().map(|part| part.columns.get(column)).collect();
        let (values, there) = (values(&parts, rows)?, there(&parts, rows));
        Some(Column { name: name.clone(), is_nullable: *is_nullable, there, values })
    });
    Some(Arc::new(Batch { rows: rows.len(), columns: made.collect::<Option<_>>()? }))
}

/// Batches, one after another; None if texts are too long for a column. O(values).
pub fn joined(form: &Form, parts: &[&Arc<Batch>]) -> Option<Arc<Batch>> {
    let rows: Vec<Row> =
        parts.iter().enumerate().flat_map(|(at, part)| (0..part.rows as u32).map(move |row| (at, row))).collect();
    gathered(form, parts, &rows)
}

/// The values of a column: of one kind in all blocks of a type. Only levels may be missing: they are 0.
fn values(parts: &[Option<&Column>], rows: &[Row]) -> Option<Values> {
    macro_rules! cells {
        ($kind:ident) => {
            parts.iter().map(|part| match part.map(|column| &column.values) {
                Some(Values::$kind(values)) => Some(values),
                _ => None,
            })
        };
    }
    Some(match &parts[rows[0].0].or_else(|| parts.iter().copied().flatten().next())?.values {
        Values::Integers(_) => {
            let cells: Vec<_> = cells!(Integers).collect();
            Values::Integers(rows.iter().map(|(at, row)| cells[*at].map_or(0, |cells| cells[*row as usize])).collect())
        }
        Values::Floats(_) => {
            let cells: Vec<_> = cells!(Floats).collect::<Option<_>>()?;
            Values::Floats(rows.iter().map(|(at, row)| cells[*at][*row as usize]).collect())
        }
        Values::Flags(_) => {
            let cells: Vec<_> = cells!(Flags).collect::<Option<_>>()?;
            let flags: Vec<u8> = rows.iter().map(|(at, row)| u8::from(is_set(cells[*at], *row as usize))).collect();
            Values::Flags(bits(&flags))
        }
        Values::Texts(_) => {
            let cells: Vec<_> = cells!(Texts).collect::<Option<_>>()?;
            let mut texts = Texts::new();
            rows.iter().try_for_each(|(at, row)| texts.push(cells[*at].get(*row as usize)))?;
            Values::Texts(texts)
        }
        Values::Coded(..) => coded(parts, rows)?,
    })
}

/// Which values are there; None if all are.
fn there(parts: &[Option<&Column>], rows: &[Row]) -> Option<(Vec<u8>, usize)> {
    let given: Vec<_> = parts.iter().map(|part| part.and_then(|column| column.there.as_ref())).collect();
    if given.iter().all(Option::is_none) {
        return None;
    }
    let flags: Vec<u8> =
        rows.iter().map(|(at, row)| u8::from(given[*at].is_none_or(|(bits, _)| is_set(bits, *row as usize)))).collect();
    let missing = flags.iter().filter(|is_there| **is_there == 0).count();
    (missing > 0).then(|| (bits(&flags), missing))
}

/// The names of the sources of these rows, each once, and the number of each row's own.
fn coded(parts: &[Option<&Column>], rows: &[Row]) -> Option<Values> {
    let (mut naming, mut codes) = (Naming::<&[u8]>::new(), Vec::with_capacity(rows.len()));
    let mut numbers: Vec<Vec<i32>> = vec![Vec::new(); parts.len()];
    for (at, row) in rows {
        let Values::Coded(given, texts) = &parts[*at]?.values else { return None };
        let (code, own) = (given[*row as usize] as usize, &mut numbers[*at]);
        if own.is_empty() {
            own.resize(texts.len(), -1);
        }
        if own[code] < 0 {
            own[code] = naming.number(texts.get(code))?;
        }
        codes.push(own[code]);
    }
    Some(Values::Coded(codes, naming.names))
}
