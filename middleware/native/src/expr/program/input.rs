//! Columns as programs read them: runs of rows, or rows chosen one by one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::made::Kind;
use super::values::{Data, There, Values};
use crate::block::arrow::{Cells, Column};
use crate::expr::value::Unsure;

/// A column. Whole numbers that are not there are 0, so that arithmetic on them is harmless.
pub struct Input<'a> {
    cells: Cells<'a>,
    there: Option<Vec<u8>>,
}

impl<'a> Input<'a> {
    pub fn of(column: Column<'a>) -> Self {
        let (mut cells, there) = (column.cells(), column.there());
        if let (Cells::Integers(cells), Some(there)) = (&mut cells, &there) {
            cells.to_mut().iter_mut().zip(there).for_each(|(cell, there)| *cell *= i64::from(*there));
        }
        Self { cells, there }
    }

    /// The values of rows that lie together.
    pub fn run(&self, rows: Range<usize>) -> Result<Values<'_>, Unsure> {
        Ok(Values {
            data: match &self.cells {
                Cells::Integers(cells) => Data::Ints(Cow::Borrowed(&cells[rows.clone()])),
                Cells::Floats(cells) => Data::Floats(Cow::Borrowed(&cells[rows.clone()])),
                Cells::Flags(cells) => Data::Flags(Cow::Borrowed(&cells[rows.clone()])),
                Cells::Texts(texts) => Data::Texts(rows.clone().map(|row| texts.get(row)).collect()),
                Cells::Other => return Err(Unsure),
            },
            there: self.there.as_ref().map_or(There::All, |there| There::Some(Cow::Borrowed(&there[rows]))),
        })
    }

    /// The values of these rows, in this order.
    pub fn some(&self, rows: &[u32]) -> Result<Values<'_>, Unsure> {
        let at = |row: &u32| *row as usize;
        Ok(Values {
            data: match &self.cells {
                Cells::Integers(cells) => Data::Ints(rows.iter().map(|row| cells[at(row)]).collect()),
                Cells::Floats(cells) => Data::Floats(rows.iter().map(|row| cells[at(row)]).collect()),
                Cells::Flags(cells) => Data::Flags(rows.iter().map(|row| cells[at(row)]).collect()),
                Cells::Texts(texts) => Data::Texts(rows.iter().map(|row| texts.get(at(row))).collect()),
                Cells::Other => return Err(Unsure),
            },
            there: match &self.there {
                None => There::All,
                Some(there) => There::Some(rows.iter().map(|row| there[at(row)]).collect()),
            },
        })
    }
}

/// A value of a row.
pub enum Cell<'a> {
    Null,
    Int(i64),
    Float(f64),
    Flag(u8),
    Text(&'a [u8]),
    Other,
}

impl Input<'static> {
    /// So many zeros.
    pub fn zeros(count: usize) -> Self {
        Self { cells: Cells::Integers(Cow::Owned(vec![0; count])), there: None }
    }

    /// For each row the text that its code stands for; None: all have the first.
    pub fn of_texts(texts: &[Box<str>], codes: Option<&[i32]>, count: usize) -> Self {
        let texts = (0..count).map(|row| texts[codes.map_or(0, |codes| codes[row] as usize)].as_bytes());
        Self { cells: Cells::Texts(texts.collect()), there: None }
    }
}

