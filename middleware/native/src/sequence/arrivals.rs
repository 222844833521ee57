//! The events that arrived in a step, in their roles, before any of them is on a stack.

use super::stack::Instance;
use crate::block::batch::is_sparse;

/// An event in one of its roles.
#[derive(Clone, Copy)]
pub struct Arrived {
    pub instance: Instance,
    /// None: it belongs to all partitions.
    pub partition: Option<u32>,
}

/// By component, in order of arrival.
pub struct Arrivals(Vec<Vec<Arrived>>);

impl Arrivals {
    pub fn new(components: usize) -> Self {
        Self(vec![Vec::new(); components])
    }

    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }

    #[inline]
    pub fn of(&mut self, slot: usize) -> &mut Vec<Arrived> {
        &mut self.0[slot]
    }

    /// Take out the events of a component.
    pub fn take(&mut self, slot: usize) -> Vec<Arrived> {
        std::mem::take(&mut self.0[slot])
    }

    /// Give back the room that was taken.
    pub fn give_back(&mut self, slot: usize, mut room: Vec<Arrived>) {
        room.clear();
        self.0[slot] = room;
    }

    /// Where few rows of the block that came last, of `count`, are in a role: those, which are counted from 0 from now on. None:
    /// all are kept. O(rows in a role), sorted if they are few.
    pub fn thin(&mut self, roles: &[usize], block: u32, count: usize) -> Option<Vec<u32>> {
        let own = |each: &&Arrived| each.instance.block == block;
        let arrived = || roles.iter().flat_map(|slot| self.0[*slot].iter().rev().take_while(own));
        if !is_sparse(arrived().count(), count) {
            return None;
        }
        let mut rows: Vec<u32> = arrived().map(|each| each.instance.row).collect();
        rows.sort_unstable();
        rows.dedup();
        for slot in roles {
            for each in self.0[*slot].iter_mut().rev().take_while(|each| each.instance.block == block) {
                each.instance.row = rows.partition_point(|row| *row < each.instance.row) as u32;
            }
        }
        Some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, Arrived};
    use crate::sequence::stack::Instance;

    #[test]
    fn few_rows_of_many_are_kept_alone() {
        let mut arrivals = Arrivals::new(3);
        let add = |arrivals: &mut Arrivals, slot: usize, block, row| {
            arrivals.of(slot).push(Arrived { instance: Instance { ts: 0, block, row }, partition: None });
        };
        add(&mut arrivals, 0, 7, 99);
        for (slot, row) in [(0, 3), (0, 50), (1, 50), (1, 80)] {
            add(&mut arrivals, slot, 8, row);
        }
        assert_eq!(arrivals.thin(&[0, 1], 8, 20), None);
        assert_eq!(arrivals.thin(&[0, 1], 8, 100), Some(vec![3, 50, 80]));
        let rows = |arrivals: &mut Arrivals, slot| arrivals.take(slot).iter().map(|each| each.instance.row).collect::<Vec<_>>();
        assert_eq!((rows(&mut arrivals, 0), rows(&mut arrivals, 1)), (vec![99, 0, 1], vec![1, 2]));
    }
}
