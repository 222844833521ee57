//! Binary search with a test that may fail, as a comparison that asks Python may.

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

#[cfg(test)]
mod tests {
    use super::partition;

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
