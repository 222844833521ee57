//! Windows against all that was ever put into them, which is folded anew for each result.

use std::collections::BTreeMap;

use super::aggregate::{Value, What};
use super::correcting::WindowResult;
use super::plan::Plan;
use super::windows::Windows;
use crate::drawing::Drawn;

/// The values of results, by lane and window.
type Found = BTreeMap<(usize, i64, i64), Vec<String>>;

const WHOLES: [What; 6] = [What::Count, What::Sum, What::Mean, What::Min, What::Max, What::Range];
const FLOATS: [What; 6] = [What::Total, What::Mean, What::Min, What::Max, What::Variance(0, false), What::Median];

/// One column of whole numbers, and one of floats that every sum of them has exactly.
fn plan(drawn: &mut Drawn) -> Plan {
    let every = 1 + drawn.below(7) as i64;
    let mut sizes: Vec<i64> = (0..1 + drawn.below(2)).map(|_| 1 + drawn.below(20) as i64).collect();
    sizes.dedup();
    let wholes = WHOLES.map(|what| (what, (what != What::Count).then_some(0)));
    Plan {
        longest: sizes.iter().copied().max().unwrap(),
        sizes,
        every,
        offset: drawn.below(5) as i64,
        floats: vec![false, true],
        aggregates: wholes.into_iter().chain(FLOATS.map(|what| (what, Some(1)))).collect(),
    }
}

fn row(drawn: &mut Drawn, ts: i64) -> Vec<u64> {
    let (whole, half) = (drawn.below(9) as i64 - 4, drawn.below(9) as f64 / 2.0 - 2.0);
    let there = drawn.below(4);
    let (whole, half) = (whole.cast_unsigned(), half.to_bits());
    vec![ts.cast_unsigned(), there, if there & 1 != 0 { whole } else { 0 }, if there & 2 != 0 { half } else { 0 }]
}

fn spelled(values: impl Iterator<Item = Value>) -> Vec<String> {
    let spelled = |value| match value {
        Value::Nothing => "nothing".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{:.9}", number + 0.0),
    };
    values.map(spelled).collect()
}

/// An aggregate of some numbers, from its definition.
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn asked(what: What, is_float: bool, rows: usize, mut numbers: Vec<f64>) -> Value {
    let (count, sum) = (numbers.len() as f64, numbers.iter().sum::<f64>());
    numbers.sort_by(f64::total_cmp);
    let number = |value: f64| if is_float { Value::Float(value) } else { Value::Int(value as i128) };
    let (Some(least), Some(most)) = (numbers.first(), numbers.last()) else {
        return match what {
            What::Count => Value::Int(rows as i128),
            What::Sum => number(0.0),
            _ => Value::Nothing,
        };
    };
    match what {
        What::Count => Value::Int(rows as i128),
        What::Sum | What::Total => number(sum),
        What::Mean => Value::Float(sum / count),
        What::Min => number(*least),
        What::Max => number(*most),
        What::Range => number(most - least),
        What::Variance(..) => Value::Float(numbers.iter().map(|each| (each - sum / count).powi(2)).sum::<f64>() / count),
        What::Median => Value::Float((numbers[(numbers.len() - 1) / 2] + numbers[numbers.len() / 2]) / 2.0),
    }
}

/// Every result of what the lanes hold, of windows that end until `upto`.
fn expected(plan: &Plan, held: &[(usize, Vec<u64>)], upto: i64) -> Found {
    let mut rows = BTreeMap::<(usize, i64, i64), Vec<&[u64]>>::new();
    for (lane, row) in held {
        let ts = row[0].cast_signed();
        for size in &plan.sizes {
            let mut end = plan.end(ts);
            while end < ts + size && end <= upto {
                rows.entry((*lane, end - size, end)).or_default().push(row);
                end += plan.every;
            }
        }
    }
    let values = |rows: &[&[u64]]| {
        plan.aggregates
            .iter()
            .map(|&(what, column)| {
                let (column, is_float) = (column.unwrap_or_default(), plan.is_float(column));
                #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
                let number = |bits: u64| if is_float { f64::from_bits(bits) } else { bits.cast_signed() as f64 };
                let numbers = rows.iter().filter(|row| row[1] >> column & 1 != 0).map(|row| number(row[2 + column])).collect();
                asked(what, is_float, rows.len(), numbers)
            })
            .collect::<Vec<_>>()
    };
    rows.into_iter().map(|(window, rows)| (window, spelled(values(&rows).into_iter()))).collect()
}

