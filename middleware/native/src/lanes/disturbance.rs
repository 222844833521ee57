//! Which part of a history is disturbed by events that were taken out and put in.

/// Positions count in the history as it is now, behind the changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disturbance {
    /// Events before this position are as they were.
    pub start: usize,
    /// Events from this position on were never run.
    pub end: usize,
    /// From here up to `end`, events are as they were, but stand elsewhere.
    undisturbed: usize,
    came: usize,
    gone: usize,
}

impl Disturbance {
    /// `gone`: where events were taken out, `places`: where some were put in then; both rise and count in the history between
    /// the two steps, of which `run` events had been run. None if nothing that was run is disturbed.
    pub fn new(gone: &[usize], places: &[usize], run: usize) -> Option<Self> {
        let came = &places[..places.partition_point(|&place| place < run)];
        let start = gone.iter().chain(came).min()?;
        let undisturbed = gone.iter().chain(came).max()?;
        Some(Self {
            start: *start,
            end: run + came.len(),
            undisturbed: undisturbed + came.len(),
            came: came.len(),
            gone: gone.len(),
        })
    }

    /// Where the event that stood at `position` stands now, if it was run and lies behind all that is disturbed.
    pub fn moved(&self, position: usize) -> Option<usize> {
        let now = (position + self.came).checked_sub(self.gone)?;
        (self.undisturbed..self.end).contains(&now).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::Disturbance;

    #[test]
    fn nothing_is_disturbed_by_events_at_the_end() {
        assert_eq!(Disturbance::new(&[], &[], 5), None);
        assert_eq!(Disturbance::new(&[], &[5, 5], 5), None);
    }

    #[test]
    fn equals_a_plain_search() {
        for seed in 0..5_000u64 {
            check(seed);
        }
    }

    /// Takes numbers out of 0, 2, 4, ... and puts odd ones in, then looks for each number that was there before.
    fn check(seed: u64) {
        let mut bits = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut one_in = |chances: u64| {
            bits = bits.rotate_left(7).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (bits >> 32).is_multiple_of(chances)
        };
        let before: Vec<usize> = (0..8).map(|number| number * 2).collect();
        let removed: Vec<usize> = before.iter().copied().filter(|_| one_in(6)).collect();
        let between: Vec<usize> = before.iter().copied().filter(|number| !removed.contains(number)).collect();
        let added: Vec<usize> = (0..10).map(|number| number * 2 + 1).filter(|_| one_in(6)).collect();
        let place = |number: &usize| between.partition_point(|other| other < number);
        let gone: Vec<usize> = removed.iter().map(place).collect();
        let places: Vec<usize> = added.iter().map(place).collect();
        let mut now: Vec<usize> = between.iter().chain(&added).copied().collect();
        now.sort_unstable();
        let edge = between.last().copied();
        let disturbing: Vec<usize> =
            removed.iter().chain(added.iter().filter(|number| Some(**number) < edge)).copied().collect();
        let found = Disturbance::new(&gone, &places, between.len());
        assert_eq!(found.is_none(), disturbing.is_empty());
        let (Some(found), Some(first), Some(last)) = (found, disturbing.iter().min(), disturbing.iter().max()) else {
            return;
        };
        assert_eq!(found.start, now.partition_point(|number| number < first).min(found.end));
        assert_eq!(found.end, edge.map_or(0, |edge| now.partition_point(|number| *number <= edge)));
        for (position, number) in before.iter().enumerate() {
            let expected = if number > last { now.binary_search(number).ok() } else { None };
            assert_eq!(found.moved(position), expected, "seed {seed}, number {number}");
        }
    }
}
