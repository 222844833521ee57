//! The fields of events, read and written where they lie. Other unsafe code is that of Arrow's interface alone.
//!
//! A field of a struct is a pointer at an offset that holds for all instances of its type. Read there, it costs a tenth of what
//! `getattr` costs. What is no such field is asked for by name, as Python would.
#![expect(
    unsafe_code,
    reason = "CPython's own descriptors show the offsets, which hold for the exact types they were asked of"
)]

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyType};
use pyo3::{Borrowed, BoundObject};

use crate::event::python::model::Model;

/// In how many types a field is looked up where it lies; in others it is asked for by name.
const KNOWN: usize = 8;

/// Where no field is: an object begins with its count of references.
const NOWHERE: usize = 0;

/// The offset of a field in all instances of a type, or `NOWHERE` if it is no plain member.
///
/// The stable ABI does not say where a descriptor keeps the offset. So the descriptor sets the field of a blank instance, and
/// the offset is where the value is found.
fn offset_of(of: &Bound<'_, PyType>, name: &Bound<'_, PyString>) -> usize {
    let (py, kind) = (of.py(), of.as_type_ptr());
    let Ok(found) = of.getattr(name) else { return NOWHERE };
    let Ok(size) = of.getattr(intern!(py, "__basicsize__")).and_then(|size| size.extract::<usize>()) else { return NOWHERE };
    // SAFETY: the type is alive; a new instance is all null pointers behind its head, and as large as its type says
    unsafe {
        let reads = ffi::PyType_GetSlot(kind, ffi::Py_tp_getattro);
        let has_end = !ffi::PyType_GetSlot(kind, ffi::Py_tp_finalize).is_null(); // a blank is not to be seen by `__del__`
        let is_member = ffi::Py_TYPE(found.as_ptr()) == &raw mut ffi::PyMemberDescr_Type;
        if reads as *const () != ffi::PyObject_GenericGetAttr as *const () || has_end || !is_member {
            return NOWHERE;
        }
        let Ok(blank) = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(kind, 0)) else { return NOWHERE };
        let value = PyList::empty(py); // no other object is this one, and members that hold no objects refuse it
        if found.call_method1(intern!(py, "__set__"), (&blank, &value)).is_err() {
            return NOWHERE;
        }
        let width = size_of::<*mut ffi::PyObject>();
        let mut offsets = (2 * width..=size.saturating_sub(width)).step_by(width);
        let holds_it = |offset: &usize| *blank.as_ptr().byte_add(*offset).cast::<*mut ffi::PyObject>() == value.as_ptr();
        offsets.find(holds_it).unwrap_or(NOWHERE)
    }
}

/// The value at an offset that `offset_of` gave for the event's type, or for a base of it.
#[inline]
fn at<'a, 'py>(event: &'a Bound<'py, PyAny>, offset: usize) -> Option<Borrowed<'a, 'py, PyAny>> {
    if offset == NOWHERE {
        return None;
    }
    // SAFETY: instances of the type have an object pointer there, null if nothing was assigned
    unsafe {
        let value = *event.as_ptr().byte_add(offset).cast::<*mut ffi::PyObject>();
        Borrowed::from_ptr_or_opt(event.py(), value)
    }
}

/// A whole number of 64 bits. No Python code runs while it is borrowed.
#[inline]
fn whole(value: Borrowed<'_, '_, PyAny>) -> PyResult<i64> {
    if value.is_exact_instance_of::<PyInt>() {
        return value.extract();
    }
    value.into_bound().extract()
}

/// A field, by name.
pub struct Field {
    name: Py<PyString>,
    /// The types of events met so far, each with the offset. They are kept, so that no other type can take their place.
    known: [OnceLock<(Py<PyType>, usize)>; KNOWN],
}

impl Field {
    pub fn new(py: Python<'_>, name: &str) -> Self {
        Self { name: PyString::intern(py, name).unbind(), known: [const { OnceLock::new() }; KNOWN] }
    }

    #[inline]
    fn offset(&self, event: &Bound<'_, PyAny>) -> usize {
        let kind = event.get_type_ptr();
        for place in &self.known {
            match place.get() {
                Some((known, offset)) if known.as_ptr() == kind.cast() => return *offset,
                Some(_) => {}
                None => return self.learn(event, place),
            }
        }
        NOWHERE
    }

    #[cold]
    fn learn(&self, event: &Bound<'_, PyAny>, place: &OnceLock<(Py<PyType>, usize)>) -> usize {
        let kind = event.get_type();
        let offset = offset_of(&kind, self.name.bind(event.py()));
        let _ = place.set((kind.unbind(), offset));
        offset
    }

    pub fn name(&self) -> &Py<PyString> {
        &self.name
    }

