//! Texts by number, each once, as Arrow has the sources of events.

use std::collections::HashMap;

use crate::export::Texts;

pub struct Naming<'a> {
    /// Those that have a number, in its order.
    pub names: Texts,
    known: HashMap<&'a [u8], i32>,
}

impl<'a> Naming<'a> {
    pub fn new() -> Self {
        Self { names: Texts::new(), known: HashMap::new() }
    }

    /// The number of a text, a new one the first time; None if there are too many, or they are too long.
    pub fn number(&mut self, text: &'a [u8]) -> Option<i32> {
        if let Some(number) = self.known.get(text) {
            return Some(*number);
        }
        let number = i32::try_from(self.known.len()).ok()?;
        self.names.push(text)?;
        self.known.insert(text, number);
        Some(number)
    }
}
