//! Blocks of a type's events, in rows or in columns, read into columns. Every bound is checked.

use crate::block::batch::{Batch, Texts, Values};
use crate::block::form::{Form, Kind, MOST_NAMES, MOST_ROWS};
use crate::block::naming::Naming;
use crate::block::wire::cursor::{Cursor, is_time};
use crate::block::wire::ipc::{self, columns, spelled};

impl Form {
    /// The rows of a block; None if it is anything but `rows` rows whose values all fit their fields as they are. O(bytes).
    pub fn read_rows(&self, block: &[u8], rows: usize) -> Option<Batch> {
        let mut cursor = Cursor::new(block);
        if cursor.array()? != rows || rows > block.len() {
            return None;
        }
        let own = &self.fields[..self.own()];
        let mut columns: Vec<Building> = own.iter().map(|(_, kind, nullable)| Building::new(*kind, *nullable, rows)).collect();
        let [mut times, mut ids, mut levels] = [(); 3].map(|()| Vec::with_capacity(rows));
        let mut sources = Sources::new(rows);
        for _ in 0..rows {
            if cursor.array()? != self.fields.len() {
                return None;
            }
            for column in &mut columns {
                column.take(&mut cursor)?;
            }
            times.push(cursor.time()?);
            ids.push(cursor.integer()?);
            sources.take(cursor.text()?)?;
            levels.push(cursor.integer()?);
        }
        if !cursor.is_empty() {
            return None;
        }
        let own = columns.into_iter().map(Building::done);
        let stamps = stamps(times, ids, (sources.codes, sources.naming.names), levels);
        self.batch(rows, own.chain(stamps.map(|values| (None, values))))
    }

    /// The columns of a block behind its schema; None if it is anything but `rows` sound rows. O(bytes).
    pub fn read_columns(&self, stream: &[u8], rows: usize, has_levels: bool) -> Option<Batch> {
        let last = self.fields.len() - usize::from(!has_levels);
        let stamp = self.own();
        let form = |at: usize, kind: Kind| match kind {
            Kind::Integer | Kind::Time => ipc::Form::Integers,
            Kind::Float => ipc::Form::Floats,
            Kind::Flag => ipc::Form::Flags,
            Kind::Text if at < stamp => ipc::Form::Texts,
            Kind::Text => ipc::Form::Coded,
        };
        let forms = self.fields[..last].iter().enumerate().map(|(at, (_, kind, nullable))| (form(at, *kind), *nullable));
        let found = columns(stream, rows.min(MOST_ROWS), forms)?;
        for ((values, _), (_, kind, _)) in found.iter().zip(&self.fields) {
            let is_sound = match values {
                Values::Integers(numbers) if *kind == Kind::Time => numbers.iter().all(is_time),
                _ => *kind != Kind::Time,
            };
            if spelled(values) > MOST_NAMES || !is_sound {
                return None;
            }
        }
        if found.len() < last || rows > MOST_ROWS {
            return None;
        }
        self.batch(rows, found.into_iter().map(|(values, there)| (there, values)))
    }
}

/// The columns of stamps; levels only if some are not 0.
pub fn stamps(
    times: Vec<i64>,
    ids: Vec<i64>,
    (codes, names): (Vec<i32>, Texts),
    levels: Vec<i64>,
) -> impl Iterator<Item = Values> {
    let has_levels = levels.iter().any(|level| *level != 0);
    let stamps = [Values::Integers(times), Values::Integers(ids), Values::Coded(codes, names)];
    stamps.into_iter().chain(has_levels.then_some(Values::Integers(levels)))
}

/// A column as it is read.
struct Building {
    kind: Kind,
    values: Values,
    /// Bits, and how many are not set; None if all must be there.
    there: Option<(Vec<u8>, usize)>,
    rows: usize,
}

impl Building {
    fn new(kind: Kind, nullable: bool, rows: usize) -> Self {
        let values = match kind {
            Kind::Integer | Kind::Time => Values::Integers(Vec::with_capacity(rows)),
            Kind::Float => Values::Floats(Vec::with_capacity(rows)),
            Kind::Flag => Values::Flags(vec![0; rows.div_ceil(8)]),
            Kind::Text => Values::Texts(Texts::new()),
        };
        Self { kind, values, there: nullable.then(|| (vec![0; rows.div_ceil(8)], 0)), rows: 0 }
    }

    /// The next value.
    #[inline]
    fn take(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let row = self.rows;
        self.rows += 1;
        if let Some((bits, nulls)) = &mut self.there {
            if cursor.none() {
                *nulls += 1;
                match &mut self.values {
                    Values::Integers(values) => values.push(0),
                    Values::Floats(values) => values.push(0.0),
                    Values::Texts(texts) => texts.push(b"")?,
                    Values::Flags(_) | Values::Coded(..) => {}
                }
                return Some(());
            }
            bits[row / 8] |= 1 << (row % 8);
        }
        match &mut self.values {
            Values::Integers(values) if self.kind == Kind::Time => values.push(cursor.time()?),
            Values::Integers(values) => values.push(cursor.integer()?),
            Values::Floats(values) => values.push(cursor.float()?),
            Values::Flags(bits) => bits[row / 8] |= u8::from(cursor.flag()?) << (row % 8),
            Values::Texts(texts) => texts.push(cursor.text()?.as_bytes())?,
            Values::Coded(..) => return None,
        }
        Some(())
    }

    /// Which values are there, as in a `Column`, and the values.
    fn done(self) -> (Option<(Vec<u8>, usize)>, Values) {
        (self.there.filter(|(_, nulls)| *nulls > 0), self.values)
    }
}

/// The sources of events: mostly those of the event before.
struct Sources<'a> {
    naming: Naming<&'a [u8]>,
    codes: Vec<i32>,
    last: Option<(&'a str, i32)>,
}

impl<'a> Sources<'a> {
    fn new(rows: usize) -> Self {
        Self { naming: Naming::new(), codes: Vec::with_capacity(rows), last: None }
    }

    #[inline]
    fn take(&mut self, name: &'a str) -> Option<()> {
        let code = match self.last {
            Some((last, code)) if last == name => code,
            _ => self.naming.number(name.as_bytes())?,
        };
        self.last = Some((name, code));
        self.codes.push(code);
        Some(())
    }
}
