//! Keys of partitions. Whole numbers are looked up here; any other key as Python sees it, in a dict.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyTuple};

use crate::event::python::wholes::whole;
use crate::hashing::Scattered;
use crate::sequence::partitions::Partitions;

/// The key of an event.
pub enum Key<'py> {
    /// There are no keys: one partition for all.
    Only,
    Whole(i64),
    Object(Bound<'py, PyAny>),
}

impl<'py> Key<'py> {
    /// The key that values make; None if there is none, as NULL and NaN equal nothing.
    ///
    /// `lenient`: NULL and NaN are a key too, that of what matches alone.
    pub fn of(
        py: Python<'py>,
        mut values: impl ExactSizeIterator<Item = PyResult<Bound<'py, PyAny>>>,
        lenient: bool,
    ) -> PyResult<Option<Self>> {
        match (values.len(), values.next()) {
            (1, Some(value)) => {
                let value = value?;
                if let Ok(number) = value.cast_exact::<PyInt>()
                    && let Ok(number) = number.extract()
                {
                    return Ok(Some(Self::Whole(number)));
                }
                Ok(Self::plain(value, lenient)?.map(|value| whole(&value).map_or(Self::Object(value), Self::Whole)))
            }
            (_, None) => Ok(Some(Self::Only)),
            (_, Some(first)) => {
                let plain = |value: PyResult<_>| Self::plain(value?, lenient);
                let Some(parts) = std::iter::once(first).chain(values).map(plain).collect::<PyResult<Option<Vec<_>>>>()? else {
                    return Ok(None);
                };
                Ok(Some(Self::Object(PyTuple::new(py, parts)?.into_any())))
            }
        }
    }

    /// The value, if it equals itself; NULL in its stead if that is let pass.
    fn plain(value: Bound<'py, PyAny>, lenient: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !value.is_none() && value.eq(&value)? && !is_nan(&value) {
            return Ok(Some(value));
        }
        Ok(lenient.then(|| value.py().None().into_bound(value.py())))
    }
}

fn is_nan(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyFloat>().is_ok_and(|number| number.value().is_nan())
}

/// How a partition is found, to forget it again.
enum Found {
    Only,
    Whole(i64),
    Object(Py<PyAny>),
}

/// The numbers of partitions by key.
pub struct Keys {
    /// By number.
    found: Vec<Found>,
    only: Option<usize>,
    whole: Scattered<i64, usize>,
    objects: Py<PyDict>,
}

impl Keys {
    pub fn new(py: Python<'_>) -> Self {
        Self { found: Vec::new(), only: None, whole: Scattered::default(), objects: PyDict::new(py).unbind() }
    }

    /// The number of the partition of a key, if there is one. Raises TypeError for a key that cannot be hashed.
    #[inline]
    pub fn find(&self, key: &Key<'_>) -> PyResult<Option<usize>> {
        match key {
            Key::Only => Ok(self.only),
            Key::Whole(number) => Ok(self.whole.get(number).copied()),
            Key::Object(object) => self.objects.bind(object.py()).get_item(object)?.map(|at| at.extract()).transpose(),
        }
    }

    /// The number of the partition of a key, made if it is not there.
    #[inline]
    pub fn find_or_make<P>(
        &mut self,
        key: Key<'_>,
        partitions: &mut Partitions<P>,
        make: impl FnOnce() -> P,
    ) -> PyResult<usize> {
        match self.find(&key)? {
            Some(at) => Ok(at),
            None => {
                self.add(key, partitions.next())?;
                Ok(partitions.open(make))
            }
        }
    }

    fn add(&mut self, key: Key<'_>, at: usize) -> PyResult<()> {
        let found = match key {
            Key::Only => {
                self.only = Some(at);
                Found::Only
            }
            Key::Whole(number) => {
                self.whole.insert(number, at);
                Found::Whole(number)
            }
            Key::Object(object) => {
                self.objects.bind(object.py()).set_item(&object, at)?;
                Found::Object(object.unbind())
            }
        };
        if at < self.found.len() {
            self.found[at] = found;
        } else {
            self.found.push(found);
        }
        Ok(())
    }

    /// Forget the key of a partition that holds nothing.
    pub fn forget(&mut self, py: Python<'_>, at: usize) -> PyResult<()> {
        match &self.found[at] {
            Found::Only => self.only = None,
            Found::Whole(number) => drop(self.whole.remove(number)),
            Found::Object(object) => self.objects.bind(py).del_item(object)?,
        }
        Ok(())
    }
}
