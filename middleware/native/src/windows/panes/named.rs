//! What results show of a key, and the identities of its windows.

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::block::wire::msgpack::encode;

/// Bytes of most prefixes, and of the bounds of windows.
const INLINE: usize = 14;
const BOUNDS: usize = 18;

/// The encoded identity of a window of this key, up to its start: most are short, and then lie in place.
enum Prefix {
    Short([u8; INLINE], u8),
    Long(Box<[u8]>),
}

impl Prefix {
    fn new(bytes: &[u8]) -> Self {
        match u8::try_from(bytes.len()) {
            Ok(known) if bytes.len() <= INLINE => {
                let mut short = [0; INLINE];
                short[..bytes.len()].copy_from_slice(bytes);
                Self::Short(short, known)
            }
            _ => Self::Long(bytes.into()),
        }
    }
}

pub struct Named {
    pub key: Py<PyAny>,
    /// The key's fields, as results show them.
    pub shown: Py<PyTuple>,
    /// The first of them, if it is a 64-bit integer.
    pub whole: Option<i64>,
    prefix: Prefix,
}

impl Named {
    pub fn new(key: Py<PyAny>, shown: &Bound<'_, PyTuple>, prefix: &[u8]) -> Self {
        Self { key, shown: shown.clone().unbind(), whole: whole(shown), prefix: Prefix::new(prefix) }
    }

    /// The identity of a window: as `Origin.id(key, start, end)` in Python.
    #[inline]
    pub fn id(&self, seed: u64, bounds: &Bounds) -> i64 {
        let mut bytes = [0; INLINE + BOUNDS];
        let given = match &self.prefix {
            Prefix::Short(prefix, known) => {
                let known = usize::from(*known);
                bytes[..INLINE].copy_from_slice(prefix);
                bytes[known..known + BOUNDS].copy_from_slice(&bounds.bytes);
                &bytes[..known + bounds.length]
            }
            Prefix::Long(prefix) => &[prefix, &bounds.bytes[..bounds.length]].concat(),
        };
        xxh3_64_with_seed(given, seed).cast_signed()
    }
}

/// The bounds of a window, encoded: all keys share them.
pub struct Bounds {
    bytes: [u8; BOUNDS],
    length: usize,
}

impl Bounds {
    pub fn new((start, end): (i64, i64)) -> Self {
        let mut bytes = [0; BOUNDS];
        let first = encode(start, &mut bytes);
        let length = first + encode(end, &mut bytes[first..]);
        Self { bytes, length }
    }
}

/// The first field of a key, if it is a 64-bit integer.
fn whole(shown: &Bound<'_, PyTuple>) -> Option<i64> {
    shown.get_item(0).ok()?.cast_exact::<PyInt>().ok()?.extract().ok()
}
