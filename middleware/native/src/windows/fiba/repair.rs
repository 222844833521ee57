//! Repair of partial aggregates: up from what changed to a spine, and down the spine to its finger.
//!
//! The paper hands the topmost node and two flags from rebalancing to repair (figure 7). Here rebalancing lists the nodes
//! it changed by height, and one repair goes through them, so that a whole run of changes can share it.

use std::mem::take;

use super::monoid::{Monoid, Product};
use super::tree::{NIL, Side, Time, Tree};
use super::undo_log::Undo;

impl<K: Time, M: Monoid> Tree<K, M> {
    #[inline]
    pub fn set_agg(&mut self, x: u32, agg: M::Agg) {
        self.forget_suffixes_of(x);
        let old = std::mem::replace(&mut self.aggs[x as usize], agg);
        if M::FALLIBLE {
            self.undo_log.note(Undo::Agg(x, old));
        }
    }

    /// Bring all aggregates up to date with what is marked.
    pub fn repair(&mut self) -> Result<(), M::Failure> {
        let (mut left, mut right) = (NIL, NIL);
        for height in 0..=self.height(self.root) as usize {
            let mut at = 0; // nodes stay listed until their level is done: where an operator raises, `undo` finds them there
            while let Some(&x) = self.dirty[height].get(at) {
                at += 1;
                if self.height(x) as usize != height || !take(&mut self.nodes[x as usize].dirty) {
                    continue; // freed since
                }
                self.work.visits += 1;
                match self.covers(x) {
                    Side::Inner => {
                        self.refresh(x, Side::Inner)?;
                        if x != self.root {
                            self.mark(self.parent(x));
                        }
                    }
                    Side::Root => self.refresh(x, Side::Root)?,
                    Side::Left => left = x,
                    Side::Right => right = x,
                }
            }
            self.dirty[height].clear();
        }
        self.refresh_left(left)?;
        self.refresh_right(right)
    }

    /// Recompute left aggregates from this node down to the finger.
    fn refresh_left(&mut self, mut x: u32) -> Result<(), M::Failure> {
        if x == NIL {
            return Ok(());
        }
        while self.height(x) > 0 {
            self.refresh(x, Side::Left)?;
            x = self.kid(x, 0);
        }
        self.refresh_with_suffixes(x)
    }

    /// The left aggregate of the left finger or its parent, built up from its youngest entry: what there is on the way are the
    /// aggregates that it will have after each coming loss of its first entry.
    pub fn refresh_with_suffixes(&mut self, x: u32) -> Result<(), M::Failure> {
        let (parent, inner) = (self.parent(x), self.height(x) > 0);
        let mut suffixes = take(&mut self.suffixes[usize::from(inner)]);
        suffixes.clear();
        let mut product = (parent != self.root).then(|| self.aggs[parent as usize].clone());
        let mut terms = u64::from(product.is_some());
        for (i, slot) in self.slots_of(x).iter().enumerate().skip(self.evicted(x)).rev() {
            if inner {
                let mut agg = self.aggs[self.kid(x, i + 1) as usize].clone();
                if let Some(later) = &product {
                    self.monoid.combine(&mut agg, later)?;
                }
                product = Some(agg);
            }
            let agg = match product {
                Some(mut agg) => self.monoid.prepend(slot, &mut agg).map(|()| agg)?,
                None => self.monoid.lift(slot)?,
            };
            terms += 1 + u64::from(inner);
            suffixes.push(agg.clone());
            product = Some(agg);
        }
        self.work.combines += terms - 1;
        self.work.visits += 1;
        let whole = suffixes.pop().expect("a node on a spine holds an entry");
        self.set_agg(x, whole);
        self.suffixes[usize::from(inner)] = suffixes;
        Ok(())
    }

    /// Whether the aggregates of the left finger after the coming evictions in order are known.
    #[inline]
    pub fn knows_suffixes(&self) -> bool {
        self.suffixes[0].len() + 1 + self.front == self.count(self.left)
    }

    /// The left aggregate of the left finger or its parent as it is without what was its first entry, if that is known.
    pub fn take_suffix(&mut self, x: u32) {
        let height = self.height(x) as usize;
        let agg = self.suffixes[height].pop().expect("there is one for each entry that stays");
        let old = std::mem::replace(&mut self.aggs[x as usize], agg);
        if M::FALLIBLE {
            self.undo_log.note(Undo::Agg(x, old));
        }
    }

