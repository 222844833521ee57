//! The survey of the times in a batch. Tests hold it against `tests.oracles.surveys`.

/// Newest time ahead, earliest time, first time ahead of the clock, times that the clock had passed, times behind the newest.
pub type Survey = (i64, i64, Option<i64>, Vec<i64>, Vec<i64>);

/// One pass over times; see the oracle for what each of them is. O(n).
pub fn seen<E>(times: impl Iterator<Item = Result<i64, E>>, top: i64, clk: i64, only_earliest: bool) -> Result<Survey, E> {
    if only_earliest {
        return soonest(times, top, clk);
    }
    let (mut newest, mut earliest, mut first) = (top, i64::MAX, None);
    let [mut delayed, mut passed, mut after] = [const { Vec::new() }; 3];
    for ts in times {
        let ts = ts?;
        earliest = earliest.min(ts);
        if ts > newest {
            newest = ts;
            after.clear();
            if ts < clk {
                passed.push(ts);
            } else if ts > clk && first.is_none() {
                first = Some(ts);
            }
        } else {
            delayed.push(ts);
            after.push(ts);
        }
    }
    delayed.append(&mut passed);
    Ok((newest, earliest, first, delayed, after))
}

/// The survey with only the earliest of the delayed times, and of those behind. No branch depends on a time: the processor would guess
/// it wrong for each late event.
fn soonest<E>(times: impl Iterator<Item = Result<i64, E>>, top: i64, clk: i64) -> Result<Survey, E> {
    const NONE: i64 = i64::MAX;
    let (mut newest, mut earliest, mut first, mut delayed, mut after) = (top, NONE, NONE, NONE, NONE);
    for ts in times {
        let ts = ts?;
        let is_ahead = ts > newest;
        earliest = earliest.min(ts);
        newest = newest.max(ts);
        first = first.min(if is_ahead & (ts > clk) { ts } else { NONE }); // each that is ahead is later than those before it
        delayed = delayed.min(if is_ahead & (ts >= clk) { NONE } else { ts });
        after = if is_ahead { NONE } else { after.min(ts) };
    }
    let some = |ts: i64| (ts != NONE).then_some(ts);
    Ok((newest, earliest, some(first), some(delayed).into_iter().collect(), some(after).into_iter().collect()))
}

/// How events move a clock: the first and the last time to which it moves, if it does; the times that it measures at once; those
/// that came behind the last move, which it measures then.
pub type Moves = (Option<(i64, i64)>, Vec<i64>, Vec<i64>);

/// An event as a clock sees it.
pub struct Tick {
    pub ts: i64,
    /// The time less K+: a result that came early came as late as its cause.
    pub less: i64,
    /// Whether it may move the clock.
    pub ticks: bool,
}

/// The moves of a clock by events in their order of arrival. `only_earliest`: see `seen`. O(n).
pub fn moves(events: &[Tick], clk: i64, only_earliest: bool) -> Moves {
    let moving = || events.iter().enumerate().filter(|(_, event)| event.ticks && event.ts > clk);
    let least = |events: &[Tick]| {
        let times = events.iter().map(|event| event.less);
        if only_earliest { times.min().into_iter().collect() } else { times.collect() }
    };
    let last = moving().max_by_key(|(at, event)| (event.ts, *at)); // the last of those of one time
    let first = moving().map(|(_, event)| event.ts).min();
    let moved = first.zip(last.map(|(_, event)| event.ts));
    (moved, least(events), last.map_or_else(Vec::new, |(at, _)| least(&events[at + 1..])))
}

#[cfg(test)]
mod tests {
    use super::{Tick, moves, seen};
    use crate::drawing::Drawn;

    #[test]
    fn a_survey_holds_what_a_look_at_each_time_finds() {
        for seed in 0..2_000 {
            let mut drawn = Drawn(seed);
            let times: Vec<i64> = (0..drawn.below(9)).map(|_| drawn.below(20) as i64).collect();
            let (top, clk) = (drawn.below(20) as i64 - 2, drawn.below(20) as i64);
            let survey = |only_earliest| seen(times.iter().copied().map(Ok::<_, ()>), top, clk, only_earliest).unwrap();
            let (newest, earliest, first, delayed, after) = survey(false);
            let before = |at: usize| times[..at].iter().copied().fold(top, i64::max);
            let ahead: Vec<i64> = (0..times.len()).filter(|at| times[*at] > before(*at)).map(|at| times[at]).collect();
            assert_eq!(newest, before(times.len()));
            assert_eq!(earliest, times.iter().copied().min().unwrap_or(i64::MAX));
            assert_eq!(first, ahead.iter().copied().find(|ts| *ts > clk));
            let mut expected: Vec<i64> = (0..times.len()).filter(|at| times[*at] <= before(*at)).map(|at| times[at]).collect();
            expected.extend(ahead.iter().filter(|ts| **ts < clk));
            assert_eq!(delayed, expected);
            let last = (0..times.len()).rev().find(|at| times[*at] > before(*at)).map_or(0, |at| at + 1);
            assert_eq!(after, times[last..]);
            let least = |times: &[i64]| times.iter().copied().min().into_iter().collect::<Vec<_>>();
            assert_eq!(survey(true), (newest, earliest, first, least(&delayed), least(&after)), "seed {seed}");
        }
    }

    #[test]
    fn a_clock_moves_to_the_latest_and_measures_what_came_behind_it() {
        let event = |ts, less, ticks| Tick { ts, less, ticks };
        let events = [event(5, 5, true), event(9, 8, true), event(7, 2, true), event(9, 9, true), event(12, 1, false)];
        assert_eq!(moves(&events, 5, false), (Some((7, 9)), vec![5, 8, 2, 9, 1], vec![1]));
        assert_eq!(moves(&events[..3], 5, true), (Some((7, 9)), vec![2], vec![2]));
        assert_eq!(moves(&events, 9, false), (None, vec![5, 8, 2, 9, 1], vec![]));
        assert_eq!(moves(&[], 9, true), (None, vec![], vec![]));
    }

    #[test]
    fn a_failure_is_handed_on() {
        for only_earliest in [true, false] {
            assert_eq!(seen([Ok(1), Err("no")].into_iter(), 0, 0, only_earliest), Err("no"));
        }
    }
}
