//! Columns that programs make.

use super::values::{Data, There, Values};
use crate::block::batch::{self, Texts, bits};
use crate::expr::value::Unsure;

#[derive(Clone, Copy)]
pub enum Kind {
    Ints,
    Floats,
    Flags,
    Texts,
}

/// What a column takes.
#[derive(Clone, Copy)]
pub struct Made {
    pub kind: Kind,
    pub may_miss: bool,
}

enum Cells {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Flags(Vec<u8>),
    Texts(Texts),
}

/// A column as it grows.
pub struct Column {
    cells: Cells,
    there: Option<Vec<u8>>,
    may_miss: bool,
}

impl Made {
    pub fn kind(self) -> Kind {
        self.kind
    }

    pub fn column(self, room: usize) -> Column {
        let cells = match self.kind {
            Kind::Ints => Cells::Ints(Vec::with_capacity(room)),
            Kind::Floats => Cells::Floats(Vec::with_capacity(room)),
            Kind::Flags => Cells::Flags(Vec::with_capacity(room)),
            Kind::Texts => Cells::Texts(Texts::new()),
        };
        Column { cells, there: None, may_miss: self.may_miss }
    }
}

impl Column {
    fn len(&self) -> usize {
        match &self.cells {
            Cells::Ints(cells) => cells.len(),
            Cells::Floats(cells) => cells.len(),
            Cells::Flags(cells) => cells.len(),
            Cells::Texts(texts) => texts.len(),
        }
    }

    /// Add the values of `count` rows, which must be of the column's kind, and there if they have to be.
    pub fn add(&mut self, values: &Values<'_>, count: usize) -> Result<(), Unsure> {
        let before = self.len();
        let all = before + count;
        match (&mut self.cells, &values.data) {
            (Cells::Ints(cells), Data::Ints(ints)) => cells.extend_from_slice(ints),
            (Cells::Ints(cells), Data::Int(int)) => cells.resize(all, *int),
            (Cells::Floats(cells), Data::Floats(floats)) => cells.extend_from_slice(floats),
            (Cells::Floats(cells), Data::Float(float)) => cells.resize(all, *float),
            (Cells::Flags(cells), Data::Flags(flags)) => cells.extend_from_slice(flags),
            (Cells::Flags(cells), Data::Flag(flag)) => cells.resize(all, u8::from(*flag)),
            (Cells::Texts(cells), Data::Texts(texts)) => {
                for text in texts {
                    cells.push(text).ok_or(Unsure)?;
                }
            }
            (Cells::Ints(cells), Data::Null) => cells.resize(all, 0),
            (Cells::Floats(cells), Data::Null) => cells.resize(all, 0.0),
            (Cells::Flags(cells), Data::Null) => cells.resize(all, 0),
            (Cells::Texts(cells), Data::Null) => cells.ends.resize(all + 1, cells.bytes.len() as i32),
            _ => return Err(Unsure),
        }
        let are_all = match &values.there {
            There::All => true,
            There::Some(there) => !there.contains(&0),
            There::None => count == 0,
        };
        if !are_all && !self.may_miss {
            return Err(Unsure);
        }
        match &mut self.there {
            Some(there) => there.extend_from_slice(&values.there.flags(count)),
            None if are_all => {}
            None => {
                let mut there = vec![1; before];
                there.extend_from_slice(&values.there.flags(count));
                self.there = Some(there);
            }
        }
        Ok(())
    }

    /// Which values are there, as a column of a block has it, and the values.
    pub fn done(self) -> (Option<(Vec<u8>, usize)>, batch::Values) {
        let missing = |there: &Vec<u8>| there.iter().filter(|is_there| **is_there == 0).count();
        let there = self.there.map(|there| (bits(&there), missing(&there))).filter(|(_, missing)| *missing > 0);
        let values = match self.cells {
            Cells::Ints(cells) => batch::Values::Integers(cells),
            Cells::Floats(cells) => batch::Values::Floats(cells),
            Cells::Flags(cells) => batch::Values::Flags(bits(&cells)),
            Cells::Texts(texts) => batch::Values::Texts(texts),
        };
        (there, values)
    }
}
