//! Partitions by number, one for each key that has events.

/// The state of one key.
pub trait Content {
    fn is_empty(&self) -> bool;
    /// Become as new, for another key; room may be kept, if it is little.
    fn clear(&mut self);
}

/// Partitions that are kept for other keys once they are empty: keys come and go.
const SPARE: usize = 1_024;

/// Room for so many entries may be kept.
pub const LITTLE: usize = 16;

pub struct Partitions<P> {
    all: Vec<Option<P>>,
    free: Vec<usize>,
    spare: Vec<P>,
}

impl<P> Default for Partitions<P> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new(), spare: Vec::new() }
    }
}

impl<P> Partitions<P> {
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// The number that `open` gives to the next partition.
    pub fn next(&self) -> usize {
        self.free.last().copied().unwrap_or(self.all.len())
    }

    /// A partition for a new key; its number.
    pub fn open(&mut self, make: impl FnOnce() -> P) -> usize {
        let partition = self.spare.pop().unwrap_or_else(make);
        match self.free.pop() {
            Some(at) => {
                self.all[at] = Some(partition);
                at
            }
            None => {
                self.all.push(Some(partition));
                self.all.len() - 1
            }
        }
    }

    pub fn get(&self, at: usize) -> Option<&P> {
        self.all.get(at)?.as_ref()
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut P> {
        self.all.get_mut(at)?.as_mut()
    }

    /// The numbers of all partitions.
    pub fn numbers(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|at| self.all[*at].is_some()).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.all.iter().flatten()
    }
}

impl<P: Content> Partitions<P> {
    /// Forget what `purge` takes out of each partition, and partitions that hold nothing, each of which `forget` is given;
    /// returns how much.
    pub fn purge<E>(
        &mut self,
        mut purge: impl FnMut(&mut P) -> usize,
        mut forget: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut count = 0;
        for at in 0..self.all.len() {
            let Some(partition) = &mut self.all[at] else { continue };
            count += purge(partition);
            if partition.is_empty()
                && let Some(mut partition) = self.all[at].take()
            {
                self.free.push(at);
                if self.spare.len() < SPARE {
                    partition.clear();
                    self.spare.push(partition);
                }
                forget(at)?;
            }
        }
        Ok(count)
    }
}
