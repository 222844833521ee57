//! Events in strict total order: where one stands, and how many are put in order.

use std::cmp::Ordering;

use crate::event::search::partition;

/// The time stamp before all events.
pub const NEVER: i64 = i64::MIN;

/// The total order of events. Their times decide; what decides among those of one time may fail.
pub trait TotalOrder<T>: Copy {
    type Failure;

    fn ts(self, event: &T) -> i64;

    fn compare(self, one: &T, other: &T) -> Result<Ordering, Self::Failure>;

    /// Events of one time in strict total order; of those that are equal the first.
    fn untie(self, tied: Vec<T>) -> Result<Vec<T>, Self::Failure>;
}

/// Where an event stands, or else where it would stand. O(log n).
pub fn place_of<T, O: TotalOrder<T>>(order: O, history: &[T], sought: &T) -> Result<Result<usize, usize>, O::Failure> {
    let at = partition(history.len(), |at| Ok(order.compare(&history[at], sought)? == Ordering::Less))?;
    let there = at < history.len() && order.compare(&history[at], sought)? == Ordering::Equal;
    Ok(if there { Ok(at) } else { Err(at) })
}

/// Where to insert each of some events, and how many stay out.
pub type Insertions<T> = (Vec<(usize, T)>, u64);

/// Where to insert events, which are in strict total order, and how many repeats of what is in the history stay out. O(k log n),
/// O(1) for those behind it.
pub fn insertions<T, O: TotalOrder<T>>(order: O, history: &[T], events: Vec<T>) -> Result<Insertions<T>, O::Failure> {
    let (mut found, mut repeats, mut from) = (Vec::with_capacity(events.len()), 0, 0);
    for event in events {
        if history.last().is_some_and(|last| order.ts(&event) <= order.ts(last)) {
            match place_of(order, &history[from..], &event)? {
                Ok(_) => {
                    repeats += 1;
                    continue;
                }
                Err(offset) => from += offset,
            }
        } else {
            from = history.len();
        }
        found.push((from, event));
    }
    Ok((found, repeats))
}

/// The events in strict total order, and how many repeats were skipped. O(n log n).
pub fn arranged<T, O: TotalOrder<T>>(order: O, mut events: Vec<T>) -> Result<(Vec<T>, u64), O::Failure> {
    events.sort_by_key(|event| order.ts(event));
    if events.windows(2).all(|pair| order.ts(&pair[0]) < order.ts(&pair[1])) {
        return Ok((events, 0));
    }
    let (count, mut unique, mut rest) = (events.len(), Vec::with_capacity(events.len()), events.into_iter().peekable());
    while let Some(first) = rest.next() {
        let mut tied = vec![first];
        while let Some(next) = rest.next_if(|next| order.ts(next) == order.ts(&tied[0])) {
            tied.push(next);
        }
        if tied.len() > 1 {
            tied = order.untie(tied)?;
        }
        unique.append(&mut tied);
    }
    let repeats = count - unique.len();
    Ok((unique, repeats as u64))
}

/// Two runs in strict total order as one, and the places in it of what came; of equal events that which was there stays. O(n).
pub fn merged<T, O: TotalOrder<T>>(order: O, there: Vec<T>, come: Vec<T>) -> Result<(Vec<T>, Vec<usize>), O::Failure> {
    let (mut merged, mut came) = (Vec::with_capacity(there.len() + come.len()), Vec::with_capacity(come.len()));
    let mut old = there.into_iter().peekable();
    for event in come {
        let mut is_there = false;
        while let Some(before) = old.peek() {
            match order.compare(before, &event)? {
                Ordering::Greater => break,
                order => is_there = order == Ordering::Equal,
            }
            merged.extend(old.next());
        }
        if !is_there {
            came.push(merged.len());
            merged.push(event);
        }
    }
    merged.extend(old);
    Ok((merged, came))
}

#[cfg(test)]
pub mod tests {
    use std::cmp::Ordering;
    use std::convert::Infallible;

    use super::{TotalOrder, arranged, insertions, merged, place_of};
    use crate::drawing::Drawn;
    use crate::event::splice::splice;

    /// An event: its time, what decides among those of one time, and which of equal ones it is.
    pub type Plain = (i64, u64, usize);

    #[derive(Clone, Copy)]
    pub struct Plainly;

    impl TotalOrder<Plain> for Plainly {
        type Failure = Infallible;

        fn ts(self, event: &Plain) -> i64 {
            event.0
        }

        fn compare(self, one: &Plain, other: &Plain) -> Result<Ordering, Infallible> {
            Ok((one.0, one.1).cmp(&(other.0, other.1)))
        }

        fn untie(self, mut tied: Vec<Plain>) -> Result<Vec<Plain>, Infallible> {
            tied.sort_by_key(|event| event.1);
            tied.dedup_by_key(|event| event.1);
            Ok(tied)
        }
    }

    fn events(drawn: &mut Drawn, most: u64) -> Vec<Plain> {
        (0..drawn.below(most)).map(|at| (drawn.below(15) as i64, drawn.below(3), at as usize)).collect()
    }

    /// In order, without repeats of what came before.
    fn plainly(mut events: Vec<Plain>) -> Vec<Plain> {
        events.sort_by_key(|event| (event.0, event.1));
        events.dedup_by_key(|event| (event.0, event.1));
        events
    }

    #[test]
    fn events_go_where_a_stable_sort_puts_them() {
        for seed in 0..1_000 {
            let mut drawn = Drawn(seed);
            let (there, come) = (events(&mut drawn, 20), events(&mut drawn, 12));
            let Ok((mut history, repeats)) = arranged(Plainly, there.clone());
            assert_eq!(history, plainly(there.clone()));
            assert_eq!(repeats as usize, there.len() - history.len());
            let Ok((unique, _)) = arranged(Plainly, come);
            let all = plainly(history.iter().chain(&unique).copied().collect());
            let Ok((whole, came)) = merged(Plainly, history.clone(), unique.clone());
            assert_eq!(whole, all);
            let new: Vec<Plain> = came.into_iter().map(|at| whole[at]).collect();
            assert!(new.iter().all(|event| unique.contains(event)));
            for event in &unique {
                let Ok(place) = place_of(Plainly, &history, event);
                assert_eq!(place, history.binary_search_by_key(&(event.0, event.1), |each| (each.0, each.1)));
            }
            let Ok((found, known)) = insertions(Plainly, &history, unique.clone());
            assert_eq!(known as usize, unique.len() - new.len());
            splice(&mut history, found);
            assert_eq!(history, all);
        }
    }
}
