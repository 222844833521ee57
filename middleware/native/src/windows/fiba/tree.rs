//! The finger B-tree: an arena of nodes (Tangwongsan, Hirzel and Schneider, VLDB 2019, section 3).
//!
//! A node of arity a holds a - 1 entries (time and slot), a - 1 of them separating its a children. MIN_ARITY <= a <=
//! 2 * MIN_ARITY off the spines; on them 2 <= a is enough, so that a window in order fills its last nodes from one entry and
//! uses up its first ones to one. All leaves lie at one depth. Nodes are numbers into columns with one stride, so that the
//! arity is a choice at run time, and a search reads nothing but times.

use std::mem::take;

use super::monoid::Monoid;
use super::undo_log::{Undo, UndoLog};

pub const NIL: u32 = u32::MAX;

/// Where a node stands, which says what its aggregate covers (section 3.2, figure 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Not on a spine: all of its subtree (up-aggregate).
    Inner,
    /// On the left spine: all below the root's first child but for this node's own first child and what is left of it.
    Left,
    /// On the right spine: the mirror image.
    Right,
    /// All but what is below the first and the last child (inner aggregate); all, if it is a leaf.
    Root,
}

#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub parent: u32,
    /// Entries; children are one more, but for leaves.
    pub count: u16,
    /// 0 for leaves.
    pub height: u8,
    pub side: Side,
    /// Listed for repair.
    pub dirty: bool,
}

/// Times: what entries are sorted by, each once.
pub trait Time: Copy + Ord + Default + Send + Sync + 'static {}
impl<T: Copy + Ord + Default + Send + Sync + 'static> Time for T {}

/// Work done so far, for tests of the bounds: a combine is any use of the operator, a visit any node looked at or repaired.
#[derive(Clone, Copy, Default)]
pub struct Work {
    pub combines: u64,
    pub visits: u64,
}

pub struct Tree<K: Time, M: Monoid> {
    pub monoid: M,
    /// MIN_ARITY.
    pub min: usize,
    /// Entries a node has room for: one more than it may keep.
    pub room: usize,
    pub nodes: Vec<Node>,
    pub aggs: Vec<M::Agg>,
    pub times: Vec<K>,
    pub slots: Vec<M::Slot>,
    pub kids: Vec<u32>,
    pub free: Vec<u32>,
    pub root: u32,
    /// The left finger: the leaf with the oldest entry.
    pub left: u32,
    /// The right finger: the leaf with the youngest entry.
    pub right: u32,
    pub len: usize,
    /// Nodes whose entries or children changed, by height: what one repair looks at.
    pub dirty: Vec<Vec<u32>>,
    /// Entries at the front of the left finger that are evicted, but not yet taken out: evicting in order moves nothing.
    /// `settle` takes them out; only what inserts near the young end, evicts in order or queries the whole window goes without it.
    pub front: usize,
    /// By height, left aggregates of the left spine's node as they will be after each coming loss of its first entry, if known:
    /// evicting in order takes the last. Only of the finger and its parent.
    pub suffixes: [Vec<M::Agg>; 2],
    pub work: Work,
    pub undo_log: UndoLog<K, M>,
}

impl<K: Time, M: Monoid> Tree<K, M> {
    pub fn new(monoid: M, min: usize) -> Self {
        let mut tree = Self {
            monoid,
            min,
            room: 2 * min,
            nodes: Vec::new(),
            aggs: Vec::new(),
            times: Vec::new(),
            slots: Vec::new(),
            kids: Vec::new(),
            free: Vec::new(),
            root: 0,
            left: 0,
            right: 0,
            len: 0,
            dirty: vec![Vec::new()],
            front: 0,
            suffixes: [Vec::new(), Vec::new()],
            work: Work::default(),
            undo_log: UndoLog::default(),
        };
        tree.new_node(0, Side::Root);
        tree
    }

    /// Most entries a node may keep.
    #[inline]
    pub fn most(&self) -> usize {
        2 * self.min - 1
    }

    /// Fewest entries a node may keep. On a spine one is enough for O(log d): the inner child that it brings is full enough.
    #[inline]
    pub fn least(&self, x: u32) -> usize {
        if M::FINGERS && self.side(x) != Side::Inner { 1 } else { self.min - 1 }
    }

