//! Batches of one type against the events that they are made of.

use std::ffi::CString;
use std::sync::Arc;

use super::arrival::in_arrival;
use super::arrow;
use super::batch::{Batch, Values, is_set};
use super::cells::Scalar;
use super::form::{Form, Kind};
use super::gathered::joined;
use super::growing::Growing;
use super::kept::Kept;
use super::tables::Rows;
use super::waiting::WaitingBatches;
use super::wire::cursor::MAX_TS;
use super::wire::packing::{self, Shown, Stream};
use crate::drawing::Drawn;

const FIELDS: [(&str, Kind, bool); 10] = [
    ("number", Kind::Integer, false),
    ("perhaps", Kind::Integer, true),
    ("when", Kind::Time, false),
    ("share", Kind::Float, true),
    ("flag", Kind::Flag, true),
    ("text", Kind::Text, true),
    ("ts", Kind::Time, false),
    ("id", Kind::Integer, false),
    ("source", Kind::Text, false),
    ("level", Kind::Integer, false),
];
const OWN: usize = FIELDS.len() - 4;

#[derive(Clone, PartialEq, Debug)]
enum Given {
    Missing,
    Whole(i64),
    Float(f64),
    Flag(bool),
    Text(String),
}

impl Scalar for Given {
    fn is_missing(&self) -> bool {
        *self == Self::Missing
    }

    fn whole(&self) -> Option<i64> {
        if let Self::Whole(number) = self { Some(*number) } else { None }
    }

    fn float(&self) -> Option<f64> {
        if let Self::Float(number) = self { Some(*number) } else { None }
    }

