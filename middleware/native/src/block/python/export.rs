//! Columns handed to Arrow through its C data interface, without a copy. The counterpart of `import`.
#![expect(unsafe_code, reason = "the C data interface is pointers, each freed by the function that comes with it")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_New, PyObject};
use pyo3::prelude::*;

use crate::block::batch::{Batch, Column, Texts, Values};

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

const NULLABLE: i64 = 2;

/// The memory that a schema points to: kept until its release.
struct SchemaOwned {
    _batch: Arc<Batch>,
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
}

/// The memory that an array points to.
struct ArrayOwned {
    _batch: Arc<Batch>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
}

macro_rules! releasing {
    ($name:ident, $free:ident, $of:ty, $owned:ty) => {
        /// Frees what the struct owns, as its consumer asks.
        unsafe extern "C" fn $name(of: *mut $of) {
            // SAFETY: called once, with a struct made here; its consumer may have moved it, but not what it points to
            unsafe {
                let owned = Box::from_raw((*of).private_data.cast::<$owned>());
                owned.children.iter().copied().for_each(|child| $free(child));
                $free(owned.dictionary);
                (*of).release = None;
            }
        }

        /// Frees a struct made here, and what it owns unless that was moved on.
        unsafe fn $free(of: *mut $of) {
            // SAFETY: null, or from `Box::into_raw`; freed by its parent, or its capsule, alone
            unsafe {
                if of.is_null() {
                    return;
                }
                if let Some(release) = (*of).release {
                    release(of);
                }
                drop(Box::from_raw(of));
            }
        }
    };
}

releasing!(release_schema, free_schema, ArrowSchema, SchemaOwned);
releasing!(release_array, free_array, ArrowArray, ArrayOwned);

fn schema(
    batch: &Arc<Batch>,
    format: &'static CStr,
    name: &CStr,
    flags: i64,
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
) -> *mut ArrowSchema {
    let mut owned = Box::new(SchemaOwned { _batch: batch.clone(), children, dictionary });
    Box::into_raw(Box::new(ArrowSchema {
        format: format.as_ptr(),
        name: name.as_ptr(),
        metadata: ptr::null(),
        flags,
        n_children: owned.children.len() as i64,
        children: owned.children.as_mut_ptr(),
        dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(owned).cast(),
    }))
}

fn array(
    batch: &Arc<Batch>,
    (rows, nulls): (usize, usize),
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
) -> *mut ArrowArray {
    let mut owned = Box::new(ArrayOwned { _batch: batch.clone(), buffers, children, dictionary });
    Box::into_raw(Box::new(ArrowArray {
        length: rows as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: owned.buffers.len() as i64,
        n_children: owned.children.len() as i64,
        buffers: owned.buffers.as_mut_ptr(),
        children: owned.children.as_mut_ptr(),
        dictionary,
        release: Some(release_array),
        private_data: Box::into_raw(owned).cast(),
    }))
}

fn column_schema(batch: &Arc<Batch>, column: &Column) -> *mut ArrowSchema {
    let (format, dictionary) = match &column.values {
        Values::Integers(_) => (c"l", ptr::null_mut()),
        Values::Floats(_) => (c"g", ptr::null_mut()),
        Values::Flags(_) => (c"b", ptr::null_mut()),
        Values::Texts(_) => (c"u", ptr::null_mut()),
        Values::Coded(..) => (c"i", schema(batch, c"u", c"", NULLABLE, Vec::new(), ptr::null_mut())),
    };
    schema(batch, format, &column.name, if column.is_nullable { NULLABLE } else { 0 }, Vec::new(), dictionary)
}

fn column_array(batch: &Arc<Batch>, column: &Column) -> *mut ArrowArray {
    let (there, nulls) =
        column.there.as_ref().map_or((ptr::null(), 0), |(bits, nulls)| (bits.as_ptr().cast::<c_void>(), *nulls));
    let texts = |texts: &Texts| (texts.ends.as_ptr().cast::<c_void>(), texts.bytes.as_ptr().cast::<c_void>());
    let mut buffers = vec![there];
    let mut dictionary = ptr::null_mut();
    match &column.values {
        Values::Integers(values) => buffers.push(values.as_ptr().cast()),
        Values::Floats(values) => buffers.push(values.as_ptr().cast()),
        Values::Flags(bits) => buffers.push(bits.as_ptr().cast()),
        Values::Texts(values) => buffers.extend(<[_; 2]>::from(texts(values))),
        Values::Coded(codes, names) => {
            let (ends, bytes) = texts(names);
            buffers.push(codes.as_ptr().cast());
            dictionary = array(batch, (names.len(), 0), vec![ptr::null(), ends, bytes], Vec::new(), ptr::null_mut());
        }
    }
    array(batch, (batch.rows, nulls), buffers, Vec::new(), dictionary)
}

unsafe extern "C" fn drop_schema(capsule: *mut PyObject) {
    // SAFETY: the capsule was made below, of that name
    unsafe { free_schema(PyCapsule_GetPointer(capsule, c"arrow_schema".as_ptr()).cast()) }
}

unsafe extern "C" fn drop_array(capsule: *mut PyObject) {
    // SAFETY: the capsule was made below, of that name
    unsafe { free_array(PyCapsule_GetPointer(capsule, c"arrow_array".as_ptr()).cast()) }
}

/// The answer of `__arrow_c_array__`: the schema, and the columns.
pub type Capsules<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// They share the columns, so it may be asked for again.
pub fn capsules<'py>(py: Python<'py>, batch: &Arc<Batch>) -> PyResult<Capsules<'py>> {
    let types = batch.columns.iter().map(|column| column_schema(batch, column)).collect();
    let columns = batch.columns.iter().map(|column| column_array(batch, column)).collect();
    let types = schema(batch, c"+s", c"", 0, types, ptr::null_mut());
    let columns = array(batch, (batch.rows, 0), vec![ptr::null()], columns, ptr::null_mut());
    // SAFETY: each capsule owns its struct, and frees it
    unsafe {
        let types = PyCapsule_New(types.cast(), c"arrow_schema".as_ptr(), Some(drop_schema));
        let types = Bound::from_owned_ptr_or_err(py, types)?;
        let columns = PyCapsule_New(columns.cast(), c"arrow_array".as_ptr(), Some(drop_array));
        Ok((types, Bound::from_owned_ptr_or_err(py, columns)?))
    }
}
