//! Insertion of many items at places found before.

/// Insert items before the places given, which count in `items` as it is now and never fall. O(tail behind the first).
pub fn splice<T>(items: &mut Vec<T>, insertions: Vec<(usize, T)>) {
    let Some(&(first, _)) = insertions.first() else {
        return;
    };
    let mut tail = items.split_off(first).into_iter();
    items.reserve(tail.len() + insertions.len());
    let mut at = first;
    for (place, item) in insertions {
        items.extend(tail.by_ref().take(place - at));
        items.push(item);
        at = place;
    }
    items.extend(tail);
}

#[cfg(test)]
mod tests {
    use super::splice;

    #[test]
    fn inserts_before_the_places() {
        let mut items = vec![10, 20, 30];
        splice(&mut items, vec![(1, 11), (1, 12), (2, 21), (3, 31), (3, 32)]);
        assert_eq!(items, [10, 11, 12, 20, 21, 30, 31, 32]);
    }

    #[test]
    fn takes_the_ends_and_nothing() {
        let mut items = vec![];
        splice(&mut items, vec![]);
        splice(&mut items, vec![(0, 2)]);
        splice(&mut items, vec![(0, 1), (1, 3)]);
        assert_eq!(items, [1, 2, 3]);
    }

    #[test]
    fn equals_one_insertion_after_the_other() {
        for seed in 0..200usize {
            let length = seed % 7;
            let mut places: Vec<usize> = (0..seed % 5).map(|step| (seed * 7 + step * 3) % (length + 1)).collect();
            places.sort_unstable();
            let mut fast: Vec<usize> = (0..length).collect();
            let mut slow = fast.clone();
            for (done, place) in places.iter().enumerate() {
                slow.insert(place + done, 100 + done);
            }
            splice(&mut fast, places.into_iter().enumerate().map(|(done, place)| (place, 100 + done)).collect());
            assert_eq!(fast, slow);
        }
    }
}
