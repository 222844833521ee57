//! Batches of one type that wait for their time. Twin of `PlainHeldBlocks` in `middleware.model.block.waiting_blocks`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use crate::block::batch::{Batch, Texts};
use crate::block::form::Form;
use crate::block::gathered::{Row, gathered};
use crate::hashing::Scattered;

/// A batch of which less than this part is left is copied, so that what has gone takes no room.
const LEAST_LEFT: usize = 4;

struct Held {
    /// In the order in which they came.
    number: u64,
    batch: Arc<Batch>,
    /// The rows in total order, of which so many have gone.
    order: Vec<u32>,
    gone: usize,
}

impl Held {
    fn rows(&self) -> &[u32] {
        &self.order[self.gone..]
    }
}

/// The stamps of a batch.
struct Stamps<'a> {
    times: &'a [i64],
    ids: &'a [i64],
    codes: &'a [i32],
    names: &'a Texts,
    levels: Option<&'a [i64]>,
}

impl<'a> Stamps<'a> {
    fn of(batch: &'a Batch, form: &Form) -> Option<Self> {
        let (codes, names) = form.codes(batch)?;
        let [times, ids] = [form.stamps(batch, 0)?, form.stamps(batch, 1)?];
        Some(Self { times, ids, codes, names, levels: form.stamps(batch, 3) })
    }

    fn level(&self, row: usize) -> i64 {
        self.levels.map_or(0, |levels| levels[row])
    }

    fn source(&self, row: usize) -> &'a [u8] {
        self.names.get(self.codes[row] as usize)
    }

    /// The rows above a time, in total order; those of one identity as they came.
    fn order(&self, above: i64) -> Vec<u32> {
        let mut named: Vec<usize> = (0..self.names.len()).collect();
        named.sort_by_key(|at| self.names.get(*at));
        let mut ranks = vec![0; named.len()];
        for pair in named.windows(2) {
            ranks[pair[1]] = ranks[pair[0]] + u32::from(self.names.get(pair[0]) != self.names.get(pair[1]));
        }
        let rows = (0..self.times.len()).filter(|row| self.times[*row] > above);
        let is_level = self.levels.is_none_or(|levels| levels.windows(2).all(|pair| pair[0] == pair[1]));
        if is_level && ranks.iter().all(|rank| *rank == 0) {
            return sorted(rows, |row| (self.times[row], self.ids[row], row as u32), |key| key.2);
        }
        let key = |row| (self.times[row], self.level(row), ranks[self.codes[row] as usize], self.ids[row], row as u32);
        sorted(rows, key, |key| key.4)
    }
}

/// Most come in order: only the others are sorted, and merged with them.
fn sorted<K: Ord + Copy>(rows: impl Iterator<Item = usize>, key: impl Fn(usize) -> K, row: impl Fn(K) -> u32) -> Vec<u32> {
    let (mut ahead, mut behind): (Vec<K>, Vec<K>) = (Vec::new(), Vec::new());
    for key in rows.map(key) {
        if ahead.last().is_none_or(|last| *last <= key) { ahead.push(key) } else { behind.push(key) }
    }
    behind.sort_unstable();
    let mut order = Vec::with_capacity(ahead.len() + behind.len());
    let mut rest = ahead.into_iter().peekable();
    for late in behind {
        while let Some(key) = rest.next_if(|key| *key < late) {
            order.push(row(key));
        }
        order.push(row(late));
    }
    order.extend(rest.map(row));
    order
}

/// Texts would be too long for a column.
#[derive(Debug, PartialEq)]
pub struct TooLong;

#[derive(Default)]
pub struct WaitingBatches {
    /// By the time of the first row that is held, and their numbers.
    held: BTreeMap<(i64, u64), Held>,
    next: u64,
}

impl WaitingBatches {
    pub fn len(&self) -> usize {
        self.held.values().map(|held| held.rows().len()).sum()
    }

    /// Hold the rows above a time; how many are not. O(rows log rows), O(rows) if most come in order.
    pub fn put(&mut self, form: &Form, batch: &Arc<Batch>, above: i64) -> usize {
        let order = Stamps::of(batch, form).map_or_else(Vec::new, |stamps| stamps.order(above));
        let refused = batch.rows - order.len();
        self.next += 1;
        self.hold(form, Held { number: self.next, batch: batch.clone(), order, gone: 0 });
        refused
    }

