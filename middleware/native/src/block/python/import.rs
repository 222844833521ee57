//! Record batches of Arrow, taken from Python through the C data interface. The counterpart of `export`.
#![expect(unsafe_code, reason = "the C data interface is pointers, which capsules own")]

use pyo3::exceptions::PyValueError;
use pyo3::ffi::PyCapsule_GetPointer;
use pyo3::intern;
use pyo3::prelude::*;

use crate::block::arrow::{Array, Column, Foreign, Schema};

/// A record batch. The capsules own what it reads.
pub struct Batch {
    schema: Py<PyAny>,
    array: Py<PyAny>,
}

impl Batch {
    /// From whatever has `__arrow_c_array__`, and is sound.
    pub fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = given.py();
        let (schema, array) = given.call_method0(intern!(py, "__arrow_c_array__"))?.extract()?;
        let batch = Self { schema, array };
        let (_, whole) = batch.roots(py)?;
        if whole.offset != 0 {
            return Err(PyValueError::new_err("a record batch begins at its first row"));
        }
        Ok(batch)
    }

    fn roots(&self, py: Python<'_>) -> PyResult<(&Schema, &Array)> {
        // SAFETY: a capsule of that name has a pointer to that struct, which lives as long as the capsule
        unsafe {
            let schema = PyCapsule_GetPointer(self.schema.as_ptr(), c"arrow_schema".as_ptr()).cast::<Schema>();
            let array = PyCapsule_GetPointer(self.array.as_ptr(), c"arrow_array".as_ptr()).cast::<Array>();
            match (schema.as_ref(), array.as_ref()) {
                (Some(schema), Some(array)) => Ok((schema, array)),
                _ => Err(PyErr::take(py).unwrap_or_else(|| PyValueError::new_err("no batch"))),
            }
        }
    }

    pub fn rows(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.roots(py)?.1.length as usize)
    }

    pub fn columns(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.roots(py)?.1.n_children as usize)
    }

    pub fn column(&self, py: Python<'_>, at: usize) -> PyResult<Column<'_>> {
        let (schema, array) = self.roots(py)?;
        if i64::try_from(at)? >= schema.n_children.min(array.n_children) {
            return Err(PyValueError::new_err("the batch has too few columns"));
        }
        // SAFETY: there are so many children, alive as long as their parent
        Ok(Column::Foreign(unsafe { Foreign { schema: &**schema.children.add(at), array: &**array.children.add(at) } }))
    }
}
