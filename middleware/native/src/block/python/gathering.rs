//! `middleware.native.Gathering`: events of several types, one after another, as columns of each.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::block::python::blocks::BlockReader;
use crate::block::python::growing::{GrowingEvents, Part};
use crate::block::python::import::Batch;
use crate::block::tables::Rows;

/// Most events at once.
const MOST: usize = 1 << 14;

/// Most bytes of values at once: small beside the credit of a link.
const MOST_BYTES: usize = 512 << 10;

#[pyclass(module = "middleware.native")]
pub struct Gathering {
    types: Vec<GrowingEvents>,
    count: usize,
    bytes: usize,
}

#[pymethods]
impl Gathering {
    #[new]
    fn new() -> Self {
        Self { types: Vec::new(), count: 0, bytes: 0 }
    }

    /// Take events of the type of this reader from now on.
    fn include(&mut self, py: Python<'_>, reader: Py<BlockReader>) {
        self.types.push(GrowingEvents::new(reader.get().form().clone(), reader.clone_ref(py)));
    }

    /// How many events there are.
    fn __len__(&self) -> usize {
        self.count
    }

    /// How many bytes their values take, about.
    #[getter]
    fn size(&self) -> usize {
        self.bytes
    }

    /// Add events, in this order; false, and none is added, if one of them has a value that does not go into its column as it
    /// is, is of a type that is not included, or derived, or if they would be too many. O(values).
    fn add(&mut self, events: &Bound<'_, PyList>) -> bool {
        events.len() <= MOST - self.count && self.all_or_none(|held| events.iter().try_for_each(|event| held.put(&event)))
    }

    /// Add the rows of tables, each of the type of its reader and with its columns, in any order; the last number given to an
    /// event, plus 1. None, and none is added, if a table has not just the columns of the type, of its own types, or as above.
    /// O(values).
    ///
    /// `source`: whose events they are where there is no column of sources; with no ids either, they are numbered from
    /// `number` on. `by_arrival`: in the order of a column `arrival`.
    fn add_tables(
        &mut self,
        py: Python<'_>,
        tables: Vec<(Bound<'_, BlockReader>, Bound<'_, PyAny>)>,
        source: &str,
        mut number: i64,
        by_arrival: bool,
    ) -> PyResult<Option<i64>> {
        let batches: Vec<_> = tables.iter().map(|(_, table)| Batch::of(table)).collect::<PyResult<_>>()?;
        let mut all = Vec::with_capacity(tables.len());
        for ((reader, _), batch) in tables.iter().zip(&batches) {
            let form = reader.get().form();
            let Some(part) = self.types.iter().position(|part| Arc::ptr_eq(&part.form, form)) else { return Ok(None) };
            let columns = (0..batch.columns(py)?).map(|at| batch.column(py, at));
            let Some(rows) = Rows::of(columns, form, by_arrival)? else { return Ok(None) };
            all.push((part, rows));
        }
        let count: usize = all.iter().map(|(_, rows)| rows.times.len()).sum();
        let least: usize = all.iter().map(|(_, rows)| rows.times.len() * (rows.own.len() + 3) * 8).sum();
        let is_added = count <= MOST - self.count
            && least <= MOST_BYTES - self.bytes
            && self.all_or_none(|held| held.put_rows(&all, source, &mut number));
        Ok(is_added.then_some(number))
    }

    /// All events, by type, in the order in which those came first; none are left.
    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Part<'py>>> {
        (self.count, self.bytes) = (0, 0);
        let mut parts: Vec<_> = self.types.iter_mut().filter(|part| !part.growing.places.is_empty()).collect();
        parts.sort_by_key(|part| part.growing.places[0]);
        parts.into_iter().map(|part| part.take(py)).collect()
    }
}

impl Gathering {
    /// Whether all was added; if not, or if it is too much, nothing was.
    fn all_or_none(&mut self, add: impl FnOnce(&mut Self) -> Option<()>) -> bool {
        let (count, bytes) = (self.count, self.bytes);
        let rows: Vec<_> = self.types.iter().map(|part| part.growing.size()).collect();
        if add(self).is_some() && self.bytes <= MOST_BYTES {
            return true;
        }
        self.types.iter_mut().zip(rows).for_each(|(part, (rows, names))| part.truncate(rows, names));
        (self.count, self.bytes) = (count, bytes);
        false
    }

    /// Rows of tables, each with the place of its type.
    fn put_rows(&mut self, tables: &[(usize, Rows<'_>)], source: &str, number: &mut i64) -> Option<()> {
        for (part, rows) in tables {
            self.bytes += self.types[*part].growing.put_rows(rows, source, number)?;
        }
        let mut order: Vec<(i64, usize)> = Vec::new();
        for (part, rows) in tables {
            let count = rows.times.len();
            if rows.arrivals.is_empty() {
                order.resize(order.len() + count, (0, *part));
            } else {
                order.extend(rows.arrivals.iter().map(|arrival| (*arrival, *part)));
            }
        }
        if tables.len() > 1 {
            order.sort_by_key(|(arrival, _)| *arrival);
        }
        for (_, part) in order {
            self.types[part].growing.places.push(u16::try_from(self.count).ok()?);
            self.count += 1;
        }
        Some(())
    }

    #[inline]
    fn put(&mut self, event: &Bound<'_, PyAny>) -> Option<()> {
        let kind = event.get_type_ptr();
        let part = self.types.iter_mut().find(|part| part.form.maker.of().as_ptr() == kind.cast())?;
        self.bytes += part.put(event)?;
        if !part.growing.is_raw() {
            return None;
        }
        part.growing.places.push(u16::try_from(self.count).ok()?);
        self.count += 1;
        Some(())
    }
}