    fn flag(&self) -> Option<bool> {
        if let Self::Flag(flag) = self { Some(*flag) } else { None }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// The values of an event, in the order of its fields.
type Event = Vec<Given>;

fn form() -> Form {
    let field = |(name, kind, is_nullable)| (Arc::new(CString::new(name).unwrap()), kind, is_nullable);
    Form::new(FIELDS.into_iter().map(field).collect::<Vec<(_, _, _)>>())
}

fn event(drawn: &mut Drawn, has_levels: bool) -> Event {
    let own = FIELDS[..OWN].iter().map(|(_, kind, is_nullable)| match kind {
        _ if *is_nullable && drawn.one_in(4) => Given::Missing,
        Kind::Integer => Given::Whole(drawn.next() as i64 >> drawn.below(64)),
        Kind::Time => Given::Whole(drawn.below(1_000) as i64),
        Kind::Float => Given::Float(drawn.below(1_000) as f64 / 8.0),
        Kind::Flag => Given::Flag(drawn.one_in(2)),
        Kind::Text => Given::Text("é".repeat(drawn.below(20) as usize)),
    });
    let own: Vec<Given> = own.collect();
    let source = ["a", "b", "somewhere else"][drawn.below(3) as usize];
    let level = if has_levels { drawn.below(3) as i64 } else { 0 };
    let stamps = [drawn.below(40) as i64, drawn.below(6) as i64].map(Given::Whole);
    own.into_iter().chain(stamps).chain([Given::Text(source.to_owned()), Given::Whole(level)]).collect()
}

fn put(growing: &mut Growing, event: &Event) -> Option<usize> {
    growing.put(|field| event.get(field).cloned(), |growing, source| growing.number(source.text()?))
}

fn batch(form: &Form, events: &[Event]) -> Batch {
    let mut growing = Growing::new(form);
    events.iter().for_each(|event| assert!(put(&mut growing, event).is_some()));
    growing.batch(form).unwrap()
}

fn events(batch: &Batch) -> Vec<Event> {
    let value = |row: usize, at: usize| {
        let Some(column) = batch.columns.get(at) else { return Given::Whole(0) };
        if column.there.as_ref().is_some_and(|(bits, _)| !is_set(bits, row)) {
            return Given::Missing;
        }
        let text = |bytes: &[u8]| Given::Text(String::from_utf8(bytes.to_vec()).unwrap());
        match &column.values {
            Values::Integers(values) => Given::Whole(values[row]),
            Values::Floats(values) => Given::Float(values[row]),
            Values::Flags(bits) => Given::Flag(is_set(bits, row)),
            Values::Texts(texts) => text(texts.get(row)),
            Values::Coded(codes, names) => text(names.get(codes[row] as usize)),
        }
    };
    (0..batch.rows).map(|row| (0..FIELDS.len()).map(|at| value(row, at)).collect()).collect()
}

fn drawn_events(drawn: &mut Drawn, most: u64) -> Vec<Event> {
    let has_levels = drawn.one_in(3);
    (0..drawn.below(most)).map(|_| event(drawn, has_levels)).collect()
}

#[test]
fn blocks_are_read_as_they_were_written() {
    let (form, mut drawn) = (form(), Drawn(1));
    for _ in 0..100 {
        let given = drawn_events(&mut drawn, 40);
        let made = batch(&form, &given);
        assert_eq!(events(&made), given);
        let bytes = packing::rows(&made, FIELDS.len());
        assert_eq!(events(&form.read_rows(&bytes, given.len()).unwrap()), given);
        assert!(form.read_rows(&bytes, given.len() + 1).is_none());
        for _ in 0..20 {
            let cut = drawn.below(bytes.len() as u64) as usize;
            assert!(form.read_rows(&bytes[..cut], given.len()).is_none());
            let mut changed = bytes.clone();
            changed[cut] = drawn.next() as u8;
            if let Some(batch) = form.read_rows(&changed, given.len()) {
                assert_eq!(events(&batch).len(), given.len()); // whatever they are, all can be read
            }
        }
        let kept = made.columns.iter().enumerate();
        let kept = kept.map(|(at, column)| Kept::of(&form, at, arrow::Column::Own(column, made.rows), 0..made.rows).unwrap());
        let kept: Vec<_> = kept.collect();
        let (schema, has_levels) = (form.schema(kept.len()), kept.len() == FIELDS.len());
        let stream = Stream::new(schema, made.rows, kept.iter().map(|column| column.shown(0..made.rows)));
        let mut bytes = vec![0; stream.size()];
        stream.write(&mut bytes);
        let mut direct = vec![0; bytes.len()];
        Stream::new(schema, made.rows, made.columns.iter().map(Shown::from)).write(&mut direct);
        assert_eq!(bytes, direct);
        if !given.is_empty() {
            let stream = &bytes[schema.len()..];
            assert_eq!(events(&form.read_columns(stream, given.len(), has_levels).unwrap()), given);
            assert!(form.read_columns(stream, given.len(), !has_levels).is_none());
        }
        let again = form.batch(made.rows, kept.into_iter().map(Kept::made)).unwrap();
        assert_eq!(events(&again), given);
    }
}

#[test]
fn a_time_beyond_all_is_no_time() {
    let (form, mut drawn) = (form(), Drawn(2));
    for (field, is_read) in [(0, true), (2, false), (OWN, false), (OWN + 1, true)] {
        let mut given = vec![event(&mut drawn, false)];
        given[0][field] = Given::Whole(MAX_TS + 1);
        assert_eq!(put(&mut Growing::new(&form), &given[0]).is_some(), is_read);
        given[0][field] = Given::Whole(5);
        let mut made = batch(&form, &given);
        let Values::Integers(values) = &mut made.columns[field].values else { unreachable!() };
        values[0] = MAX_TS + 1;
        assert_eq!(form.read_rows(&packing::rows(&made, FIELDS.len()), 1).is_some(), is_read);
        let schema = form.schema(made.columns.len());
        let stream = Stream::new(schema, 1, made.columns.iter().map(Shown::from));
        let mut bytes = vec![0; stream.size()];
        stream.write(&mut bytes);
        let is_own_time = field == 2;
        if is_own_time || is_read {
            assert_eq!(form.read_columns(&bytes[schema.len()..], 1, false).is_some(), is_read);
        }
    }
}

#[test]
fn what_is_half_added_is_forgotten() {
    let (form, mut drawn) = (form(), Drawn(3));
    for _ in 0..200 {
        let given = drawn_events(&mut drawn, 10);
        let mut growing = Growing::new(&form);
        given.iter().for_each(|event| assert!(put(&mut growing, event).is_some()));
        let (rows, names) = growing.size();
        for _ in 0..drawn.below(3) {
            put(&mut growing, &event(&mut drawn, true));
        }
        let mut bad = event(&mut drawn, false);
        let field = drawn.below(FIELDS.len() as u64) as usize;
        bad[field] = match FIELDS[field].1 {
            Kind::Text => Given::Whole(1),
            _ => Given::Text("x".repeat(300)),
        };
        assert!(put(&mut growing, &bad).is_none());
        bad[field] = Given::Missing;
        assert_eq!(put(&mut growing, &bad).is_some(), FIELDS[field].2);
        growing.truncate(rows, names);
        assert_eq!(growing.size(), (rows, names));
        assert_eq!(events(&growing.batch(&form).unwrap()), given);
    }
    let mut long = event(&mut drawn, false);
    long[OWN + 2] = Given::Text("s".repeat(257));
    assert!(put(&mut Growing::new(&form), &long).is_none());
}

#[test]
fn tables_are_events_whatever_the_order_of_their_columns() {
    let (form, mut drawn) = (form(), Drawn(4));
    for _ in 0..100 {
        let given: Vec<Event> = (0..drawn.below(9)).map(|_| event(&mut drawn, false)).collect();
        let made = batch(&form, &given);
        let mut columns: Vec<_> =
            made.columns.iter().map(|column| Ok::<_, ()>(arrow::Column::Own(column, made.rows))).collect();
        for at in 0..columns.len() {
            columns.swap(at, drawn.below(FIELDS.len() as u64 - 1) as usize);
        }
        let rows = Rows::of(columns.iter().copied(), &form, false).unwrap().unwrap();
        let mut growing = Growing::new(&form);
        assert!(growing.put_rows(&rows, "nobody", &mut 7).is_some());
        assert_eq!(events(&growing.batch(&form).unwrap()), given);
        let without = |name: &'static [u8]| {
            let others = columns.iter().copied().filter(move |column| column.unwrap().name() != name);
            Rows::of(others, &form, false).unwrap()
        };
        assert!(without(b"number").is_none() && without(b"id").is_none());
        let twice = columns.iter().chain(&columns[..1]).copied();
        assert!(Rows::of(twice, &form, false).unwrap().is_none());
        assert!(Rows::of(columns.iter().copied(), &form, true).unwrap().is_none(), "there is no order of arrival");
        assert!(Rows::of(columns.iter().copied().chain([Err(())]), &form, false).is_err());
        let rows = without(b"source").unwrap();
        let mut growing = Growing::new(&form);
        assert!(growing.put_rows(&rows, "me", &mut 7).is_some());
        let found = events(&growing.batch(&form).unwrap());
        assert!(found.iter().all(|event| event[OWN + 2] == Given::Text("me".to_owned())));
    }
}

/// The total order of events.
fn order(event: &Event) -> (i64, i64, String, i64) {
    let whole = |at: usize| event[at].whole().unwrap();
    (whole(OWN), whole(OWN + 3), event[OWN + 2].text().unwrap().to_owned(), whole(OWN + 1))
}

#[test]
fn batches_wait_in_total_order() {
    let form = form();
    for seed in 0..60 {
        let mut drawn = Drawn(seed);
        let (mut waiting, mut plain) = (WaitingBatches::default(), Vec::<Event>::new());
        for _ in 0..30 {
            match drawn.below(4) {
                0 | 1 => {
                    let (given, above) = (drawn_events(&mut drawn, 30), drawn.below(30) as i64);
                    let early = |event: &&Event| order(event).0 > above;
                    let refused = given.len() - given.iter().filter(early).count();
                    assert_eq!(waiting.put(&form, &Arc::new(batch(&form, &given)), above), refused);
                    plain.extend(given.iter().filter(early).cloned());
                    plain.sort_by_key(order); // is stable: of one identity, what came first comes first
                }
                2 => {
                    let until = drawn.below(45) as i64;
                    let count = plain.iter().take_while(|event| order(event).0 <= until).count();
                    let found = waiting.release(&form, until).unwrap();
                    let expected: Vec<Event> = plain.drain(..count).collect();
                    assert_eq!(found.map_or_else(Vec::new, |batch| events(&batch)), expected, "seed {seed}");
                }
                _ => {
                    let ids: Vec<i64> = (0..drawn.below(3)).map(|_| drawn.below(8) as i64).collect();
                    let is_picked = |event: &Event| ids.contains(&event[OWN + 1].whole().unwrap());
                    let (mut expected, rest): (Vec<Event>, Vec<Event>) = plain.into_iter().partition(is_picked);
                    plain = rest;
                    let mut found = waiting.pick(&form, ids).unwrap().map_or_else(Vec::new, |batch| events(&batch));
                    let spelled = |event: &Event| format!("{event:?}"); // picked ones have no order among batches
                    expected.sort_by_key(spelled);
                    found.sort_by_key(spelled);
                    assert_eq!(found, expected, "seed {seed}");
                }
            }
            assert_eq!(waiting.len(), plain.len());
            let first = waiting.first(&form).unwrap().map(|batch| order(&events(&batch)[0]));
            assert_eq!(first, plain.first().map(order));
        }
    }
}

#[test]
fn joined_batches_hold_all_events() {
    let (form, mut drawn) = (form(), Drawn(5));
    for _ in 0..100 {
        let given: Vec<Vec<Event>> = (0..=drawn.below(4)).map(|_| drawn_events(&mut drawn, 12)).collect();
        let batches: Vec<_> = given.iter().map(|events| Arc::new(batch(&form, events))).collect();
        if given.iter().any(|events| !events.is_empty()) {
            let found = joined(&form, &batches.iter().collect::<Vec<_>>()).unwrap();
            assert_eq!(events(&found), given.concat());
        }
    }
}

#[test]
fn what_came_at_once_comes_when_the_others_have_got_as_far() {
    let mut drawn = Drawn(6);
    for _ in 0..200 {
        let times: Vec<i64> = (0..drawn.below(20)).map(|_| drawn.below(30) as i64).collect();
        let from = drawn.below(times.len() as u64 + 1) as usize;
        let far = drawn.one_in(2);
        let mut placed: Vec<(i64, u32)> =
            (0..from).map(|at| (if far { drawn.next() as i64 >> 1 } else { at as i64 }, at as u32)).collect();
        if from > 1 {
            placed.swap(0, from - 1);
        }
        let run: Vec<u32> = (from as u32..times.len() as u32).collect();
        let runs = if run.is_empty() { vec![] } else { vec![run] };
        let found = in_arrival(placed.clone(), runs.clone(), &times);
        placed.sort_by_key(|(place, _)| *place);
        let mut reached = Vec::new();
        for run in [placed.iter().map(|(_, at)| *at).collect(), runs.concat()] {
            let mut newest = i64::MIN;
            for at in run {
                newest = newest.max(times[at as usize]);
                reached.push((newest, at));
            }
        }
        reached.sort_by_key(|(reached, _)| *reached);
        let expected: Vec<u32> = match (from, runs.len()) {
            (0, 1) => runs.concat(),
            (_, 0) => placed.iter().map(|(_, at)| *at).collect(),
            _ => reached.into_iter().map(|(_, at)| at).collect(),
        };
        assert_eq!(found, expected);
    }
}
