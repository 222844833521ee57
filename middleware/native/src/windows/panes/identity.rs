//! The identities of windows: hashes of their key and their bounds.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::block::wire::msgpack::encode;

/// Bytes of most prefixes, and of the bounds of windows.
const INLINE: usize = 14;
const BOUNDS: usize = 18;

/// The encoded identity of a window of this key, up to its start: most are short, and then lie in place.
pub enum Prefix {
    Short([u8; INLINE], u8),
    Long(Box<[u8]>),
}

impl Prefix {
    pub fn new(bytes: &[u8]) -> Self {
        match u8::try_from(bytes.len()) {
            Ok(known) if bytes.len() <= INLINE => {
                let mut short = [0; INLINE];
                short[..bytes.len()].copy_from_slice(bytes);
                Self::Short(short, known)
            }
            _ => Self::Long(bytes.into()),
        }
    }

    /// The identity of a window: as `Origin.id(key, start, end)` in Python.
    #[inline]
    pub fn id(&self, seed: u64, bounds: &Bounds) -> i64 {
        let mut bytes = [0; INLINE + BOUNDS];
        let given = match self {
            Self::Short(prefix, known) => {
                let known = usize::from(*known);
                bytes[..INLINE].copy_from_slice(prefix);
                bytes[known..known + BOUNDS].copy_from_slice(&bounds.bytes);
                &bytes[..known + bounds.length]
            }
            Self::Long(prefix) => &[prefix, &bounds.bytes[..bounds.length]].concat(),
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

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use super::{Bounds, Prefix};

    #[test]
    fn an_identity_is_the_hash_of_all_its_bytes() {
        for length in [0, 1, 13, 14, 15, 40] {
            let prefix: Vec<u8> = (0..length).collect();
            for (window, bounds) in [((-1, 5), &[0xFF, 5][..]), ((0, 300), &[0, 0xCD, 0x01, 0x2C])] {
                let expected = xxh3_64_with_seed(&[&prefix, bounds].concat(), 7).cast_signed();
                assert_eq!(Prefix::new(&prefix).id(7, &Bounds::new(window)), expected, "{length} bytes");
            }
        }
    }
}
