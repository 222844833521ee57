//! Partitions by key. Whole numbers are looked up here; any other key as Python sees it, in a dict.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyTuple};

use crate::event::python::wholes::whole;
use crate::hashing::Scattered;

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

/// What is kept of a key.
pub trait Content {
    /// Where what it holds lies, if elsewhere.
    type Room;
    /// Forget what has ts <= `upto`; how much.
    fn purge(&mut self, upto: i64, room: &mut Self::Room) -> usize;
    fn is_empty(&self) -> bool;
    /// Become as new, for another key; room may be kept, if it is little.
    fn clear(&mut self);
}

/// Partitions that are kept for other keys once they are empty: keys come and go.
const SPARE: usize = 1_024;

/// Room for so many entries may be kept.
pub const LITTLE: usize = 16;

pub struct Partitions<P> {
    make: Box<dyn Fn() -> P + Send + Sync>,
    all: Vec<Option<(P, Found)>>,
    free: Vec<usize>,
    spare: Vec<P>,
    only: Option<usize>,
    whole: Scattered<i64, usize>,
    objects: Py<PyDict>,
}

impl<P: Content> Partitions<P> {
    pub fn new(py: Python<'_>, make: impl Fn() -> P + Send + Sync + 'static) -> Self {
        let objects = PyDict::new(py).unbind();
        Self {
            make: Box::new(make),
            all: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            only: None,
            whole: Scattered::default(),
            objects,
        }
    }

    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
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
    pub fn find_or_make(&mut self, key: Key<'_>) -> PyResult<usize> {
        if let Some(at) = self.find(&key)? {
            return Ok(at);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
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
        let partition = self.spare.pop().unwrap_or_else(|| (self.make)());
        self.all[at] = Some((partition, found));
        Ok(at)
    }

    pub fn get(&self, at: usize) -> Option<&P> {
        self.all.get(at)?.as_ref().map(|(partition, _)| partition)
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut P> {
        self.all.get_mut(at)?.as_mut().map(|(partition, _)| partition)
    }

    /// The numbers of all partitions.
    pub fn numbers(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|at| self.all[*at].is_some()).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.all.iter().flatten().map(|(partition, _)| partition)
    }

    /// Forget instances with ts <= `upto`, and partitions that hold nothing; returns how many instances.
    pub fn purge(&mut self, py: Python<'_>, upto: i64, room: &mut P::Room) -> PyResult<usize> {
        let mut count = 0;
        for at in 0..self.all.len() {
            let Some((partition, _)) = &mut self.all[at] else { continue };
            count += partition.purge(upto, room);
            if partition.is_empty()
                && let Some((mut partition, found)) = self.all[at].take()
            {
                self.free.push(at);
                if self.spare.len() < SPARE {
                    partition.clear();
                    self.spare.push(partition);
                }
                match found {
                    Found::Only => self.only = None,
                    Found::Whole(number) => drop(self.whole.remove(&number)),
                    Found::Object(object) => self.objects.bind(py).del_item(object)?,
                }
            }
        }
        Ok(count)
    }
}
