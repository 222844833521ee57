//! The snapshots of a lane: states by the position in its history before which they stood.

/// The state before the event at `position`.
pub struct Snapshot<S> {
    pub position: usize,
    pub state: S,
}

/// Snapshots in strict order of position. There is always one, and the first stands at position 0.
pub struct Snapshots<S> {
    earlier: Vec<Snapshot<S>>,
    newest: Snapshot<S>,
}

impl<S> Snapshots<S> {
    pub fn new(initial: S) -> Self {
        Self { earlier: Vec::new(), newest: Snapshot { position: 0, state: initial } }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Snapshot<S>> {
        self.earlier.iter().chain([&self.newest])
    }

    pub fn newest(&self) -> &Snapshot<S> {
        &self.newest
    }

    /// The state of the only one, if there is one only.
    pub fn only(&mut self) -> Option<&mut S> {
        if self.earlier.is_empty() { Some(&mut self.newest.state) } else { None }
    }

    /// The newest is the only one, and stands at position 0 from now on.
    pub fn begin(&mut self) {
        self.earlier.clear();
        self.newest.position = 0;
    }

    /// Add a snapshot, in place of one at the same position. Positions never fall.
    pub fn add(&mut self, position: usize, state: S) {
        let before = std::mem::replace(&mut self.newest, Snapshot { position, state });
        if before.position != position {
            self.earlier.push(before);
        }
    }

    /// Keep the snapshots up to `position`; returns those behind it.
    pub fn back_to(&mut self, position: usize) -> Vec<Snapshot<S>> {
        if self.newest.position <= position {
            return Vec::new();
        }
        let mut later = self.earlier.split_off(self.count_until(position));
        let last = self.earlier.pop().expect("the first stands at position 0");
        later.push(std::mem::replace(&mut self.newest, last));
        later
    }

    /// The last snapshot at or below `position`.
    pub fn last_until(&self, position: usize) -> &Snapshot<S> {
        if self.newest.position <= position { &self.newest } else { &self.earlier[self.count_until(position) - 1] }
    }

    /// Forget all before the snapshot at `position`, which then stands at 0.
    pub fn forget(&mut self, position: usize) {
        self.earlier.retain_mut(|snapshot| {
            let kept = snapshot.position >= position;
            snapshot.position = snapshot.position.saturating_sub(position);
            kept
        });
        self.newest.position -= position;
    }

    /// The fault in the order of the snapshots of a history of `length` events, if there is one.
    pub fn fault(&self, length: usize) -> Option<&'static str> {
        let positions: Vec<usize> = self.iter().map(|snapshot| snapshot.position).collect();
        if positions[0] != 0 {
            Some("no snapshot to go back to")
        } else if positions.windows(2).any(|pair| pair[0] >= pair[1]) {
            Some("snapshots out of order")
        } else if self.newest.position > length {
            Some("a snapshot beyond the end")
        } else {
            None
        }
    }

    /// How many of the earlier ones stand at or below `position`.
    fn count_until(&self, position: usize) -> usize {
        self.earlier.partition_point(|snapshot| snapshot.position <= position)
    }
}

#[cfg(test)]
mod tests {
    use super::Snapshots;

    fn at(positions: &[usize]) -> Snapshots<usize> {
        let mut snapshots = Snapshots::new(0);
        for &position in positions {
            snapshots.add(position, position);
        }
        snapshots
    }

    fn places(snapshots: &Snapshots<usize>) -> Vec<(usize, usize)> {
        snapshots.iter().map(|snapshot| (snapshot.position, snapshot.state)).collect()
    }

    #[test]
    fn a_snapshot_takes_the_place_of_one_at_its_position() {
        let mut snapshots = at(&[4]);
        snapshots.add(4, 5);
        assert_eq!(places(&snapshots), [(0, 0), (4, 5)]);
    }

    #[test]
    fn going_back_keeps_the_one_at_the_position() {
        let mut snapshots = at(&[2, 4, 6]);
        let later: Vec<usize> = snapshots.back_to(4).into_iter().map(|snapshot| snapshot.state).collect();
        assert_eq!((later, snapshots.newest().state), (vec![6], 4));
        assert!(snapshots.back_to(4).is_empty());
    }

    #[test]
    fn forgetting_renumbers() {
        let mut snapshots = at(&[2, 4, 6]);
        assert_eq!(snapshots.last_until(5).position, 4);
        snapshots.forget(4);
        assert_eq!(places(&snapshots), [(0, 4), (2, 6)]);
        snapshots.forget(0);
        assert_eq!(places(&snapshots), [(0, 4), (2, 6)]);
    }

    #[test]
    fn faults_are_found() {
        assert_eq!(at(&[2, 4]).fault(4), None);
        assert_eq!(at(&[2, 4]).fault(3), Some("a snapshot beyond the end"));
        assert_eq!(at(&[4, 2]).fault(9), Some("snapshots out of order"));
        let mut headless = at(&[2, 4]);
        headless.earlier.remove(0);
        assert_eq!(headless.fault(9), Some("no snapshot to go back to"));
    }
}
