//! The order of arrival over several batches, laid end to end.

use std::mem;

/// The rows in order of arrival: `placed` are rows with their places, `runs` came at once, each run in its order.
pub fn in_arrival(placed: Vec<(i64, u32)>, mut runs: Vec<Vec<u32>>, times: &[i64]) -> Vec<u32> {
    if !placed.is_empty() {
        runs.insert(0, by_place(placed));
    }
    if runs.len() > 1 { merged(&runs, times) } else { runs.pop().unwrap_or_default() }
}

/// In the order of their places, those of one place as they are. O(n) if places are close together and distinct, as those of one
/// payload are.
fn by_place(mut placed: Vec<(i64, u32)>) -> Vec<u32> {
    const FREE: u32 = u32::MAX;
    let (low, high) = placed.iter().fold((i64::MAX, i64::MIN), |(low, high), (place, _)| (low.min(*place), high.max(*place)));
    let range = high.checked_sub(low).and_then(|range| usize::try_from(range).ok()).filter(|range| *range / 4 < placed.len());
    if let Some(range) = range {
        let mut slots = vec![FREE; range + 1];
        let is_distinct = placed.iter().all(|(place, at)| mem::replace(&mut slots[(place - low) as usize], *at) == FREE);
        if is_distinct {
            slots.retain(|at| *at != FREE);
            return slots;
        }
    }
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, at)| at).collect()
}

/// Runs as one: what came at once comes when the others have got as far.
fn merged(runs: &[Vec<u32>], times: &[i64]) -> Vec<u32> {
    let mut came = Vec::with_capacity(times.len());
    for run in runs {
        let mut reached = i64::MIN;
        came.extend(run.iter().map(|at| {
            reached = reached.max(times[*at as usize]);
            (reached, *at)
        }));
    }
    came.sort_by_key(|(reached, _)| *reached);
    came.into_iter().map(|(_, at)| at).collect()
}