fn key((lane, (start, end), _): &WindowResult) -> (usize, i64, i64) {
    (*lane, *start, *end)
}

/// Rows come late and early and are withdrawn, while time passes; `anew`: now and then the state is moved elsewhere.
fn run(seed: u64, anew: bool) {
    let mut drawn = Drawn(seed);
    let mut windows = Windows::new(plan(&mut drawn), false);
    let (mut held, mut found, mut upto) = (Vec::<(usize, Vec<u64>)>::new(), Found::new(), 0);
    for _ in 0..4 {
        windows.open();
    }
    for step in 0..40 {
        let mut late = Vec::new();
        for _ in 0..drawn.below(4) {
            if held.is_empty() {
                break;
            }
            let (lane, row) = held.swap_remove(drawn.below(held.len() as u64) as usize);
            windows.take_back(lane, row[0].cast_signed(), &row, &mut late);
        }
        for _ in 0..drawn.below(8) {
            let (lane, ts) = (drawn.below(4) as usize, 1 + drawn.below(60) as i64);
            let row = row(&mut drawn, ts);
            windows.put(lane, ts, &row, &mut late);
            held.push((lane, row));
        }
        if drawn.one_in(3) {
            upto += drawn.below(15) as i64;
        }
        windows.close(&late);
        let corrected = windows.publish(late, upto);
        for result in corrected.gone.iter().chain(&corrected.old) {
            assert_eq!(found.remove(&key(result)), Some(spelled(result.2.iter().copied())), "seed {seed}, step {step}");
        }
        for result in &corrected.new {
            found.insert(key(result), spelled(result.2.iter().copied()));
        }
        for place in 0..windows.results.len() {
            let (lane, (start, end), values) = windows.results.get(place);
            assert!(found.insert((lane, start, end), spelled(values)).is_none(), "seed {seed}, step {step}: published twice");
        }
        assert_eq!(found, expected(&windows.plan, &held, upto), "seed {seed}, step {step}");
        assert_eq!(windows.held, held.len());
        if anew && drawn.one_in(8) {
            windows = moved(windows);
        }
    }
}

/// Others with the same content.
fn moved(from: Windows) -> Windows {
    let width = from.plan.width();
    let contents: Vec<Vec<u64>> = from.lanes.iter().map(|lane| lane.content(width).to_vec()).collect();
    let mut to = Windows::new(from.plan, false);
    to.restart(from.upto, from.swept);
    for rows in contents {
        let lane = to.open();
        to.refill(lane, rows);
    }
    to
}

#[test]
fn results_equal_a_plain_fold() {
    for seed in 0..15 {
        run(seed, false);
        run(seed, true);
    }
}

#[test]
fn lanes_without_rows_are_given_to_other_keys() {
    let plan =
        Plan { sizes: vec![10], longest: 10, every: 10, offset: 0, floats: vec![], aggregates: vec![(What::Count, None)] };
    let mut windows = Windows::new(plan, false);
    for ts in [5, 25] {
        let (next, mut late) = (windows.next_lane(), Vec::new());
        assert_eq!((next, windows.open()), (0, 0));
        windows.put(0, ts, &[ts.cast_unsigned(), 0], &mut late);
        windows.close(&late);
        windows.publish(late, ts + 15);
        assert_eq!(windows.results.len(), 1);
        let mut forgotten = Vec::new();
        let mut forget = |lane| {
            forgotten.push(lane);
            Ok::<_, ()>(())
        };
        windows.purge(ts + 15, &mut forget).unwrap();
        assert_eq!((forgotten, windows.held), (vec![0], 0));
    }
}
