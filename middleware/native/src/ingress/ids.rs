//! Identities in columns: which of them are new, and the runs that they make.

use std::ops::DerefMut;

use crate::ingress::seen::Intervals;

/// Source, id and place of an event; sources are numbered.
type Entry = (u32, i64, usize);

/// Ids that lie in a range of not more than so many for each of them are close together.
const SPREAD: usize = 64;

/// First and last id of each run.
type Spans = Vec<(i64, i64)>;

/// The identities by source and id; None if one is there twice.
fn in_order(mut entries: Vec<Entry>) -> Option<Vec<Entry>> {
    if !entries.is_sorted() {
        entries.sort_unstable();
    }
    entries.windows(2).all(|pair| (pair[0].0, pair[0].1) != (pair[1].0, pair[1].1)).then_some(entries)
}

/// Whether an identity follows directly on another of the same source.
fn follows(before: &Entry, after: &Entry) -> bool {
    before.0 == after.0 && before.1.checked_add(1) == Some(after.1)
}

/// The number of the one source that all identities are of, and their ids as runs (None if one is there twice); None if they
/// are of several, or far apart. O(n): nothing is sorted.
fn dense(ids: &[i64], mut codes: impl Iterator<Item = u32>) -> Option<(u32, Option<Spans>)> {
    let (low, high) = (ids.iter().min()?, ids.iter().max()?);
    let span = usize::try_from(high.checked_sub(*low)?).ok()?;
    let code = codes.next()?;
    if span / SPREAD > ids.len() || codes.any(|other| other != code) {
        return None;
    }
    let mut bits = vec![0u64; span / 64 + 1];
    for id in ids {
        let at = (id - low) as usize;
        bits[at / 64] |= 1 << (at % 64);
    }
    if bits.iter().map(|word| word.count_ones() as usize).sum::<usize>() < ids.len() {
        return Some((code, None));
    }
    let mut runs = Spans::new();
    for (at, word) in bits.into_iter().enumerate() {
        let (mut left, mut from) = (word, at as i64 * 64);
        while left != 0 {
            let gap = left.trailing_zeros();
            let count = (left >> gap).trailing_ones();
            left = left.checked_shr(gap + count).unwrap_or(0);
            let (first, last) = (low + from + i64::from(gap), low + (from + i64::from(gap + count) - 1));
            match runs.last_mut().filter(|run| run.1 == first - 1) {
                Some(run) => run.1 = last,
                None => runs.push((first, last)),
            }
            from += i64::from(gap + count);
        }
    }
    Some((code, Some(runs)))
}

/// Add identities to the intervals of their sources, unless they are there: a byte for each, 1 if it was new. None, and nothing
/// is added, if one is there twice among them. `of`: the intervals of a source, by its number.
pub fn take<I: DerefMut<Target = Intervals>, E>(
    ids: &[i64],
    codes: impl Iterator<Item = u32> + Clone,
    of: impl Fn(u32) -> Result<I, E>,
) -> Result<Option<Vec<u8>>, E> {
    let mut new = vec![1u8; ids.len()];
    if let Some((code, runs)) = dense(ids, codes.clone()) {
        let Some(runs) = runs else { return Ok(None) };
        if of(code)?.take_all(&runs) {
            return Ok(Some(new));
        }
    }
    let entries = codes.zip(ids).enumerate().map(|(at, (code, id))| (code, *id, at)).collect();
    let Some(entries) = in_order(entries) else { return Ok(None) };
    for own in entries.chunk_by(|one, other| one.0 == other.0) {
        let mut intervals = of(own[0].0)?;
        let runs: Vec<_> = own.chunk_by(follows).map(|run| (run[0].1, run[run.len() - 1].1)).collect();
        if intervals.take_all(&runs) {
            continue;
        }
        for run in own.chunk_by(follows) {
            if intervals.take(run[0].1, run[run.len() - 1].1) {
                continue;
            }
            for (_, id, at) in run {
                new[*at] = u8::from(intervals.take(*id, *id));
            }
        }
    }
    Ok(Some(new))
}

