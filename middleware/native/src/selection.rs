//! Selection and projection of columns: tests and fields that are programs, in a pass over a record batch.
//!
//! Twin of `detectors.cql.mapped` without the core. Whatever is not decided here as Python would decide it leaves the batch to Python.

use std::cell::OnceCell;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::arrow::{Batch, Cells};
use crate::program::{BLOCK, Input, Made, Program, Sources, Unsuited, bytes};
use crate::search::in_time;

/// A field of a result, or None: it is a column as it is, for Python to take.
struct Field {
    program: Program,
    made: Made,
}

/// Rows chosen, times, ids; values and which are there, field by field.
type Selected<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyList>);

#[pyclass(module = "middleware.native")]
pub struct Selection {
    test: Option<Program>,
    fields: Vec<Option<Field>>,
    /// Where in a batch the columns lie that programs read; and ts, id and source.
    places: Vec<usize>,
    stamps: (usize, usize, usize),
}

#[pymethods]
impl Selection {
    /// `test`, `fields`: expressions as nested tuples, fields with the kind of their values and whether these may be missing.
    #[new]
    fn new(
        test: Option<Bound<'_, PyAny>>,
        fields: Vec<Option<(Bound<'_, PyAny>, String, bool)>>,
        places: Vec<usize>,
        stamps: (usize, usize, usize),
    ) -> PyResult<Self> {
        let field = |field: Option<(Bound<'_, PyAny>, String, bool)>| {
            field
                .map(|(node, kind, may_miss)| Ok(Field { program: Program::parse(&node)?, made: Made::new(&kind, may_miss)? }))
                .transpose()
        };
        let test = test.map(|test| Program::parse(&test)).transpose()?;
        Ok(Self { test, fields: fields.into_iter().map(field).collect::<PyResult<_>>()?, places, stamps })
    }

    /// The results of a batch, in order of time, with the identity id ^ number of the source; None: ask Python.
    fn of<'py>(&self, batch: &Bound<'py, PyAny>, numbers: &Bound<'py, PyAny>) -> PyResult<Option<Selected<'py>>> {
        let py = batch.py();
        let batch = Batch::of(batch)?;
        let (ts, id, source) = self.stamps;
        let (Cells::Integers(times), Cells::Integers(ids)) = (batch.column(ts)?.cells(), batch.column(id)?.cells()) else {
            return Ok(None);
        };
        let Some(sources) = Sources::of(batch.column(source)?, numbers)? else { return Ok(None) };
        let columns = self.places.iter().map(|at| batch.column(*at)).collect::<PyResult<Vec<_>>>()?;
        let inputs: Vec<OnceCell<Input<'_>>> = columns.iter().map(|_| OnceCell::new()).collect();
        let input = |at: usize| inputs[at].get_or_init(|| Input::of(columns[at]));
        let Ok(chosen) = self.chosen(times.len(), &input) else { return Ok(None) };
        let order = in_time(chosen.len(), |place| times[chosen[place] as usize]);
        let chosen: Vec<u32> = order.into_iter().map(|place| chosen[place]).collect();
        let made = PyList::empty(py);
        for field in &self.fields {
            let Some(field) = field else {
                made.append(py.None())?;
                continue;
            };
            let mut column = field.made.column(chosen.len());
            for rows in chosen.chunks(BLOCK) {
                let found = field.program.run(rows.len(), &|_, at| input(at).some(rows));
                let Ok(()) = found.and_then(|found| column.add(&found, rows.len())) else { return Ok(None) };
            }
            made.append(column.give(py)?)?;
        }
        let of = |number: &dyn Fn(usize) -> i64| {
            bytes(py, chosen.len(), chosen.iter().map(|row| number(*row as usize).to_ne_bytes()))
        };
        let rows = of(&|row| row as i64)?;
        Ok(Some((rows, of(&|row| times[row])?, of(&|row| ids[row] ^ sources.get(row))?, made)))
    }
}

impl Selection {
    /// The rows that pass the test.
    fn chosen<'a, 'b: 'a>(&'a self, count: usize, input: &dyn Fn(usize) -> &'a Input<'b>) -> Result<Vec<u32>, Unsuited> {
        let Some(test) = &self.test else { return Ok((0..count as u32).collect()) };
        let (mut chosen, mut some) = (vec![0; count], 0);
        for start in (0..count).step_by(BLOCK) {
            let end = count.min(start + BLOCK);
            let holds = test.holds(end - start, &|_, at| input(at).run(start..end))?;
            for (row, holds) in (start as u32..).zip(holds) {
                chosen[some] = row; // no branch, which would be guessed wrong as often as a row is chosen or not
                some += usize::from(holds);
            }
        }
        chosen.truncate(some);
        Ok(chosen)
    }
}
