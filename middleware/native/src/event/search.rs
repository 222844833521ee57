//! Binary search with a test that may fail, as a comparison that asks Python may; and rows in order of time.

/// The first place of `0..length` at which `is_before` no longer holds; it holds for all places before that one.
pub fn partition<E>(length: usize, mut is_before: impl FnMut(usize) -> Result<bool, E>) -> Result<usize, E> {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// So few rows are sorted at once.
const FEW: usize = 64;

/// The numbers from 0 to before `count` in order of their times; those of one time in order. O(n) where most come in order, or in
/// a few runs of which that holds; O(n log n).
pub fn in_time(count: usize, time_of: impl Fn(usize) -> i64) -> Vec<usize> {
    ordered((0..count).collect(), &time_of)
}

/// Rows that come after a later one are put in order by themselves.
fn ordered(rows: Vec<usize>, time_of: &impl Fn(usize) -> i64) -> Vec<usize> {
    let count = rows.len();
    let (mut ahead, mut behind, mut newest) = (Vec::with_capacity(count), Vec::new(), i64::MIN);
    for row in rows {
        let ts = time_of(row);
        if ts < newest {
            behind.push(row);
        } else {
            newest = ts;
            ahead.push(row);
        }
    }
    if behind.is_empty() {
        return ahead;
    }
    if behind.len() < FEW || behind.len() > count / 4 * 3 {
        behind.sort_unstable_by_key(|&row| (time_of(row), row));
    } else {
        behind = ordered(behind, time_of);
    }
    let (mut merged, mut rest) = (Vec::with_capacity(count), ahead.as_slice());
    for row in behind {
        let ts = time_of(row);
        let before = rest.iter().take_while(|&&other| (time_of(other), other) < (ts, row)).count();
        merged.extend_from_slice(&rest[..before]);
        merged.push(row);
        rest = &rest[before..];
    }
    merged.extend_from_slice(rest);
    merged
}

#[cfg(test)]
mod tests {
    use super::{in_time, partition};

    #[test]
    fn rows_are_put_in_order_of_time() {
        for seed in 0..400_u64 {
            let times: Vec<i64> = (0..if seed < 200 { seed % 17 } else { seed })
                .map(|row| ((row + 1) * (seed + 3) * 7919 % 11 + row % 150 / 3) as i64)
                .collect();
            let mut expected: Vec<usize> = (0..times.len()).collect();
            expected.sort_by_key(|&row| times[row]);
            assert_eq!(in_time(times.len(), |row| times[row]), expected);
        }
    }

    #[test]
    fn finds_where_the_test_turns() {
        for length in 0..20 {
            for turn in 0..=length {
                assert_eq!(partition::<()>(length, |at| Ok(at < turn)), Ok(turn));
            }
        }
    }

    #[test]
    fn hands_on_a_failure() {
        assert_eq!(partition(3, |at| if at == 1 { Err("no") } else { Ok(true) }), Err("no"));
    }
}