/// Identities as runs: number of the source, first and last id; None as above.
pub fn runs(ids: &[i64], codes: impl Iterator<Item = u32> + Clone, most: usize) -> Option<Vec<(usize, i64, i64)>> {
    let found = match dense(ids, codes.clone()) {
        Some((code, runs)) => runs?.into_iter().map(|(first, last)| (code as usize, first, last)).collect(),
        None => {
            let entries = in_order(codes.zip(ids).enumerate().map(|(at, (code, id))| (code, *id, at)).collect())?;
            let runs = entries.chunk_by(follows).take(most + 1);
            runs.map(|run| (run[0].0 as usize, run[0].1, run[run.len() - 1].1)).collect::<Vec<_>>()
        }
    };
    (found.len() <= most).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::cell::{RefCell, RefMut};
    use std::collections::HashSet;
    use std::convert::Infallible;

    use super::{runs, take};
    use crate::drawing::Drawn;
    use crate::ingress::seen::Intervals;

    /// Identities of a few sources: close together or far apart, in order or not, now and then one of them twice.
    fn identities(drawn: &mut Drawn) -> (Vec<i64>, Vec<u32>) {
        let (count, sources) = (drawn.below(40), 1 + drawn.below(3));
        let range = [30, 300, 1 << 40][drawn.below(3) as usize];
        let mut found: Vec<(u32, i64)> = Vec::new();
        for _ in 0..count {
            let one = match found.last() {
                Some(&(code, id)) if !drawn.one_in(4) => (code, id + 1),
                _ => (drawn.below(sources) as u32, drawn.below(range) as i64 - 10),
            };
            if !found.contains(&one) || drawn.one_in(50) {
                found.push(one);
            }
        }
        (found.iter().map(|(_, id)| *id).collect(), found.iter().map(|(code, _)| *code).collect())
    }

    fn are_distinct(ids: &[i64], codes: &[u32]) -> bool {
        ids.iter().zip(codes).collect::<HashSet<_>>().len() == ids.len()
    }

    #[test]
    fn the_first_of_each_identity_is_new() {
        let mut drawn = Drawn(1);
        let (mut some_twice, mut some_known) = (0, 0);
        for _ in 0..400 {
            let intervals: Vec<_> = (0..3).map(|_| RefCell::new(Intervals { spans: Vec::new() })).collect();
            let mut seen = HashSet::new();
            for _ in 0..6 {
                let (ids, codes) = identities(&mut drawn);
                let of = |code: u32| Ok::<RefMut<'_, _>, Infallible>(intervals[code as usize].borrow_mut());
                let Ok(found) = take(&ids, codes.iter().copied(), of);
                let expected = are_distinct(&ids, &codes).then(|| {
                    let new = |(id, code)| u8::from(seen.insert((code, id)));
                    ids.iter().copied().zip(codes.iter().copied()).map(new).collect::<Vec<_>>()
                });
                assert_eq!(found, expected);
                some_twice += u32::from(found.is_none());
                some_known += u32::from(found.is_some_and(|new| new.contains(&0)));
                for (code, own) in (0..).zip(&intervals) {
                    let own = own.borrow();
                    assert_eq!(own.fault(), None);
                    let held: i64 = own.spans.iter().map(|(first, last)| last - first + 1).sum();
                    assert_eq!(held as usize, seen.iter().filter(|(other, _)| *other == code).count());
                    assert!(seen.iter().all(|(other, id)| *other != code || own.has_any(*id, *id)));
                }
            }
        }
        assert!(some_twice > 20 && some_known > 200, "{some_twice} {some_known}");
    }

    #[test]
    fn runs_hold_each_identity_once_and_are_as_long_as_can_be() {
        let mut drawn = Drawn(2);
        for _ in 0..2_000 {
            let (ids, codes) = identities(&mut drawn);
            let found = runs(&ids, codes.iter().copied(), usize::MAX - 1);
            assert_eq!(found.is_some(), are_distinct(&ids, &codes));
            let Some(found) = found else { continue };
            let mut all: Vec<_> = ids.iter().copied().zip(codes.iter().map(|code| *code as usize)).collect();
            all.sort_unstable_by_key(|(id, code)| (*code, *id));
            let spelled = found.iter().flat_map(|&(code, first, last)| (first..=last).map(move |id| (id, code)));
            assert!(spelled.eq(all));
            assert!(found.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].2 + 1 < pair[1].1));
            for most in 0..=found.len() {
                let limited = runs(&ids, codes.iter().copied(), most);
                assert_eq!(limited.is_some(), found.len() <= most);
            }
        }
    }
}
