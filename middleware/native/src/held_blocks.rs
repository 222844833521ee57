//! Blocks of one type that wait for their time. Twin of `PlainHeldBlocks` in `middleware.model.held`.

use std::cmp::Ordering;
use std::sync::Arc;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::blocks::{Block, Form, whole};
use crate::export::{Batch, Column, Texts, Values, bits, is_set};
use crate::naming::Naming;
use crate::sequence::Scattered;

/// A block of which less than this part is left is copied, so that what has gone takes no room.
const LEAST_LEFT: usize = 4;

/// A row of a block, and which block it is of those at hand.
type Row = (usize, u32);

struct Held {
    batch: Arc<Batch>,
    /// The rows that are held, in total order.
    order: Vec<u32>,
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
    held: Vec<Held>,
}

#[pymethods]
impl HeldBlocks {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        self.held.iter().map(|held| held.order.len()).sum()
    }

    fn put(&mut self, block: &Bound<'_, Block>, above: i64) -> usize {
        let (batch, form) = (block.get().batch(), block.get().form());
        let order = Stamps::of(batch, form.own()).map_or_else(Vec::new, |stamps| stamps.order(above));
        let refused = batch.rows - order.len();
        self.form.get_or_insert_with(|| form.clone());
        if !order.is_empty() {
            self.held.push(Held { batch: batch.clone(), order });
        }
        refused
    }

    fn pick(&mut self, ids: Vec<i64>) -> PyResult<Option<Block>> {
        let Some(form) = &self.form else { return Ok(None) };
        let ids: Scattered<i64, ()> = ids.into_iter().map(|id| (id, ())).collect();
        let (mut parts, mut chosen) = (Vec::new(), Vec::new());
        for held in &mut self.held {
            let Some(own) = Stamps::of(&held.batch, form.own()).map(|stamps| stamps.ids) else { continue };
            let before = chosen.len();
            held.order.retain(|row| {
                let stays = !ids.contains_key(&own[*row as usize]);
                if !stays {
                    chosen.push((parts.len(), *row));
                }
                stays
            });
            if chosen.len() > before {
                parts.push(&held.batch);
            }
        }
        let picked = if chosen.is_empty() { None } else { Some(gathered(form, &parts, &chosen)?) };
        self.tidy()?;
        Ok(picked)
    }

    fn first(&self) -> PyResult<Option<Block>> {
        let Some(form) = &self.form else { return Ok(None) };
        let parts: Vec<_> = self.held.iter().map(|held| &held.batch).collect();
        let Some(stamps) = parts.iter().map(|part| Stamps::of(part, form.own())).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let rows = self.held.iter().map(|held| held.order[0]).enumerate();
        let time = |row: &Row| stamps[row.0].times[row.1 as usize];
        let first = rows.min_by(|one, other| time(one).cmp(&time(other)).then_with(|| tie(&stamps, *one, *other)));
        first.map(|row| gathered(form, &parts, &[row])).transpose()
    }

    fn release(&mut self, until: i64) -> PyResult<Option<Block>> {
        let Some(form) = &self.form else { return Ok(None) };
        let (mut parts, mut stamps, mut free) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = Vec::with_capacity(self.held.len());
        for held in &self.held {
            let Some(own) = Stamps::of(&held.batch, form.own()) else { continue };
            let count = held.order.partition_point(|row| own.times[*row as usize] <= until);
            counts.push(count);
            if count > 0 {
                free.extend(held.order[..count].iter().map(|row| (own.times[*row as usize], (parts.len(), *row))));
                parts.push(&held.batch);
                stamps.push(own);
            }
        }
        if free.is_empty() {
            return Ok(None);
        }
        if parts.len() > 1 {
            free.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| tie(&stamps, one.1, other.1)));
        }
        let free: Vec<Row> = free.into_iter().map(|(_, row)| row).collect();
        let block = gathered(form, &parts, &free)?;
        for (held, count) in self.held.iter_mut().zip(counts) {
            held.order.drain(..count);
        }
        self.tidy()?;
        Ok(Some(block))
    }
}

impl HeldBlocks {
    /// Let go of blocks of which nothing is left, and copy what is left of others if it is little.
    fn tidy(&mut self) -> PyResult<()> {
        self.held.retain(|held| !held.order.is_empty());
        let Some(form) = &self.form else { return Ok(()) };
        for held in &mut self.held {
            if held.order.len() * LEAST_LEFT < held.batch.rows {
                let rows: Vec<Row> = held.order.iter().map(|row| (0, *row)).collect();
                let batch = gathered(form, &[&held.batch], &rows)?.batch().clone();
                *held = Held { batch, order: (0..rows.len() as u32).collect() };
            }
        }
        Ok(())
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
