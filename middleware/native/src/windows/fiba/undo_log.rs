//! Going back: a Python operator may raise in the middle of an operation, and then the tree must be as it was.
//!
//! Each change notes how to undo it; undoing goes backwards, so that the first note of a node has the last word. Trees with
//! built-in operators, which cannot fail, never note anything.

use std::mem::take;

use super::monoid::Monoid;
use super::tree::{Node, Time, Tree};

/// All nodes of a tree, the columns they are in, and which of them are free.
pub type Arena<K, M> = (Vec<Node>, Vec<<M as Monoid>::Agg>, Vec<K>, Vec<<M as Monoid>::Slot>, Vec<u32>, Vec<u32>);

pub enum Undo<K, M: Monoid> {
    /// A node as it was before it changed.
    Node { x: u32, node: Node, agg: M::Agg, times: Vec<K>, slots: Vec<M::Slot>, kids: Vec<u32> },
    /// An aggregate as it was.
    Agg(u32, M::Agg),
    /// This node came from the free list.
    Reused(u32),
    /// A node went to the free list.
    Freed,
    /// The arena grew by a node.
    Grown,
    /// The tree was emptied, and this was in it.
    Emptied(Box<Arena<K, M>>),
}

pub struct UndoLog<K: Time, M: Monoid> {
    notes: Vec<Undo<K, M>>,
    /// Root, left and right finger, and size.
    head: (u32, u32, u32, usize),
    /// Whether an operation is under way: those within it are part of it.
    open: bool,
}

impl<K: Time, M: Monoid> Default for UndoLog<K, M> {
    fn default() -> Self {
        Self { notes: Vec::new(), head: (0, 0, 0, 0), open: false }
    }
}

impl<K: Time, M: Monoid> UndoLog<K, M> {
    pub fn note(&mut self, undo: Undo<K, M>) {
        self.notes.push(undo);
    }

    pub fn is_open(&self) -> bool {
        self.open
    }
}

impl<K: Time, M: Monoid> Tree<K, M> {
    /// Run an operation as a whole or not at all.
    #[inline]
    pub fn atomic<T, E>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        if !M::FALLIBLE || self.undo_log.open {
            return operation(self);
        }
        self.undo_log.open = true;
        self.undo_log.notes.clear();
        self.undo_log.head = (self.root, self.left, self.right, self.len);
        let outcome = operation(self);
        if outcome.is_err() {
            self.undo();
        }
        self.undo_log.notes.clear();
        self.undo_log.open = false;
        outcome
    }

    /// A node as it is now.
    pub fn image(&self, x: u32) -> Undo<K, M> {
        let at = x as usize * (self.room + 1);
        Undo::Node {
            x,
            node: *self.node(x),
            agg: self.aggs[x as usize].clone(),
            times: self.times_of(x).to_vec(),
            slots: self.slots_of(x).to_vec(),
            kids: self.kids[at..=at + self.room].to_vec(),
        }
    }

    fn undo(&mut self) {
        for x in self.dirty.iter_mut().flat_map(take) {
            self.nodes[x as usize].dirty = false;
        }
        for undo in take(&mut self.undo_log.notes).into_iter().rev() {
            match undo {
                Undo::Node { x, node, agg, times, slots, kids } => {
                    let at = x as usize * self.room;
                    self.times[at..at + times.len()].copy_from_slice(&times);
                    for (old, new) in self.slots[at..at + self.room].iter_mut().zip(slots) {
                        *old = new;
                    }
                    let first = x as usize * (self.room + 1);
                    self.kids[first..=first + self.room].copy_from_slice(&kids);
                    self.aggs[x as usize] = agg;
                    self.nodes[x as usize] = Node { dirty: false, ..node };
                }
                Undo::Agg(x, agg) => self.aggs[x as usize] = agg,
                Undo::Reused(x) => self.free.push(x),
                Undo::Freed => drop(self.free.pop()),
                Undo::Grown => self.shrink(),
                Undo::Emptied(arena) => {
                    (self.nodes, self.aggs, self.times, self.slots, self.kids, self.free) = *arena;
                }
            }
        }
        (self.root, self.left, self.right, self.len) = self.undo_log.head;
        self.forget_suffixes();
    }

    /// Drop the last node of the arena.
    fn shrink(&mut self) {
        self.nodes.pop();
        let count = self.nodes.len();
        self.aggs.truncate(count);
        self.times.truncate(count * self.room);
        self.slots.truncate(count * self.room);
        self.kids.truncate(count * (self.room + 1));
    }
}
