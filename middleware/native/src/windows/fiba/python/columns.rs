//! Columns of numbers from and to Python: whatever has a buffer or turns into a numpy array, and sequences.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::errors::window_error;

/// Numbers that arrays hold.
pub trait Number: Element + Copy + Send + Sync + for<'a, 'py> FromPyObject<'a, 'py> {
    /// numpy's name for it.
    const NAME: &'static str;
    /// `array.array`'s name for it.
    const CODE: &'static str;
}

impl Number for i64 {
    const NAME: &'static str = "int64";
    const CODE: &'static str = "q";
}

impl Number for f64 {
    const NAME: &'static str = "float64";
    const CODE: &'static str = "d";
}

/// The numbers of a column, which may be an array, an Arrow array without nulls, or any iterable. O(n), no object a number.
pub fn numbers<T: Number>(column: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    if let Ok(buffer) = PyBuffer::<T>::get(column) {
        return buffer.to_vec(column.py());
    }
    if let Ok(nulls) = column.getattr("null_count")
        && nulls.is_truthy()?
    {
        return Err(window_error("the column has nulls: leave those rows out".into()));
    }
    if let Ok(convert) = column.getattr("__array__")
        && column.cast::<PyList>().is_err()
    {
        let mut array = convert.call0()?;
        if array.getattr("dtype")?.getattr("kind")?.extract::<String>()? == "M" {
            array = array.call_method1("astype", ("datetime64[ns]",))?.call_method1("view", ("int64",))?;
        }
        let array = array.call_method1("astype", (T::NAME, "C", "same_kind"))?;
        return PyBuffer::<T>::get(&array)?.to_vec(column.py());
    }
    column.try_iter()?.map(|item| item?.extract::<T>().map_err(Into::into)).collect()
}

/// An array for Python: numpy's if it is there.
pub fn array<'py, T: Number>(py: Python<'py>, numbers: &[T]) -> PyResult<Bound<'py, PyAny>> {
    let array = match py.import("numpy") {
        Ok(numpy) => numpy.call_method1("empty", (numbers.len(), T::NAME))?,
        Err(_) => {
            let zeros = py.import("array")?.call_method1("array", (T::CODE, (0,)))?;
            zeros.mul(numbers.len())?
        }
    };
    if !numbers.is_empty() {
        PyBuffer::<T>::get(&array)?.copy_from_slice(py, numbers)?;
    }
    Ok(array)
}
