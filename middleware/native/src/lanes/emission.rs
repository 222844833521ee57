//! The input and results of one call of a unit, by lane and by round.

/// The events that came out of order for one lane, and those withdrawn from it.
pub struct Pending<E> {
    pub lane: usize,
    pub behind: Vec<E>,
    pub gone: Vec<E>,
}

/// K+ of results that no lane keeps, as `middleware.ordering.lanes.retraction.k_plus` has it: how far causes lie above a time.
pub struct Early {
    since: i64,
    /// K+ of the results up to the last that is early.
    k_plus: Vec<i64>,
}

impl Early {
    pub fn since(since: i64) -> Self {
        Self { since, k_plus: Vec::new() }
    }

    /// Note the time of the cause of results `before..count`.
    #[inline]
    pub fn note(&mut self, cause: i64, before: usize, count: usize) {
        if cause > self.since && count > before {
            self.k_plus.resize(before, 0);
            self.k_plus.resize(count, cause.saturating_sub(self.since));
        }
    }

    /// K+ of each of so many results; None if none is early.
    pub fn k_plus(mut self, results: usize) -> Option<Vec<i64>> {
        let is_early = !self.k_plus.is_empty();
        self.k_plus.resize(results, 0);
        is_early.then_some(self.k_plus)
    }
}

/// Changes by the round in which they must come: one lane's in sequence, different lanes' together.
pub struct Rounds<D>(Vec<Vec<D>>);

impl<D> Default for Rounds<D> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<D> Rounds<D> {
    pub fn add(&mut self, round: usize, delta: D) {
        if self.0.len() <= round {
            self.0.resize_with(round + 1, Vec::new);
        }
        self.0[round].push(delta);
    }

    /// The changes of each round in which there is any.
    pub fn each(self) -> impl Iterator<Item = Vec<D>> {
        self.0.into_iter().filter(|deltas| !deltas.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::{Early, Rounds};

    #[test]
    fn k_plus_is_how_far_causes_lie_above_a_time() {
        let mut early = Early::since(10);
        for (cause, before, count) in [(9, 0, 2), (13, 2, 3), (10, 3, 4), (12, 4, 4), (11, 4, 6)] {
            early.note(cause, before, count);
        }
        assert_eq!(early.k_plus(7), Some(vec![0, 0, 3, 0, 1, 1, 0]));
        assert_eq!(Early::since(10).k_plus(3), None);
    }

    #[test]
    fn rounds_come_in_sequence() {
        let mut rounds = Rounds::default();
        for (round, delta) in [(2, "later"), (0, "first"), (2, "too")] {
            rounds.add(round, delta);
        }
        assert_eq!(rounds.each().collect::<Vec<_>>(), [vec!["first"], vec!["later", "too"]]);
    }
}
