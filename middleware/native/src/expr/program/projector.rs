//! A test and the fields of results, run over rows wherever these lie.

use std::ops::Range;

use super::made::{Column, Made};
use super::values::Values;
use super::{BLOCK, Program};
use crate::event::search::in_time;
use crate::expr::value::Unsure;

/// Where programs find the fields of rows.
pub trait Rows {
    /// A field of rows that lie together: of which tuple, and which of those that are read of it.
    fn run(&self, which: usize, at: usize, rows: Range<usize>) -> Result<Values<'_>, Unsure>;

    /// The same of these rows, in this order.
    fn some(&self, which: usize, at: usize, rows: &[u32]) -> Result<Values<'_>, Unsure>;
}

pub struct Projector {
    pub test: Option<Program>,
    pub fields: Vec<(Program, Made)>,
}

impl Projector {
    /// Those of `count` rows that pass the test, in order of time.
    pub fn chosen(&self, count: usize, rows: &dyn Rows, time_of: impl Fn(usize) -> i64) -> Result<Vec<u32>, Unsure> {
        let chosen = match &self.test {
            None => (0..count as u32).collect(),
            Some(test) => passing(test, count, rows)?,
        };
        let order = in_time(chosen.len(), |place| time_of(chosen[place] as usize));
        Ok(order.into_iter().map(|place| chosen[place]).collect())
    }

    /// The fields of results of these rows.
    pub fn made(&self, chosen: &[u32], rows: &dyn Rows) -> Result<Vec<Column>, Unsure> {
        let column = |(program, kind): &(Program, Made)| {
            let mut column = kind.column(chosen.len());
            for some in chosen.chunks(BLOCK) {
                column.add(&*program.run(some.len(), &|which, at| rows.some(which, at, some))?, some.len())?;
            }
            Ok(column)
        };
        self.fields.iter().map(column).collect()
    }
}

/// The rows for which a program is true.
pub fn passing(test: &Program, count: usize, rows: &dyn Rows) -> Result<Vec<u32>, Unsure> {
    let (mut chosen, mut some) = (vec![0; count], 0);
    for start in (0..count).step_by(BLOCK) {
        let end = count.min(start + BLOCK);
        let holds = test.passes(end - start, &|which, at| rows.run(which, at, start..end))?;
        for (row, holds) in (start as u32..).zip(holds) {
            chosen[some] = row; // no branch, which would be guessed wrong as often as a row is chosen or not
            some += usize::from(holds);
        }
    }
    chosen.truncate(some);
    Ok(chosen)
}
