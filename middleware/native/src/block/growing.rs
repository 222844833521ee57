//! Events of one type as columns that grow.

use crate::block::arrow;
use crate::block::batch::Batch;
use crate::block::cells::{Cells, Scalar};
use crate::block::form::Form;
use crate::block::naming::Naming;
use crate::block::reading::stamps;
use crate::block::tables::Rows;
use crate::block::wire::cursor::is_time;
use crate::ingress::ids::runs;

/// Most bytes in the name of a source, as in model/event.py: a node rejects longer ones.
const LONGEST_SOURCE: usize = 256;

/// Source, first and last id.
pub type Run = (String, i64, i64);

/// The events of one type.
pub struct Growing {
    pub columns: Vec<Cells>,
    times: Vec<i64>,
    ids: Vec<i64>,
    codes: Vec<i32>,
    levels: Vec<i64>,
    sources: Naming<Box<[u8]>>,
    /// The place of each among all that came with it, if there are others.
    pub places: Vec<u16>,
}

impl Growing {
    pub fn new(form: &Form) -> Self {
        Self {
            columns: form.fields[..form.own()].iter().map(|(_, kind, is_nullable)| Cells::new(*kind, *is_nullable)).collect(),
            times: Vec::new(),
            ids: Vec::new(),
            codes: Vec::new(),
            levels: Vec::new(),
            sources: Naming::new(),
            places: Vec::new(),
        }
    }

    /// How many events there are, and how many sources.
    pub fn size(&self) -> (usize, usize) {
        (self.ids.len(), self.sources.names.len())
    }

    /// Whether the last event is not derived.
    pub fn is_raw(&self) -> bool {
        self.levels.last() == Some(&0)
    }

    /// Add an event by its fields, `own` of them and then those of its stamps; how many bytes its values take. None: it is half
    /// added. `number_of`: the number of a source, from `number`.
    #[inline]
    pub fn put<V: Scalar>(
        &mut self,
        value: impl Fn(usize) -> Option<V>,
        number_of: impl FnOnce(&mut Self, V) -> Option<i32>,
    ) -> Option<usize> {
        let own = self.columns.len();
        let mut bytes = 8 * (own + 3);
        for (field, column) in self.columns.iter_mut().enumerate() {
            bytes += column.put(&value(field)?)?;
        }
        let ts = value(own)?.whole().filter(is_time)?;
        let id = value(own + 1)?.whole()?;
        let source = value(own + 2)?;
        let level = value(own + 3)?.whole()?;
        let code = number_of(self, source)?;
        self.times.push(ts);
        self.ids.push(id);
        self.codes.push(code);
        self.levels.push(level);
        Some(bytes)
    }

    /// The number of a source; None if its name is too long.
    pub fn number(&mut self, name: &str) -> Option<i32> {
        if name.len() > LONGEST_SOURCE { None } else { self.sources.number(name.as_bytes()) }
    }

    /// Add the rows of a table, but for their places; how many bytes their values take. None: they are half added.
    pub fn put_rows(&mut self, rows: &Rows<'_>, source: &str, number: &mut i64) -> Option<usize> {
        let count = rows.times.len();
        let mut bytes = 8 * (self.columns.len() + 3) * count;
        for (column, given) in self.columns.iter_mut().zip(&rows.own) {
            bytes += column.extend(given, count)?;
        }
        if !rows.times.iter().all(is_time) {
            return None;
        }
        self.times.extend_from_slice(&rows.times);
        match &rows.ids {
            Some(ids) => self.ids.extend_from_slice(ids),
            None => {
                let after = number.checked_add(i64::try_from(count).ok()?)?;
                self.ids.extend(*number..after);
                *number = after;
            }
        }
        self.put_sources(rows.sources, source, count)?;
        self.levels.resize(self.ids.len(), 0);
        Some(bytes)
    }

    fn put_sources(&mut self, given: Option<arrow::Column<'_>>, source: &str, count: usize) -> Option<()> {
        let Some(column) = given else {
            let code = self.number(source)?;
            self.codes.resize(self.codes.len() + count, code);
            return Some(());
        };
        let before = self.sources.names.len();
        self.sources.add(column, 0..count, &mut self.codes)?;
        let names = &self.sources.names;
        (before..names.len()).all(|at| names.get(at).len() <= LONGEST_SOURCE).then_some(())
    }

    /// Forget all events from this one on, and the names of sources from that one on.
    pub fn truncate(&mut self, rows: usize, names: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        self.times.truncate(rows);
        self.ids.truncate(rows);
        self.codes.truncate(rows);
        self.levels.truncate(rows);
        self.places.truncate(rows);
        self.sources.truncate(names);
    }

    /// The identities as runs; None if these are too many.
    pub fn runs(&self) -> Option<Vec<Run>> {
        let codes = self.codes.iter().map(|code| code.cast_unsigned());
        let name = |at| String::from_utf8_lossy(self.sources.names.get(at)).into_owned();
        let runs = runs(&self.ids, codes, self.ids.len() / 4 + 1)?;
        Some(runs.into_iter().map(|(at, first, last)| (name(at), first, last)).collect())
    }

    /// The events as a batch.
    pub fn batch(self, form: &Form) -> Option<Batch> {
        let rows = self.ids.len();
        let stamps = stamps(self.times, self.ids, (self.codes, self.sources.names), self.levels);
        form.batch(rows, self.columns.into_iter().map(Cells::done).chain(stamps.map(|values| (None, values))))
    }
}