    /// Take out the rows of these ids; None if there are none.
    pub fn pick(&mut self, form: &Form, ids: Vec<i64>) -> Result<Option<Arc<Batch>>, TooLong> {
        let ids: Scattered<i64, ()> = ids.into_iter().map(|id| (id, ())).collect();
        let (mut parts, mut chosen) = (Vec::new(), Vec::new());
        for (_, mut held) in mem::take(&mut self.held) {
            let Some(own) = Stamps::of(&held.batch, form).map(|stamps| stamps.ids) else { continue };
            let (before, gone) = (chosen.len(), mem::take(&mut held.gone));
            let mut order = held.order.split_off(gone);
            order.retain(|row| {
                let stays = !ids.contains_key(&own[*row as usize]);
                if !stays {
                    chosen.push((parts.len(), *row));
                }
                stays
            });
            if chosen.len() > before {
                parts.push(held.batch.clone());
            }
            self.hold(form, tidy(form, Held { order, ..held }));
        }
        let parts: Vec<_> = parts.iter().collect();
        if chosen.is_empty() { Ok(None) } else { gathered(form, &parts, &chosen).map(Some).ok_or(TooLong) }
    }

    /// The first row in total order, which stays.
    pub fn first(&self, form: &Form) -> Result<Option<Arc<Batch>>, TooLong> {
        let Some((earliest, _)) = self.held.keys().next() else { return Ok(None) };
        let of_then = || self.held.range(..=(*earliest, u64::MAX)).map(|(_, held)| held);
        let parts: Vec<_> = of_then().map(|held| &held.batch).collect();
        let Some(stamps) = parts.iter().map(|part| Stamps::of(part, form)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let rows = of_then().map(|held| held.rows()[0]).enumerate();
        let first = rows.min_by(|one, other| tie(&stamps, *one, *other));
        first.map(|row| gathered(form, &parts, &[row]).ok_or(TooLong)).transpose()
    }

    /// Take out the rows up to a time, in total order; None if there are none, and none is taken out if it fails.
    pub fn release(&mut self, form: &Form, until: i64) -> Result<Option<Arc<Batch>>, TooLong> {
        let mut touched = Vec::new();
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= until) {
            touched.push(entry.remove());
        }
        touched.sort_by_key(|held| held.number); // of one identity, what came first comes first
        let (mut stamps, mut free, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (part, held) in touched.iter().enumerate() {
            let Some(own) = Stamps::of(&held.batch, form) else { continue };
            let count = held.rows().partition_point(|row| own.times[*row as usize] <= until);
            free.extend(held.rows()[..count].iter().map(|row| (own.times[*row as usize], (part, *row))));
            ends.push(held.gone + count);
            stamps.push(own);
        }
        if free.is_empty() {
            return Ok(None);
        }
        if touched.len() > 1 {
            free.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| tie(&stamps, one.1, other.1)));
        }
        let free: Vec<Row> = free.into_iter().map(|(_, row)| row).collect();
        let parts: Vec<_> = touched.iter().map(|held| &held.batch).collect();
        let batch = gathered(form, &parts, &free);
        drop(stamps);
        for (held, gone) in touched.into_iter().zip(ends) {
            self.hold(form, if batch.is_some() { tidy(form, Held { gone, ..held }) } else { held });
        }
        batch.map(Some).ok_or(TooLong)
    }

    /// Hold what is left of a batch, if anything is.
    fn hold(&mut self, form: &Form, held: Held) {
        let times = form.stamps(&held.batch, 0).unwrap_or_default();
        if let Some(earliest) = held.rows().first().and_then(|row| times.get(*row as usize)) {
            self.held.insert((*earliest, held.number), held);
        }
    }
}

/// The rows left of a batch, copied if they are few.
fn tidy(form: &Form, held: Held) -> Held {
    if held.rows().is_empty() || held.rows().len() * LEAST_LEFT >= held.batch.rows {
        return held;
    }
    let rows: Vec<Row> = held.rows().iter().map(|row| (0, *row)).collect();
    match gathered(form, &[&held.batch], &rows) {
        Some(batch) => Held { number: held.number, batch, order: (0..rows.len() as u32).collect(), gone: 0 },
        None => held,
    }
}

/// The total order of two rows of one time.
fn tie(stamps: &[Stamps<'_>], one: Row, other: Row) -> Ordering {
    let ([first, second], [a, b]) = ([&stamps[one.0], &stamps[other.0]], [one.1 as usize, other.1 as usize]);
    let sources = || {
        let is_same = one.0 == other.0 && first.codes[a] == second.codes[b];
        if is_same { Ordering::Equal } else { first.source(a).cmp(second.source(b)) }
    };
    first.level(a).cmp(&second.level(b)).then_with(sources).then_with(|| first.ids[a].cmp(&second.ids[b]))
}
