//! Reading gives what was written; changed or cut bytes are read safely, or refused.

use super::cursor::Cursor;
use super::ipc::{self, Form};
use super::msgpack;
use super::packing::{self, Kind, Shown, Stream};
use crate::block::batch::{Batch, Column, Texts, Values, bits, is_set};
use crate::drawing::Drawn;

const KINDS: [(Kind, Form); 5] = [
    (Kind::Integers, Form::Integers),
    (Kind::Floats, Form::Floats),
    (Kind::Flags, Form::Flags),
    (Kind::Texts, Form::Texts),
    (Kind::Coded, Form::Coded),
];

fn texts(drawn: &mut Drawn, count: usize) -> Texts {
    let mut texts = Texts::new();
    for _ in 0..count {
        let length = [0, 3, 31, 32, 300][drawn.below(5) as usize];
        texts.push("é".repeat(length).as_bytes()).unwrap();
    }
    texts
}

fn values(drawn: &mut Drawn, kind: Kind, rows: usize) -> Values {
    match kind {
        Kind::Integers => Values::Integers((0..rows).map(|_| drawn.next() as i64 >> drawn.below(64)).collect()),
        Kind::Floats => Values::Floats((0..rows).map(|_| drawn.below(1 << 60) as f64 / 7.0).collect()),
        Kind::Flags => Values::Flags(bits(&(0..rows).map(|_| drawn.below(2) as u8).collect::<Vec<_>>())),
        Kind::Texts => Values::Texts(texts(drawn, rows)),
        Kind::Coded => {
            let count = 1 + drawn.below(4) as usize;
            let names = texts(drawn, count);
            Values::Coded((0..rows).map(|_| drawn.below(names.len() as u64) as i32).collect(), names)
        }
    }
}

/// Whole numbers, as every block has them, and columns of all kinds, one of texts by number at most; some values are not there.
fn batch(drawn: &mut Drawn, rows: usize) -> (Batch, Vec<(Kind, Form)>) {
    let coded = if drawn.one_in(2) { 4..5 } else { 4..4 };
    let kinds: Vec<_> =
        (0..drawn.below(6)).map(|_| drawn.below(4) as usize).chain([0]).chain(coded).map(|at| KINDS[at]).collect();
    let columns = kinds.iter().enumerate().map(|(at, (kind, _))| {
        let there: Vec<u8> = (0..rows).map(|_| u8::from(!drawn.one_in(3))).collect();
        let missing = there.iter().filter(|is_there| **is_there == 0).count();
        let is_nullable = *kind != Kind::Coded && drawn.one_in(2);
        Column {
            name: std::sync::Arc::new(std::ffi::CString::new(format!("column {at}")).unwrap()),
            is_nullable,
            there: (is_nullable && missing > 0).then(|| (bits(&there), missing)),
            values: values(drawn, *kind, rows),
        }
    });
    let columns = columns.collect();
    (Batch { rows, columns }, kinds)
}

fn spelled(values: &Values, row: usize) -> String {
    match values {
        Values::Integers(values) => values[row].to_string(),
        Values::Floats(values) => values[row].to_bits().to_string(),
        Values::Flags(bits) => is_set(bits, row).to_string(),
        Values::Texts(texts) => String::from_utf8(texts.get(row).to_vec()).unwrap(),
        Values::Coded(codes, names) => String::from_utf8(names.get(codes[row] as usize).to_vec()).unwrap(),
    }
}

fn written(batch: &Batch, kinds: &[(Kind, Form)]) -> (Vec<u8>, usize) {
    let named = batch.columns.iter().zip(kinds);
    let schema = packing::schema(named.map(|(column, (kind, _))| (column.name.as_c_str(), *kind, column.is_nullable)));
    let stream = Stream::new(&schema, batch.rows, batch.columns.iter().map(Shown::from));
    let mut bytes = vec![0; stream.size()];
    stream.write(&mut bytes);
    assert_eq!(ipc::schema_of(&bytes), Some(&schema[..]));
    (bytes, schema.len())
}