    /// The value of an event.
    #[inline]
    pub fn of<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match at(event, self.offset(event)) {
            Some(value) => Ok(value.to_owned()),
            None => event.getattr(self.name.bind(event.py())),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Field {
    type Error = PyErr;

    fn extract(name: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::new(name.py(), name.cast::<PyString>()?.to_str()?))
    }
}

/// The fields that all events have: ts, id, source and level, at the same offsets in all types.
pub struct Stamps {
    event: Py<PyType>,
    ts: usize,
    id: usize,
    source: usize,
    level: usize,
}

impl Stamps {
    pub const COUNT: usize = 4;

    #[inline]
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        Model::get(py).map(|model| &model.stamps)
    }

    /// The offsets of a type, which all types derived from it share.
    pub fn of(event: &Bound<'_, PyType>) -> Self {
        let of = |name: &str| offset_of(event, &PyString::intern(event.py(), name));
        Self { ts: of("ts"), id: of("id"), source: of("source"), level: of("level"), event: event.clone().unbind() }
    }

    #[inline]
    fn read<'a, 'py>(&self, event: &'a Bound<'py, PyAny>, offset: usize) -> Option<Borrowed<'a, 'py, PyAny>> {
        // SAFETY: both are types that are alive
        let is_event = unsafe { ffi::PyType_IsSubtype(event.get_type_ptr(), self.event.as_ptr().cast()) != 0 };
        if is_event { at(event, offset) } else { None }
    }

    #[inline]
    pub fn ts(&self, event: &Bound<'_, PyAny>) -> PyResult<i64> {
        match self.read(event, self.ts) {
            Some(value) => whole(value),
            None => event.getattr(intern!(event.py(), "ts"))?.extract(),
        }
    }

    /// The time as the object that it is.
    #[inline]
    pub fn time<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.read(event, self.ts) {
            Some(value) => Ok(value.to_owned()),
            None => event.getattr(intern!(event.py(), "ts")),
        }
    }

    #[inline]
    pub fn id<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.read(event, self.id) {
            Some(value) => Ok(value.to_owned()),
            None => event.getattr(intern!(event.py(), "id")),
        }
    }

    #[inline]
    pub fn source<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
        let source = match self.read(event, self.source) {
            Some(value) => value.to_owned(),
            None => event.getattr(intern!(event.py(), "source"))?,
        };
        Ok(source.cast_into::<PyString>()?)
    }

    #[inline]
    pub fn level(&self, event: &Bound<'_, PyAny>) -> PyResult<i64> {
        match self.read(event, self.level) {
            Some(value) => whole(value),
            None => event.getattr(intern!(event.py(), "level"))?.extract(),
        }
    }
}

/// The kind of values that a field takes without conversion.
#[derive(Clone, Copy)]
enum Kind {
    Any,
    Bool,
    Int,
    /// An integer strictly between these.
    Within(i128, i128),
    Float,
    Text,
}

impl Kind {
    fn takes(self, value: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Any => true,
            Self::Bool => value.is_exact_instance_of::<PyBool>(),
            Self::Int => value.is_exact_instance_of::<PyInt>(),
            Self::Within(low, high) => {
                let number = if value.is_exact_instance_of::<PyInt>() { value.extract::<i64>().ok() } else { None };
                number.is_some_and(|number| low < number.into() && i128::from(number) < high)
            }
            Self::Float => value.is_exact_instance_of::<PyFloat>(),
            Self::Text => value.is_exact_instance_of::<PyString>(),
        }
    }
}

/// Most bytes of all texts of an event, taken together, that need not be counted: half of what fits into a frame.
const SHORT: usize = 1 << 21;

/// Whether it is a value that nothing can change, and that other processes read as it is: a wire has 64 bits and UTF-8.
/// `short`: most bytes of a text.
#[inline]
fn is_carried(value: &Bound<'_, PyAny>, short: usize) -> bool {
    if let Ok(number) = value.cast_exact::<PyInt>() {
        return number.extract::<i64>().is_ok() || number.extract::<u64>().is_ok();
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        return text.to_str().is_ok_and(|text| text.len() <= short);
    }
    value.is_none()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
        || value.cast_exact::<PyBytes>().is_ok_and(|bytes| bytes.as_bytes().len() <= short)
}

/// Makes events of one type from the values of all their fields, as `msgspec.convert` would, at a third of the time.
pub struct Maker {
    of: Py<PyType>,
    /// Offset, what it takes, and whether it takes None.
    fields: Vec<(usize, Kind, bool)>,
}