    #[inline]
    fn forget_suffixes_of(&mut self, x: u32) {
        let node = &self.nodes[x as usize];
        if node.side == Side::Left && node.height < 2 {
            self.suffixes[node.height as usize].clear();
        }
    }

    pub fn forget_suffixes(&mut self) {
        self.suffixes.iter_mut().for_each(Vec::clear);
    }

    fn refresh_right(&mut self, mut x: u32) -> Result<(), M::Failure> {
        while x != NIL {
            self.refresh(x, Side::Right)?;
            x = if self.height(x) > 0 { self.kid(x, self.count(x)) } else { NIL };
        }
        Ok(())
    }

    pub fn refresh(&mut self, x: u32, side: Side) -> Result<(), M::Failure> {
        let (agg, combines) = self.aggregate(x, side)?;
        self.work.combines += combines;
        self.work.visits += 1;
        self.set_agg(x, agg.unwrap_or_default());
        Ok(())
    }

    /// The aggregate that a node must have (figure 2), from its entries, its children, and its parent on a spine.
    pub fn aggregate(&self, x: u32, side: Side) -> Result<(Option<M::Agg>, u64), M::Failure> {
        let mut product = Product::new(&self.monoid);
        let parent = self.parent(x);
        if side == Side::Right && parent != self.root {
            product.agg(&self.aggs[parent as usize])?;
        }
        let slots = self.slots_of(x);
        if self.height(x) == 0 {
            for slot in &slots[self.evicted(x)..] {
                product.slot(slot)?;
            }
        } else {
            let kids = self.kids_of(x);
            if matches!(side, Side::Inner | Side::Right) {
                product.agg(&self.aggs[kids[0] as usize])?;
            }
            for (i, slot) in slots.iter().enumerate() {
                product.slot(slot)?;
                if i + 1 < slots.len() || matches!(side, Side::Inner | Side::Left) {
                    product.agg(&self.aggs[kids[i + 1] as usize])?;
                }
            }
        }
        if side == Side::Left && parent != self.root {
            product.agg(&self.aggs[parent as usize])?;
        }
        let combines = product.combines();
        Ok((product.finish(), combines))
    }

    /// Add one more value, in or below node x, to all aggregates that cover it. Only where order never shows.
    pub fn absorb_from(&mut self, mut x: u32, slot: &M::Slot) -> Result<(), M::Failure> {
        loop {
            self.absorb_at(x, slot)?;
            match self.covers(x) {
                Side::Inner if x == self.root => return Ok(()),
                Side::Inner => x = self.parent(x),
                Side::Root => return Ok(()),
                Side::Left | Side::Right if self.height(x) == 0 => return Ok(()),
                side => {
                    self.absorb_below(x, side, slot)?;
                    return Ok(());
                }
            }
        }
    }

    fn absorb_below(&mut self, mut x: u32, side: Side, slot: &M::Slot) -> Result<(), M::Failure> {
        while self.height(x) > 0 {
            x = self.kid(x, if side == Side::Left { 0 } else { self.count(x) });
            self.absorb_at(x, slot)?;
        }
        Ok(())
    }

    /// A child of x, off the spines, and the entry behind it now count to the aggregate of x, as its last.
    pub fn absorb_kid(&mut self, x: u32, kid: u32) -> Result<(), M::Failure> {
        if M::FALLIBLE {
            self.undo_log.note(Undo::Agg(x, self.aggs[x as usize].clone()));
        }
        let agg = take(&mut self.aggs[kid as usize]);
        let done = self.monoid.combine(&mut self.aggs[x as usize], &agg);
        self.aggs[kid as usize] = agg;
        done?;
        let last = x as usize * self.room + self.count(x) - 1;
        self.work.combines += 2;
        self.monoid.absorb(&mut self.aggs[x as usize], &self.slots[last])
    }

    #[inline]
    pub fn absorb_at(&mut self, x: u32, slot: &M::Slot) -> Result<(), M::Failure> {
        if M::FALLIBLE {
            self.undo_log.note(Undo::Agg(x, self.aggs[x as usize].clone()));
        }
        self.forget_suffixes_of(x);
        self.work.combines += 1;
        self.work.visits += 1;
        self.monoid.absorb(&mut self.aggs[x as usize], slot)
    }
}
