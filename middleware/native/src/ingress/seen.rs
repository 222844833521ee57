//! Which ids of a source have been seen, as intervals.

/// A set of ids: spans (first, last) in order, apart from each other by at least one id.
#[cfg_attr(feature = "python", pyo3::pyclass(module = "middleware.native"))]
pub struct Intervals {
    pub spans: Vec<(i64, i64)>,
}

impl Intervals {
    /// How many spans begin at or below this id.
    fn until(&self, number: i64) -> usize {
        match self.spans.last() {
            Some(newest) if newest.0 <= number => self.spans.len(),
            _ => self.spans.partition_point(|span| span.0 <= number),
        }
    }

    /// Whether an id from `first` to `last` is there.
    pub fn has_any(&self, first: i64, last: i64) -> bool {
        let at = self.until(last);
        at > 0 && first <= self.spans[at - 1].1
    }

    /// Add ids of which none is there; `at`: how many spans begin below them.
    fn insert(&mut self, at: usize, first: i64, last: i64) {
        // Neither sum overflows: there is a span below `first`, or above `last`.
        let joins_left = at > 0 && self.spans[at - 1].1 == first - 1;
        let joins_right = at < self.spans.len() && self.spans[at].0 == last + 1;
        match (joins_left, joins_right) {
            (true, true) => self.spans[at - 1].1 = self.spans.remove(at).1,
            (true, false) => self.spans[at - 1].1 = last,
            (false, true) => self.spans[at].0 = first,
            (false, false) => self.spans.insert(at, (first, last)),
        }
    }

    /// Add ids, unless one of them is there; whether they were added.
    pub fn take(&mut self, first: i64, last: i64) -> bool {
        let at = self.until(last);
        let is_new = at == 0 || first > self.spans[at - 1].1;
        if is_new {
            self.insert(at, first, last);
        }
        is_new
    }

    /// Add runs of ids, in order and none next to another, unless an id of them is there; whether they were added. O(runs, and
    /// spans behind the first): one after another, each run that joins no span would move all spans behind it.
    pub fn take_all(&mut self, runs: &[(i64, i64)]) -> bool {
        let [(first, last), others @ ..] = runs else { return true };
        if others.is_empty() {
            return self.take(*first, *last);
        }
        let at = self.until(*first).saturating_sub(1);
        let behind = self.spans.split_off(at);
        let (mut old, mut new) = (behind.iter().peekable(), runs.iter().peekable());
        loop {
            let next = match (old.peek(), new.peek()) {
                (Some(span), Some(run)) if span.0 > run.0 => new.next(),
                (Some(_), _) => old.next(),
                _ => new.next(),
            };
            let Some((first, last)) = next else { return true };
            match self.spans[at..].last_mut() {
                Some(span) if span.1 >= *first => break,
                Some(span) if span.1 == first - 1 => span.1 = *last,
                _ => self.spans.push((*first, *last)),
            }
        }
        self.spans.truncate(at);
        self.spans.extend(behind);
        false
    }

    /// The spans, if they break an invariant: some overlap, touch or run backwards.
    pub fn fault(&self) -> Option<String> {
        let are_apart = self.spans.windows(2).all(|pair| pair[0].1 < pair[1].0 && pair[0].1 + 1 < pair[1].0);
        let are_sound = are_apart && self.spans.iter().all(|span| span.0 <= span.1);
        (!are_sound).then(|| format!("{:?}", self.spans))
    }
}

#[cfg(test)]
mod tests {
    use super::Intervals;

    #[test]
    fn ends_of_the_range_join_nothing() {
        let mut intervals = Intervals { spans: Vec::new() };
        assert!(intervals.take(i64::MAX, i64::MAX) && intervals.take(i64::MIN, i64::MIN));
        assert!(!intervals.take(i64::MIN, i64::MAX));
        assert!(intervals.take(i64::MIN + 1, i64::MAX - 1));
        assert_eq!(intervals.spans, [(i64::MIN, i64::MAX)]);
    }

    #[test]
    fn runs_are_added_together_or_not_at_all() {
        let mut intervals = Intervals { spans: vec![(0, 1), (10, 19), (30, 39)] };
        assert!(intervals.take_all(&[]) && intervals.take_all(&[(i64::MIN, i64::MIN), (8, 9), (20, 29), (i64::MAX, i64::MAX)]));
        let spans = [(i64::MIN, i64::MIN), (0, 1), (8, 39), (i64::MAX, i64::MAX)];
        assert_eq!(intervals.spans, spans);
        for refused in [[(3, 4), (8, 8)], [(3, 4), (39, 41)], [(3, 50), (60, 61)], [(3, 4), (i64::MAX, i64::MAX)]] {
            assert!(!intervals.take_all(&refused));
            assert_eq!(intervals.spans, spans);
        }
        assert!(intervals.take_all(&[(2, 2), (4, 7)]));
        assert_eq!(intervals.spans, [(i64::MIN, i64::MIN), (0, 2), (4, 39), (i64::MAX, i64::MAX)]);
    }
}
