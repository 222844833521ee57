//! The identity of a match: the hash of the identities of its events, as `middleware.model.operator.Origin.id` computes it.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::block::wire::msgpack::encode;

/// The msgpack encoding of the parts of an identity.
#[derive(Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn hash(&self, seed: u64) -> i64 {
        xxh3_64_with_seed(&self.0, seed) as i64
    }

    pub fn array(&mut self, length: usize) {
        match length {
            0..16 => self.0.push(0x90 | length as u8),
            16..0x1_0000 => self.headed(0xdc, &(length as u16).to_be_bytes()),
            _ => self.headed(0xdd, &(length as u32).to_be_bytes()),
        }
    }

    /// The source and the id of an event.
    #[inline]
    pub fn pair(&mut self, source: &str, id: i64) {
        self.array(2);
        self.text(source);
        self.int(id);
    }

    pub(super) fn headed(&mut self, head: u8, rest: &[u8]) {
        self.0.push(head);
        self.0.extend_from_slice(rest);
    }

    pub(super) fn text(&mut self, text: &str) {
        match text.len() {
            0..32 => self.0.push(0xa0 | text.len() as u8),
            32..0x100 => self.headed(0xd9, &[text.len() as u8]),
            0x100..0x1_0000 => self.headed(0xda, &(text.len() as u16).to_be_bytes()),
            _ => self.headed(0xdb, &(text.len() as u32).to_be_bytes()),
        }
        self.0.extend_from_slice(text.as_bytes());
    }

    fn int(&mut self, number: i64) {
        let mut bytes = [0; 9];
        let length = encode(number, &mut bytes);
        self.0.extend_from_slice(&bytes[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::Encoder;
    use crate::block::wire::cursor::Cursor;

    #[test]
    fn parts_are_read_as_they_were_written() {
        for length in [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536] {
            let mut encoder = Encoder::default();
            encoder.array(length);
            encoder.pair(&"x".repeat(length), -(length as i64));
            let mut cursor = Cursor::new(&encoder.0);
            assert_eq!((cursor.array(), cursor.array()), (Some(length), Some(2)));
            assert_eq!(cursor.text().map(str::len), Some(length));
            assert_eq!(cursor.integer(), Some(-(length as i64)));
            assert!(cursor.is_empty());
        }
    }
}