impl Maker {
    /// From what `middleware.model.block.recipe.recipe` gives; None if such events are not to be made here.
    pub fn new(recipe: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        type Recipe<'py> = (Bound<'py, PyType>, Vec<(Bound<'py, PyString>, String, bool)>);
        let Some((of, fields)) = recipe.extract::<Option<Recipe<'_>>>()? else { return Ok(None) };
        // SAFETY: the type is alive
        let is_collected = unsafe { ffi::PyType_GetFlags(of.as_type_ptr()) & ffi::Py_TPFLAGS_HAVE_GC != 0 };
        let item: usize = of.getattr(intern!(of.py(), "__itemsize__"))?.extract()?;
        let kind = |name: &str| match name {
            "any" => Some(Kind::Any),
            "bool" => Some(Kind::Bool),
            "int" => Some(Kind::Int),
            "long" => Some(Kind::Within(i128::from(i64::MIN) - 1, i128::from(i64::MAX) + 1)),
            "time" => Some(Kind::Within(-(1 << 62), 1 << 62)),
            "float" => Some(Kind::Float),
            "str" => Some(Kind::Text),
            _ => None,
        };
        let place = |(name, takes, nullable): &(Bound<'_, PyString>, String, bool)| {
            Some((offset_of(&of, name), kind(takes)?, *nullable)).filter(|(offset, ..)| *offset != NOWHERE)
        };
        let Some(fields) = fields.iter().map(place).collect::<Option<Vec<_>>>() else { return Ok(None) };
        Ok((!is_collected && item == 0).then(|| Self { of: of.unbind(), fields }))
    }

    /// The type of the events.
    pub fn of(&self) -> &Py<PyType> {
        &self.of
    }

    pub fn fields(&self) -> usize {
        self.fields.len()
    }

    /// Whether a field takes a value as it is.
    #[inline]
    pub fn takes(&self, field: usize, value: &Bound<'_, PyAny>) -> bool {
        let (_, kind, nullable) = self.fields[field];
        kind.takes(value) || (nullable && value.is_none())
    }

    /// Whether a field takes a value as it is, other processes read it so, and nobody can change it where it came from.
    #[inline]
    pub fn keeps(&self, field: usize, value: &Bound<'_, PyAny>) -> bool {
        match self.fields[field].1 {
            Kind::Bool | Kind::Float | Kind::Within(..) => self.takes(field, value),
            Kind::Int | Kind::Text | Kind::Any => self.takes(field, value) && is_carried(value, SHORT / self.fields.len()),
        }
    }

    /// An event with these values in the order of its fields; None if a field does not take its value as it is.
    #[inline]
    pub fn make<'py>(&self, py: Python<'py>, values: &[Bound<'py, PyAny>]) -> PyResult<Option<Bound<'py, PyAny>>> {
        if values.len() != self.fields.len() || !values.iter().enumerate().all(|(field, value)| self.takes(field, value)) {
            return Ok(None);
        }
        self.filled(py, |field| Ok(values[field].clone())).map(Some)
    }

    /// An event with the value of each field, by its number, which the field takes as it is.
    #[inline]
    pub fn filled<'py>(
        &self,
        py: Python<'py>,
        value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: a new instance is all null pointers behind its head; each field gets a reference of its own
        unsafe {
            let made = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(self.of.as_ptr().cast(), 0))?;
            for (field, (offset, ..)) in self.fields.iter().enumerate() {
                *made.as_ptr().byte_add(*offset).cast::<*mut ffi::PyObject>() = value(field)?.into_ptr();
            }
            Ok(made)
        }
    }

    /// The value of a field, by its number, of an event of this very type.
    #[inline]
    pub fn value<'py>(&self, event: &Bound<'py, PyAny>, field: usize) -> Option<Bound<'py, PyAny>> {
        at(event, self.fields[field].0).map(|value| value.to_owned())
    }
}

/// Tells which events of one type other processes would read otherwise. `middleware.model.values.carried` makes it.
#[pyclass(frozen, module = "middleware.native._core")]
pub struct PlainFields(Option<Maker>);

#[pymethods]
impl PlainFields {
    #[new]
    fn new(recipe: &Bound<'_, PyAny>) -> PyResult<Self> {
        Maker::new(recipe).map(Self)
    }

    /// A copy of an event with another identity; None if a field does not keep its value as it is.
    fn stamped<'py>(
        &self,
        event: &Bound<'py, PyAny>,
        id: &Bound<'py, PyAny>,
        source: &Bound<'py, PyAny>,
        level: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(maker) = self.0.as_ref().filter(|maker| event.get_type().is(&maker.of)) else { return Ok(None) };
        let own = maker.fields() - Stamps::COUNT + 1;
        let is_kept = |field| maker.value(event, field).is_some_and(|value| maker.keeps(field, &value));
        if !(0..own).all(is_kept) {
            return Ok(None);
        }
        let stamps = [id, source, level];
        let value = |field: usize| match field.checked_sub(own) {
            Some(at) => Ok(stamps[at].clone()),
            None => Ok(maker.value(event, field).unwrap_or_else(|| event.py().None().into_bound(event.py()))),
        };
        maker.filled(event.py(), value).map(Some)
    }

    /// The places of events that have a value which its field does not keep as it is. O(values).
    fn others(&self, events: &Bound<'_, PyList>) -> Vec<usize> {
        let Some(maker) = &self.0 else { return (0..events.len()).collect() };
        let is_kept = |event: &Bound<'_, PyAny>| {
            event.get_type().is(&maker.of)
                && (0..maker.fields()).all(|field| maker.value(event, field).is_some_and(|value| maker.keeps(field, &value)))
        };
        events.iter().enumerate().filter(|(_, event)| !is_kept(event)).map(|(at, _)| at).collect()
    }
}
