//! Finger search: from the nearer end of the window up the spine, and down again. O(log d).

use super::monoid::Monoid;
use super::tree::{Time, Tree};

/// A place in the tree: entry i of node x, or where it would be (in a leaf).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub x: u32,
    pub i: usize,
    pub found: bool,
}

impl<K: Time, M: Monoid> Tree<K, M> {
    /// Where a time is, or belongs.
    pub fn locate(&mut self, time: K) -> Place {
        let root = self.root;
        let top = if self.height(root) == 0 || !M::FINGERS {
            root
        } else if time > self.last_time(root) {
            self.climb_right(time)
        } else if time < self.first_time(root) {
            self.climb_left(time)
        } else {
            root
        };
        self.descend(top, time)
    }

    /// The lowest node of the right spine with this time in its subtree, or one above that holds it. Above the root's last.
    pub fn climb_right(&mut self, time: K) -> u32 {
        let mut x = self.right;
        loop {
            self.work.visits += 1;
            let parent = self.parent(x);
            if parent == self.root || time > self.last_time(parent) {
                return x;
            }
            x = parent;
        }
    }

    pub fn climb_left(&mut self, time: K) -> u32 {
        let mut x = self.left;
        loop {
            self.work.visits += 1;
            let parent = self.parent(x);
            if parent == self.root || time < self.first_time(parent) {
                return x;
            }
            x = parent;
        }
    }

    /// Search the subtree of x.
    #[inline]
    pub fn descend(&mut self, mut x: u32, time: K) -> Place {
        loop {
            self.work.visits += 1;
            let times = self.times_of(x);
            let i = rank(times, time);
            let found = i < times.len() && times[i] == time;
            if found || self.height(x) == 0 {
                return Place { x, i, found };
            }
            x = self.kid(x, i);
        }
    }

    /// The leaf with the oldest entry of a subtree.
    pub fn oldest_leaf(&mut self, mut x: u32) -> u32 {
        while self.height(x) > 0 {
            self.work.visits += 1;
            x = self.kid(x, 0);
        }
        x
    }

    /// The leaf with the youngest entry of a subtree.
    pub fn youngest_leaf(&mut self, mut x: u32) -> u32 {
        while self.height(x) > 0 {
            self.work.visits += 1;
            x = self.kid(x, self.count(x));
        }
        x
    }

    pub fn oldest(&self) -> Option<K> {
        (self.len > 0).then(|| self.times[self.left as usize * self.room + self.front])
    }

    pub fn youngest(&self) -> Option<K> {
        (self.len > 0).then(|| self.last_time(self.right))
    }
}

/// How many times lie before this one. Nodes are small: counting all is faster than stopping early.
#[inline]
pub fn rank<K: Time>(times: &[K], time: K) -> usize {
    times.iter().map(|&other| usize::from(other < time)).sum()
}
