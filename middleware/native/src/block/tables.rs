//! Tables of Arrow as events of a type: which of their columns are which fields.

use std::borrow::Cow;

use crate::block::arrow::{Cells, Column};
use crate::block::form::Form;

/// The order of arrival over several tables.
const ARRIVAL: &[u8] = b"arrival";

/// The rows of a table, which has the columns of a type, in any order.
pub struct Rows<'a> {
    pub own: Vec<Column<'a>>,
    pub times: Cow<'a, [i64]>,
    /// None: they are numbered.
    pub ids: Option<Cow<'a, [i64]>>,
    /// None: of one source.
    pub sources: Option<Column<'a>>,
    /// Never falling; empty if the order of arrival was not asked for.
    pub arrivals: Cow<'a, [i64]>,
}

impl<'a> Rows<'a> {
    /// None if a column is missing, is of no field or there twice, or if a stamp is null, or of another type than int64 and text.
    pub fn of<E>(
        columns: impl Iterator<Item = Result<Column<'a>, E>>,
        form: &Form,
        by_arrival: bool,
    ) -> Result<Option<Self>, E> {
        let own = form.own();
        let (mut fields, mut arrival) = (vec![None; own + 3], None);
        for column in columns {
            let column = column?;
            let slot = if by_arrival && column.name() == ARRIVAL {
                &mut arrival
            } else {
                let found = form.fields[..own + 3].iter().position(|(name, ..)| name.to_bytes() == column.name());
                let Some(field) = found else { return Ok(None) };
                &mut fields[field]
            };
            if slot.replace(column).is_some() {
                return Ok(None);
            }
        }
        Ok(Self::made(fields, arrival, by_arrival))
    }

    fn made(mut fields: Vec<Option<Column<'a>>>, arrival: Option<Column<'a>>, by_arrival: bool) -> Option<Self> {
        let (sources, ids, times) = (fields.pop()?, fields.pop()?, fields.pop()?);
        let ids = match ids {
            Some(ids) => Some(whole(ids)?),
            None if sources.is_some() => return None,
            None => None,
        };
        let arrivals = if by_arrival { whole(arrival?)? } else { Cow::Borrowed(&[][..]) };
        let is_sound = arrivals.is_sorted() && sources.is_none_or(|column| column.is_full());
        let own = fields.into_iter().collect::<Option<_>>()?;
        is_sound.then_some(Self { own, times: whole(times?)?, ids, sources, arrivals })
    }
}

/// A column of whole numbers that are all there.
fn whole<'a>(column: Column<'a>) -> Option<Cow<'a, [i64]>> {
    match column.cells() {
        Cells::Integers(cells) if column.is_full() => Some(cells),
        _ => None,
    }
}
