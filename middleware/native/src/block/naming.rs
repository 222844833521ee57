//! Texts by number, each once, as Arrow has the sources of events.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use crate::block::arrow::{Cells, Column};
use crate::block::batch::Texts;

/// `K`: what a text is known by, the text itself or a copy of it.
pub struct Naming<K> {
    /// Those that have a number, in its order.
    pub names: Texts,
    known: HashMap<K, i32>,
}

impl<K: Borrow<[u8]> + Eq + Hash> Naming<K> {
    pub fn new() -> Self {
        Self { names: Texts::new(), known: HashMap::new() }
    }

    /// The number of a text, a new one the first time; None if there are too many, or they are too long.
    pub fn number<'a>(&mut self, text: &'a [u8]) -> Option<i32>
    where
        K: From<&'a [u8]>,
    {
        if let Some(number) = self.known.get(text) {
            return Some(*number);
        }
        let number = i32::try_from(self.known.len()).ok()?;
        self.names.push(text)?;
        self.known.insert(text.into(), number);
        Some(number)
    }

    /// Forget all from this number on.
    pub fn truncate(&mut self, count: usize) {
        self.names.truncate(count);
        self.known.retain(|_, number| (*number as usize) < count);
    }
}

impl Naming<Box<[u8]>> {
    /// Add the number of each of these rows to `numbers`; None if the column has no texts.
    pub fn add(&mut self, column: Column<'_>, rows: Range<usize>, numbers: &mut Vec<i32>) -> Option<()> {
        if let Some((texts, codes)) = column.coded() {
            let mut own = vec![-1; texts.len()];
            for code in &codes[rows] {
                let number = own.get_mut(usize::try_from(*code).ok()?)?;
                if *number < 0 {
                    *number = self.number(texts.get(*code as usize))?;
                }
                numbers.push(*number);
            }
            return Some(());
        }
        let Cells::Texts(texts) = column.cells() else { return None };
        for row in rows {
            numbers.push(self.number(texts.get(row))?);
        }
        Some(())
    }
}
