//! Whether a block of rows holds the identities that its head names: so a broker that reads nothing else of it forwards nothing
//! that it has not checked.

use std::collections::HashMap;

use crate::block::wire::cursor::{Cursor, is_time};

/// Source, first and last id.
pub type Named = (String, i64, i64);

type Run<'a> = (&'a [u8], i64, i64);

/// The identities that a head names, and which of them were met.
struct Claims<'a> {
    runs: Vec<Run<'a>>,
    /// How many identities the runs before each one have.
    before: Vec<usize>,
    by_source: HashMap<&'a [u8], Vec<usize>>,
    met: Vec<bool>,
    now: usize,
}

impl<'a> Claims<'a> {
    /// None if the runs do not name so many identities.
    fn new(runs: Vec<Run<'a>>, rows: usize) -> Option<Self> {
        let mut before = Vec::with_capacity(runs.len());
        let mut by_source: HashMap<&[u8], Vec<usize>> = HashMap::new();
        let mut count = 0usize;
        for (at, (source, first, last)) in runs.iter().enumerate() {
            before.push(count);
            count = count.checked_add(usize::try_from(last.checked_sub(*first)?.checked_add(1)?).ok()?)?;
            by_source.entry(source).or_default().push(at);
        }
        (count == rows && rows > 0).then(|| Self { runs, before, by_source, met: vec![false; rows], now: 0 })
    }

    /// The place of an identity in `met`, if it lies in this run.
    #[inline]
    fn place(&self, run: usize, source: &[u8], id: i64) -> Option<usize> {
        let (name, first, last) = self.runs[run];
        let offset = id.wrapping_sub(first) as u64; // of an id before the first one it is larger than any length
        (offset <= last.wrapping_sub(first) as u64 && name == source).then(|| self.before[run] + offset as usize)
    }

    /// Meet an identity: None if it is not named, or was met before.
    #[inline]
    fn meet(&mut self, source: &[u8], id: i64) -> Option<()> {
        let at = match self.place(self.now, source, id) {
            Some(at) => at,
            None => self.find(source, id)?,
        };
        (!std::mem::replace(self.met.get_mut(at)?, true)).then_some(())
    }

    /// Finds an identity that is not in the run of the one before.
    #[cold]
    fn find(&mut self, source: &[u8], id: i64) -> Option<usize> {
        let (run, at) = self.by_source.get(source)?.iter().find_map(|run| Some((*run, self.place(*run, source, id)?)))?;
        self.now = run;
        Some(at)
    }
}

/// The earliest and the latest time in a block of so many raw events in rows, each of which ends with its ts, id, source and level;
/// None if it is none, or does not hold exactly the identities of these runs (source, first, last). O(bytes + runs).
pub fn times_of_claimed(block: &[u8], rows: usize, runs: &[Named]) -> Option<(i64, i64)> {
    let runs: Vec<Run> = runs.iter().map(|(source, first, last)| (source.as_bytes(), *first, *last)).collect();
    let mut cursor = Cursor::new(block);
    if cursor.array()? != rows || rows > block.len() {
        return None;
    }
    let mut claims = Claims::new(runs, rows)?;
    let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
    for _ in 0..rows {
        let fields = cursor.array()?.checked_sub(4)?;
        cursor.skip(fields)?;
        let ts = cursor.integer().filter(is_time)?;
        let id = cursor.integer()?;
        let source = cursor.spelled()?; // it is a name if it equals one, so nothing has to read it
        if source.is_empty() || cursor.integer()? != 0 {
            return None;
        }
        claims.meet(source, id)?;
        oldest = oldest.min(ts);
        newest = newest.max(ts);
    }
    cursor.is_empty().then_some((oldest, newest))
}

/// Return the times of claimed identities in columns: times and ids (int64) and the numbers of their sources (uint32), little-endian.
pub fn times_of_claimed_columns(
    times: &[u8],
    ids: &[u8],
    codes: &[u8],
    names: &[String],
    runs: &[Named],
) -> Option<(i64, i64)> {
    let (times, ids, codes) = (times.as_chunks::<8>().0, ids.as_chunks::<8>().0, codes.as_chunks::<4>().0);
    if times.len() != ids.len() || ids.len() != codes.len() {
        return None;
    }
    let runs: Vec<Run> = runs.iter().map(|(source, first, last)| (source.as_bytes(), *first, *last)).collect();
    let mut claims = Claims::new(runs, ids.len())?;
    let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
    for ((ts, id), code) in times.iter().zip(ids).zip(codes) {
        let ts = Some(i64::from_le_bytes(*ts)).filter(is_time)?;
        claims.meet(names.get(u32::from_le_bytes(*code) as usize)?.as_bytes(), i64::from_le_bytes(*id))?;
        oldest = oldest.min(ts);
        newest = newest.max(ts);
    }
    Some((oldest, newest))
}

#[cfg(test)]
mod tests {
    use super::{Named, times_of_claimed};

    /// Rows of one field: (source, id, ts, level), all below 128.
    fn block(rows: &[(&str, u8, u8, u8)]) -> Vec<u8> {
        let mut bytes = vec![0x90 | rows.len() as u8];
        for (source, id, ts, level) in rows {
            bytes.extend([0x95, 0x82, 1, 0x91, 2, 3, 0xC0, *ts, *id, 0xA0 | source.len() as u8]);
            bytes.extend(source.bytes());
            bytes.push(*level);
        }
        bytes
    }

    fn runs(runs: &[(&str, i64, i64)]) -> Vec<Named> {
        runs.iter().map(|(source, first, last)| ((*source).into(), *first, *last)).collect()
    }

    #[test]
    fn a_block_holds_exactly_what_its_head_names() {
        let rows = block(&[("p", 2, 9, 0), ("q", 7, 5, 0), ("p", 1, 8, 0)]);
        let named = runs(&[("p", 1, 2), ("q", 7, 7)]);
        assert_eq!(times_of_claimed(&rows, 3, &named), Some((5, 9)));
        for other in
            [&[("p", 1, 2), ("q", 6, 6)][..], &[("p", 1, 2), ("r", 7, 7)], &[("p", 1, 3)], &[("p", i64::MIN, i64::MAX)]]
        {
            assert_eq!(times_of_claimed(&rows, 3, &runs(other)), None);
        }
        assert_eq!(times_of_claimed(&rows, 2, &named), None);
        assert_eq!(times_of_claimed(&rows[..rows.len() - 1], 3, &named), None);
        assert_eq!(times_of_claimed(&[&rows[..], &[0]].concat(), 3, &named), None);
        let twice = block(&[("p", 1, 9, 0), ("p", 1, 9, 0)]);
        assert_eq!(times_of_claimed(&twice, 2, &runs(&[("p", 1, 2)])), None);
        let derived = block(&[("p", 1, 9, 1)]);
        assert_eq!(times_of_claimed(&derived, 1, &runs(&[("p", 1, 1)])), None);
    }
}