    #[inline]
    pub fn node(&self, x: u32) -> &Node {
        &self.nodes[x as usize]
    }

    #[inline]
    pub fn count(&self, x: u32) -> usize {
        self.nodes[x as usize].count as usize
    }

    #[inline]
    pub fn parent(&self, x: u32) -> u32 {
        self.nodes[x as usize].parent
    }

    #[inline]
    pub fn height(&self, x: u32) -> u8 {
        self.nodes[x as usize].height
    }

    #[inline]
    pub fn side(&self, x: u32) -> Side {
        self.nodes[x as usize].side
    }

    /// The extent of a node's aggregate: without fingers its subtree, wherever it stands.
    #[inline]
    pub fn covers(&self, x: u32) -> Side {
        if M::FINGERS { self.side(x) } else { Side::Inner }
    }

    #[inline]
    pub fn times_of(&self, x: u32) -> &[K] {
        let at = x as usize * self.room;
        &self.times[at..at + self.count(x)]
    }

    #[inline]
    pub fn slots_of(&self, x: u32) -> &[M::Slot] {
        let at = x as usize * self.room;
        &self.slots[at..at + self.count(x)]
    }

    #[inline]
    pub fn kid(&self, x: u32, i: usize) -> u32 {
        self.kids[x as usize * (self.room + 1) + i]
    }

    /// The children of an inner node.
    #[inline]
    pub fn kids_of(&self, x: u32) -> &[u32] {
        let at = x as usize * (self.room + 1);
        &self.kids[at..=at + self.count(x)]
    }

    /// The last entry's time.
    #[inline]
    pub fn last_time(&self, x: u32) -> K {
        self.times[x as usize * self.room + self.count(x) - 1]
    }

    #[inline]
    pub fn first_time(&self, x: u32) -> K {
        self.times[x as usize * self.room]
    }

    /// Which child of its parent a node is. O(arity).
    pub fn place(&self, x: u32) -> usize {
        self.kids_of(self.parent(x)).iter().position(|&kid| kid == x).expect("a node is a child of its parent")
    }

    pub fn new_node(&mut self, height: u8, side: Side) -> u32 {
        let node = Node { parent: NIL, count: 0, height, side, dirty: false };
        while self.dirty.len() <= height as usize {
            self.dirty.push(Vec::new());
        }
        if let Some(x) = self.free.pop() {
            if M::FALLIBLE {
                self.undo_log.note(Undo::Reused(x));
            }
            self.nodes[x as usize] = node;
            return x;
        }
        let x = self.nodes.len();
        self.nodes.push(node);
        self.aggs.push(M::Agg::default());
        self.times.resize((x + 1) * self.room, K::default());
        self.slots.resize((x + 1) * self.room, M::Slot::default());
        self.kids.resize((x + 1) * (self.room + 1), NIL);
        if M::FALLIBLE {
            self.undo_log.note(Undo::Grown);
        }
        u32::try_from(x).expect("a window holds fewer than 2^32 nodes")
    }

    /// Give a node back; its entries are moved or dropped.
    pub fn free_node(&mut self, x: u32) {
        self.touch(x);
        if M::FALLIBLE {
            self.undo_log.note(Undo::Freed);
        }
        let at = x as usize * self.room;
        let count = self.count(x);
        self.slots[at..at + count].iter_mut().for_each(|slot| drop(take(slot)));
        self.aggs[x as usize] = M::Agg::default();
        let node = &mut self.nodes[x as usize];
        (node.count, node.parent, node.dirty) = (0, NIL, false);
        self.free.push(x);
    }

    /// A node is about to change. Only trees that may have to go back take note.
    #[inline]
    pub fn touch(&mut self, x: u32) {
        if M::FALLIBLE {
            let undo = self.image(x);
            self.undo_log.note(undo);
        }
    }

    /// List a node for repair: its entries or children changed.
    #[inline]
    pub fn mark(&mut self, x: u32) {
        let node = &mut self.nodes[x as usize];
        if !node.dirty {
            node.dirty = true;
            self.dirty[node.height as usize].push(x);
        }
    }

