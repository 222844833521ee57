//! The stamps of a block as tables have them.

use std::sync::Arc;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::block::batch::{Batch, Column, Texts, Values};
use crate::block::python::blocks::Block;
use crate::block::python::export::{Capsules, capsules};

/// Columns for Arrow.
#[pyclass(module = "middleware.native", frozen)]
pub struct Spelled(Arc<Batch>);

#[pymethods]
impl Spelled {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(&self, py: Python<'py>, requested_schema: Option<&Bound<'_, PyAny>>) -> PyResult<Capsules<'py>> {
        let _ = requested_schema; // it may be ignored
        capsules(py, &self.0)
    }
}

/// The sources of a block as texts, and its levels, even if all are 0. O(rows).
#[pyfunction]
pub fn spelled_out(block: &Block) -> PyResult<Spelled> {
    let (form, rows) = (block.form(), block.batch().rows);
    let mut texts = Texts::new();
    if let Some((codes, names)) = block.codes() {
        let spelled = codes.iter().try_for_each(|code| texts.push(names.get(*code as usize)));
        spelled.ok_or_else(|| PyOverflowError::new_err("names of sources too long for a column"))?;
    }
    let levels = block.stamps(3).map_or_else(|| vec![0; rows], <[i64]>::to_vec);
    let given = form.fields[form.own() + 2..].iter().zip([Values::Texts(texts), Values::Integers(levels)]);
    let columns = given.map(|((name, ..), values)| Column { name: name.clone(), is_nullable: false, there: None, values });
    Ok(Spelled(Arc::new(Batch { rows, columns: columns.collect() })))
}
