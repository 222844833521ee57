//! Blocks of one type that wait for their time. The readable model is `tests/oracles/held_blocks.py`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::block::batch::{Batch, Column, Texts, Values, bits, is_set};
use crate::block::blocks::{Block, Form, whole};
use crate::block::naming::Naming;
use crate::hashing::Scattered;

/// A block of which less than this part is left is copied, so that what has gone takes no room.
const LEAST_LEFT: usize = 4;

/// A row of a block, and which block it is of those at hand.
type Row = (usize, u32);

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

/// The stamps of a block.
struct Stamps<'a> {
    times: &'a [i64],
    ids: &'a [i64],
    codes: &'a [i32],
    names: &'a Texts,
    levels: Option<&'a [i64]>,
}

impl<'a> Stamps<'a> {
    fn of(batch: &'a Batch, own: usize) -> Option<Self> {
        let Values::Coded(codes, names) = &batch.columns.get(own + 2)?.values else { return None };
        Some(Self {
            times: whole(batch.columns.get(own)?)?,
            ids: whole(batch.columns.get(own + 1)?)?,
            codes,
            names,
            levels: batch.columns.get(own + 3).and_then(whole),
        })
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

#[pyclass(module = "middleware.native")]
#[derive(Default)]
pub struct HeldBlocks {
    form: Option<Arc<Form>>,
    /// By the time of the first row that is held, and their numbers.
    held: BTreeMap<(i64, u64), Held>,
    next: u64,
}

#[pymethods]
impl HeldBlocks {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.held.values().map(|held| held.rows().len()).sum()
    }

    fn put(&mut self, block: &Bound<'_, Block>, above: i64) -> usize {
        let (batch, form) = (block.get().batch(), block.get().form());
        let order = Stamps::of(batch, form.own()).map_or_else(Vec::new, |stamps| stamps.order(above));
        let refused = batch.rows - order.len();
        self.form.get_or_insert_with(|| form.clone());
        self.next += 1;
        self.hold(Held { number: self.next, batch: batch.clone(), order, gone: 0 });
        refused
    }

    fn pick(&mut self, ids: Vec<i64>) -> PyResult<Option<Block>> {
        let Some(form) = self.form.clone() else { return Ok(None) };
        let ids: Scattered<i64, ()> = ids.into_iter().map(|id| (id, ())).collect();
        let (mut parts, mut chosen) = (Vec::new(), Vec::new());
        for (_, mut held) in mem::take(&mut self.held) {
            let Some(own) = Stamps::of(&held.batch, form.own()).map(|stamps| stamps.ids) else { continue };
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
            self.hold(tidy(&form, Held { order, ..held }));
        }
        let parts: Vec<_> = parts.iter().collect();
        if chosen.is_empty() { Ok(None) } else { gathered(&form, &parts, &chosen).map(Some) }
    }

    fn first(&self) -> PyResult<Option<Block>> {
        let (Some(form), Some((earliest, _))) = (&self.form, self.held.keys().next()) else { return Ok(None) };
        let of_then = || self.held.range(..=(*earliest, u64::MAX)).map(|(_, held)| held);
        let parts: Vec<_> = of_then().map(|held| &held.batch).collect();
        let Some(stamps) = parts.iter().map(|part| Stamps::of(part, form.own())).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let rows = of_then().map(|held| held.rows()[0]).enumerate();
        let first = rows.min_by(|one, other| tie(&stamps, *one, *other));
        first.map(|row| gathered(form, &parts, &[row])).transpose()
    }

    fn release(&mut self, until: i64) -> PyResult<Option<Block>> {
        let Some(form) = self.form.clone() else { return Ok(None) };
        let mut touched = Vec::new();
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= until) {
            touched.push(entry.remove());
        }
        touched.sort_by_key(|held| held.number); // of one identity, what came first comes first
        let (mut stamps, mut free, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (part, held) in touched.iter().enumerate() {
            let Some(own) = Stamps::of(&held.batch, form.own()) else { continue };
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
        let block = gathered(&form, &parts, &free);
        drop(stamps);
        for (held, gone) in touched.into_iter().zip(ends) {
            self.hold(if block.is_ok() { tidy(&form, Held { gone, ..held }) } else { held });
        }
        block.map(Some)
    }
}

impl HeldBlocks {
    /// Hold what is left of a block, if anything is.
    fn hold(&mut self, held: Held) {
        let own = self.form.as_ref().map_or(0, |form| form.own());
        let times = held.batch.columns.get(own).and_then(whole).unwrap_or_default();
        if let Some(earliest) = held.rows().first().and_then(|row| times.get(*row as usize)) {
            self.held.insert((*earliest, held.number), held);
        }
    }
}

/// What is left of a block, copied if it is little.
fn tidy(form: &Arc<Form>, held: Held) -> Held {
    if held.rows().is_empty() || held.rows().len() * LEAST_LEFT >= held.batch.rows {
        return held;
    }
    let rows: Vec<Row> = held.rows().iter().map(|row| (0, *row)).collect();
    match gathered(form, &[&held.batch], &rows) {
        Ok(block) => {
            Held { number: held.number, batch: block.batch().clone(), order: (0..rows.len() as u32).collect(), gone: 0 }
        }
        Err(_) => held,
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

/// Blocks of one type, one after another, as one. O(values).
#[pyfunction]
pub fn joined(blocks: Vec<Bound<'_, Block>>) -> PyResult<Option<Block>> {
    let parts: Vec<_> = blocks.iter().map(|block| block.get().batch()).collect();
    let rows: Vec<Row> =
        parts.iter().enumerate().flat_map(|(at, part)| (0..part.rows as u32).map(move |row| (at, row))).collect();
    let Some(first) = blocks.first().filter(|_| !rows.is_empty()) else { return Ok(None) };
    gathered(first.get().form(), &parts, &rows).map(Some)
}

/// These rows, of which there is at least one, as a block.
fn gathered(form: &Arc<Form>, parts: &[&Arc<Batch>], rows: &[Row]) -> PyResult<Block> {
    let is_whole = parts.len() == 1 && rows.len() == parts[0].rows;
    if is_whole && rows.iter().enumerate().all(|(at, (_, row))| at == *row as usize) {
        return Ok(Block::of(parts[0].clone(), form.clone()));
    }
    let count = parts.iter().map(|part| part.columns.len()).max().unwrap_or_default();
    let made = (0..count).map(|column| {
        let (name, _, is_nullable) = &form.fields[column];
        let parts: Vec<_> = parts.iter().map(|part| part.columns.get(column)).collect();
        let (values, there) = (values(&parts, rows)?, there(&parts, rows));
        Some(Column { name: name.clone(), is_nullable: *is_nullable, there, values })
    });
    let columns = made.collect::<Option<Vec<_>>>().ok_or_else(|| PyOverflowError::new_err("texts too long for a column"))?;
    Ok(Block::of(Arc::new(Batch { rows: rows.len(), columns }), form.clone()))
}

/// The values of a column: of one kind in all blocks of a type. Only levels may be missing: they are 0.
fn values(parts: &[Option<&Column>], rows: &[Row]) -> Option<Values> {
    macro_rules! cells {
        ($kind:ident) => {
            parts.iter().map(|part| match part.map(|column| &column.values) {
                Some(Values::$kind(values)) => Some(values),
                _ => None,
            })
        };
    }
    Some(match &parts[rows[0].0].or_else(|| parts.iter().copied().flatten().next())?.values {
        Values::Integers(_) => {
            let cells: Vec<_> = cells!(Integers).collect();
            Values::Integers(rows.iter().map(|(at, row)| cells[*at].map_or(0, |cells| cells[*row as usize])).collect())
        }
        Values::Floats(_) => {
            let cells: Vec<_> = cells!(Floats).collect::<Option<_>>()?;
            Values::Floats(rows.iter().map(|(at, row)| cells[*at][*row as usize]).collect())
        }
        Values::Flags(_) => {
            let cells: Vec<_> = cells!(Flags).collect::<Option<_>>()?;
            let flags: Vec<u8> = rows.iter().map(|(at, row)| u8::from(is_set(cells[*at], *row as usize))).collect();
            Values::Flags(bits(&flags))
        }
        Values::Texts(_) => {
            let cells: Vec<_> = cells!(Texts).collect::<Option<_>>()?;
            let mut texts = Texts::new();
            rows.iter().try_for_each(|(at, row)| texts.push(cells[*at].get(*row as usize)))?;
            Values::Texts(texts)
        }
        Values::Coded(..) => coded(parts, rows)?,
    })
}

/// Which values are there; None if all are.
fn there(parts: &[Option<&Column>], rows: &[Row]) -> Option<(Vec<u8>, usize)> {
    let given: Vec<_> = parts.iter().map(|part| part.and_then(|column| column.there.as_ref())).collect();
    if given.iter().all(Option::is_none) {
        return None;
    }
    let flags: Vec<u8> =
        rows.iter().map(|(at, row)| u8::from(given[*at].is_none_or(|(bits, _)| is_set(bits, *row as usize)))).collect();
    let missing = flags.iter().filter(|is_there| **is_there == 0).count();
    (missing > 0).then(|| (bits(&flags), missing))
}

/// The names of the sources of these rows, each once, and the number of each row's own.
fn coded(parts: &[Option<&Column>], rows: &[Row]) -> Option<Values> {
    let (mut naming, mut codes) = (Naming::<&[u8]>::new(), Vec::with_capacity(rows.len()));
    let mut numbers: Vec<Vec<i32>> = vec![Vec::new(); parts.len()];
    for (at, row) in rows {
        let Values::Coded(given, texts) = &parts[*at]?.values else { return None };
        let (code, own) = (given[*row as usize] as usize, &mut numbers[*at]);
        if own.is_empty() {
            own.resize(texts.len(), -1);
        }
        if own[code] < 0 {
            own[code] = naming.number(texts.get(code))?;
        }
        codes.push(own[code]);
    }
    Some(Values::Coded(codes, naming.names))
}
