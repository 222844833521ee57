//! The invariants of the paper, checked node by node.

use super::monoid::Monoid;
use super::tree::{Side, Time, Tree};

type Fault = Result<(), String>;

fn must(holds: bool, what: impl FnOnce() -> String) -> Fault {
    if holds { Ok(()) } else { Err(what()) }
}

impl<K: Time, M: Monoid> Tree<K, M> {
    /// The first fault, if there is one: sizes, heights, order, sides, fingers, aggregates, and the bookkeeping of the arena. O(n).
    pub fn fault(&self) -> Result<Option<String>, M::Failure> {
        if let Err(fault) = self.structure() {
            return Ok(Some(fault));
        }
        let mut below = vec![self.root];
        while let Some(x) = below.pop() {
            if self.len > 0 {
                let (expected, _) = self.aggregate(x, self.covers(x))?;
                let Some(expected) = expected else { return Ok(Some(format!("node {x} is empty"))) };
                if !self.monoid.same(&expected, &self.aggs[x as usize])? {
                    return Ok(Some(format!("the aggregate of node {x} ({:?}) is out of date", self.side(x))));
                }
            }
            if self.height(x) > 0 {
                below.extend(self.kids_of(x));
            }
        }
        Ok(None)
    }

    fn structure(&self) -> Fault {
        let (entries, nodes) = self.subtree(self.root, None, None)?;
        must(entries == self.len, || format!("{entries} entries, but a size of {}", self.len))?;
        must(nodes + self.free.len() == self.nodes.len(), || {
            format!("{nodes} nodes and {} free ones of {}", self.free.len(), self.nodes.len())
        })?;
        must(self.side(self.root) == Side::Root, || "the root does not know that it is one".into())?;
        must(self.dirty.iter().all(Vec::is_empty), || "repair left nodes behind".into())?;
        let (mut first, mut last) = (self.root, self.root);
        while self.height(first) > 0 {
            first = self.kid(first, 0);
        }
        while self.height(last) > 0 {
            last = self.kid(last, self.count(last));
        }
        must((first, last) == (self.left, self.right), || "a finger points elsewhere".into())
    }

    /// Entries and nodes of a subtree, whose times must lie between the bounds.
    fn subtree(&self, x: u32, low: Option<K>, high: Option<K>) -> Result<(usize, usize), String> {
        let (count, times) = (self.count(x), &self.times_of(x)[self.evicted(x)..]);
        let least = if x == self.root { usize::from(self.height(x) > 0) } else { self.least(x) };
        must(count >= least && count <= self.most(), || format!("node {x} holds {count} entries"))?;
        must(times.windows(2).all(|pair| pair[0] < pair[1]), || format!("the times of node {x} are not sorted"))?;
        let inside = times.iter().all(|&time| low.is_none_or(|low| low < time) && high.is_none_or(|high| time < high));
        must(inside, || format!("node {x} holds a time that belongs elsewhere"))?;
        must(!self.node(x).dirty, || format!("node {x} is still listed for repair"))?;
        if self.height(x) == 0 {
            return Ok((count - self.evicted(x), 1));
        }
        let (mut entries, mut nodes) = (count, 1);
        for (i, &kid) in self.kids_of(x).iter().enumerate() {
            must(self.parent(kid) == x, || format!("node {kid} has lost its parent {x}"))?;
            must(self.height(kid) + 1 == self.height(x), || format!("the leaves below node {x} differ in depth"))?;
            let left = i == 0 && matches!(self.side(x), Side::Left | Side::Root);
            let right = i == count && matches!(self.side(x), Side::Right | Side::Root);
            let side = if left {
                Side::Left
            } else if right {
                Side::Right
            } else {
                Side::Inner
            };
            must(self.side(kid) == side, || format!("node {kid} stands {side:?} but thinks {:?}", self.side(kid)))?;
            let low = if i == 0 { low } else { Some(times[i - 1]) };
            let high = if i == count { high } else { Some(times[i]) };
            let below = self.subtree(kid, low, high)?;
            entries += below.0;
            nodes += below.1;
        }
        Ok((entries, nodes))
    }
}