impl Input<'_> {
    /// Whether its type is none that is read here.
    pub fn is_other(&self) -> bool {
        matches!(self.cells, Cells::Other)
    }

    /// Whole numbers, if it has them and all are there.
    pub fn integers(&self) -> Option<&[i64]> {
        match &self.cells {
            Cells::Integers(cells) if self.there.is_none() => Some(cells),
            _ => None,
        }
    }

    /// The same, copied.
    pub fn into_owned(self) -> Input<'static> {
        Input { cells: self.cells.into_owned(), there: self.there }
    }

    /// These rows of it, copied.
    pub fn taken(&self, rows: &[u32]) -> Input<'static> {
        let at = |row: &u32| *row as usize;
        let cells = match &self.cells {
            Cells::Integers(cells) => Cells::Integers(rows.iter().map(|row| cells[at(row)]).collect()),
            Cells::Floats(cells) => Cells::Floats(rows.iter().map(|row| cells[at(row)]).collect()),
            Cells::Flags(cells) => Cells::Flags(rows.iter().map(|row| cells[at(row)]).collect()),
            Cells::Texts(texts) => Cells::Texts(rows.iter().map(|row| texts.get(at(row))).collect()),
            Cells::Other => Cells::Other,
        };
        Input { cells, there: self.there.as_ref().map(|there| rows.iter().map(|row| there[at(row)]).collect()) }
    }

    #[inline]
    pub fn cell(&self, row: usize) -> Cell<'_> {
        if self.there.as_ref().is_some_and(|there| there[row] == 0) {
            return Cell::Null;
        }
        match &self.cells {
            Cells::Integers(cells) => Cell::Int(cells[row]),
            Cells::Floats(cells) => Cell::Float(cells[row]),
            Cells::Flags(cells) => Cell::Flag(cells[row]),
            Cells::Texts(texts) => Cell::Text(texts.get(row)),
            Cells::Other => Cell::Other,
        }
    }
}

/// Values of rows of several columns, all of one kind.
pub fn gathered<'a>(kind: Kind, cells: impl Iterator<Item = Cell<'a>>, count: usize) -> Result<Values<'a>, Unsure> {
    let mut there = vec![1; count];
    let mut flag_null = |at: usize| there[at] = 0;
    macro_rules! of {
        ($cell:path, $null:expr) => {{
            let mut values = Vec::with_capacity(count);
            for (at, cell) in cells.enumerate() {
                values.push(match cell {
                    $cell(value) => value,
                    Cell::Null => {
                        flag_null(at);
                        $null
                    }
                    _ => return Err(Unsure),
                });
            }
            values
        }};
    }
    let data = match kind {
        Kind::Ints => Data::Ints(Cow::Owned(of!(Cell::Int, 0))),
        Kind::Floats => Data::Floats(Cow::Owned(of!(Cell::Float, 0.0))),
        Kind::Flags => Data::Flags(Cow::Owned(of!(Cell::Flag, 0))),
        Kind::Texts => Data::Texts(of!(Cell::Text, &[])),
    };
    let there = if there.contains(&0) { There::Some(Cow::Owned(there)) } else { There::All };
    Ok(Values { data, there })
}

/// A number for each row, by its source.
pub struct Sources<'a> {
    numbers: Vec<i64>,
    /// Which of the numbers each row has; None: all have the first.
    codes: Option<Cow<'a, [i32]>>,
}

impl<'a> Sources<'a> {
    /// From a column of texts, or of a dictionary of them, and what tells the number of each; None for another column.
    pub fn of<E>(column: Column<'a>, number: impl Fn(&[u8]) -> Result<i64, E>) -> Result<Option<Self>, E> {
        if let Some((names, codes)) = column.coded() {
            let numbers = (0..names.len()).map(|at| number(names.get(at))).collect::<Result<Vec<_>, E>>()?;
            let codes = Some(codes).filter(|_| numbers.len() != 1);
            return Ok(Some(Self { numbers, codes }));
        }
        let Cells::Texts(texts) = column.cells() else { return Ok(None) };
        let (mut numbers, mut codes, mut known) = (Vec::new(), Vec::with_capacity(texts.len()), HashMap::new());
        for row in 0..texts.len() {
            let name = texts.get(row);
            let next = numbers.len() as i32;
            let code = *known.entry(name).or_insert(next);
            if code == next {
                numbers.push(number(name)?);
            }
            codes.push(code);
        }
        Ok(Some(Self { numbers, codes: Some(Cow::Owned(codes)) }))
    }

    #[inline]
    pub fn get(&self, row: usize) -> i64 {
        self.numbers[self.codes.as_ref().map_or(0, |codes| codes[row] as usize)]
    }
}