    pub fn insert_entry(&mut self, x: u32, i: usize, time: K, slot: M::Slot) {
        let (at, count) = (x as usize * self.room, self.count(x));
        if i == count {
            return self.push_entry(x, time, slot);
        }
        self.touch(x);
        self.times.copy_within(at + i..at + count, at + i + 1);
        self.times[at + i] = time;
        self.slots[at + count] = slot;
        self.slots[at + i..=at + count].rotate_right(1);
        self.nodes[x as usize].count += 1;
    }

    /// Put an entry behind all others of a node.
    #[inline]
    pub fn push_entry(&mut self, x: u32, time: K, slot: M::Slot) {
        self.touch(x);
        let at = x as usize * self.room + self.count(x);
        self.times[at] = time;
        self.slots[at] = slot;
        self.nodes[x as usize].count += 1;
    }

    /// How many entries at the front of a node are evicted already.
    #[inline]
    pub fn evicted(&self, x: u32) -> usize {
        if x == self.left { self.front } else { 0 }
    }

    /// Take out what is evicted already.
    #[inline]
    pub fn settle(&mut self) {
        if self.front > 0 {
            self.take_front();
        }
    }

    /// Take out all entries of the left finger, evicted or not.
    pub fn empty(&mut self, x: u32) {
        let (at, count) = (x as usize * self.room, self.count(x));
        self.slots[at..at + count].fill(M::Slot::default());
        self.nodes[x as usize].count = 0;
        self.front = 0;
    }

    #[cold]
    fn take_front(&mut self) {
        let (at, count, gone) = (self.left as usize * self.room, self.count(self.left), take(&mut self.front));
        self.times.copy_within(at + gone..at + count, at);
        self.slots[at..at + count].rotate_left(gone);
        self.slots[at + count - gone..at + count].fill(M::Slot::default());
        self.nodes[self.left as usize].count -= u16::try_from(gone).expect("arity is small");
    }

    pub fn remove_entry(&mut self, x: u32, i: usize) -> (K, M::Slot) {
        self.touch(x);
        let (at, count) = (x as usize * self.room, self.count(x));
        let time = self.times[at + i];
        self.times.copy_within(at + i + 1..at + count, at + i);
        self.slots[at + i..at + count].rotate_left(1);
        self.nodes[x as usize].count -= 1;
        (time, take(&mut self.slots[at + count - 1]))
    }

    /// Put a child at place i of x, whose count says already how many there will be.
    pub fn insert_kid(&mut self, x: u32, i: usize, kid: u32) {
        let at = x as usize * (self.room + 1);
        let count = self.count(x);
        self.kids.copy_within(at + i..at + count, at + i + 1);
        self.kids[at + i] = kid;
        self.adopt(x, kid);
    }

    /// Take child i from x, whose count says already how many will stay.
    pub fn remove_kid(&mut self, x: u32, i: usize) {
        let at = x as usize * (self.room + 1);
        let count = self.count(x);
        self.kids.copy_within(at + i + 1..at + count + 2, at + i);
    }

    pub fn adopt(&mut self, parent: u32, kid: u32) {
        self.touch(kid);
        self.nodes[kid as usize].parent = parent;
    }

    /// Move `number` entries from place `from` of x to place `to` of y, where there is room; counts are left to the caller.
    pub fn move_entries(&mut self, (x, from): (u32, usize), (y, to): (u32, usize), number: usize) {
        let (source, target) = (x as usize * self.room + from, y as usize * self.room + to);
        self.times.copy_within(source..source + number, target);
        for i in 0..number {
            self.slots.swap(source + i, target + i);
        }
    }

    /// Move children in the same way.
    pub fn move_kids(&mut self, (x, from): (u32, usize), (y, to): (u32, usize), number: usize) {
        let (source, target) = (x as usize * (self.room + 1) + from, y as usize * (self.room + 1) + to);
        self.kids.copy_within(source..source + number, target);
        for i in 0..number {
            let kid = self.kids[target + i];
            self.adopt(y, kid);
        }
    }
}