#[test]
fn a_stream_of_columns_is_read_as_it_was_written() {
    let mut drawn = Drawn(3);
    for _ in 0..300 {
        let rows = 1 + drawn.below(70) as usize;
        let (batch, kinds) = batch(&mut drawn, rows);
        let (bytes, schema) = written(&batch, &kinds);
        let forms = || kinds.iter().zip(&batch.columns).map(|((_, form), column)| (*form, column.is_nullable));
        let found = ipc::columns(&bytes[schema..], rows, forms()).unwrap();
        assert_eq!(found.len(), batch.columns.len());
        for ((values, there), column) in found.iter().zip(&batch.columns) {
            assert_eq!(there, &column.there);
            assert!((0..rows).all(|row| spelled(values, row) == spelled(&column.values, row)));
        }
        assert!(ipc::columns(&bytes[schema..], rows + 1, forms()).is_none());
        let is_whole = batch.columns.iter().all(|column| column.there.is_none());
        let none_missing = forms().map(|(form, _)| (form, false));
        assert_eq!(ipc::columns(&bytes[schema..], rows, none_missing).is_some(), is_whole);
        for _ in 0..30 {
            let cut = schema + drawn.below((bytes.len() - schema) as u64) as usize;
            let _ = ipc::columns(&bytes[schema..cut], rows, forms());
            let mut changed = bytes.clone();
            changed[cut] = drawn.next() as u8;
            for (values, _) in ipc::columns(&changed[schema..], rows, forms()).into_iter().flatten() {
                (0..rows).for_each(|row| drop(spelled(&values, row))); // whatever they are, all can be read
            }
        }
    }
}

#[test]
fn rows_hold_what_columns_hold() {
    let mut drawn = Drawn(4);
    for _ in 0..200 {
        let rows = [0, 1, 15, 16, 40][drawn.below(5) as usize];
        let (batch, _) = batch(&mut drawn, rows);
        let bytes = packing::rows(&batch, batch.columns.len() + 2);
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.array(), Some(rows));
        for row in 0..rows {
            assert_eq!(cursor.array(), Some(batch.columns.len() + 2));
            for column in &batch.columns {
                if column.there.as_ref().is_some_and(|(bits, _)| !is_set(bits, row)) {
                    assert!(cursor.none());
                    continue;
                }
                let found = match &column.values {
                    Values::Integers(_) => cursor.integer().unwrap().to_string(),
                    Values::Floats(_) => cursor.float().unwrap().to_bits().to_string(),
                    Values::Flags(_) => cursor.flag().unwrap().to_string(),
                    Values::Texts(_) | Values::Coded(..) => cursor.text().unwrap().to_owned(),
                };
                assert_eq!(found, spelled(&column.values, row));
            }
            assert_eq!((cursor.integer(), cursor.integer()), (Some(0), Some(0)));
        }
        assert!(cursor.is_empty());
        let mut cursor = Cursor::new(&bytes);
        assert!(cursor.skip(1).is_some() && cursor.is_empty(), "one value, however it is nested");
        for cut in 0..bytes.len().min(50) {
            assert!(Cursor::new(&bytes[..cut]).skip(1).is_none());
        }
    }
}

#[test]
fn whole_numbers_take_as_few_bytes_as_they_can() {
    let mut drawn = Drawn(5);
    let edges = (0..64).flat_map(|bit| [-1, 0, 1].map(|by| (1_i64 << bit).wrapping_add(by)));
    let drawn = (0..2_000).map(|_| drawn.next() as i64 >> drawn.below(64)).collect::<Vec<_>>();
    for number in edges.chain(drawn).flat_map(|number| [number, number.wrapping_neg()]) {
        let mut bytes = [0; 9];
        let size = msgpack::encode(number, &mut bytes);
        let mut cursor = Cursor::new(&bytes[..size]);
        assert_eq!(cursor.integer(), Some(number));
        assert!(cursor.is_empty());
        let least = match number {
            -32..128 => 1,
            -128..256 => 2,
            -0x8000..0x1_0000 => 3,
            -0x8000_0000..0x1_0000_0000 => 5,
            _ => 9,
        };
        assert_eq!(size, least, "{number}");
    }
}
