//! The identity of a match: the hash of the identities of its events, as `middleware.model.operator.Origin.id` computes it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::block::wire::msgpack::encode;
use crate::event::python::fields::Stamps;

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

    /// An event, which is an object.
    pub fn event(&mut self, event: &Bound<'_, PyAny>) -> PyResult<()> {
        let stamps = Stamps::get(event.py())?;
        let (source, id) = (stamps.source(event)?, stamps.id(event)?);
        if let Ok(id) = id.extract::<i64>() {
            self.pair(source.to_str()?, id);
        } else if let Ok(id) = id.extract::<u64>() {
            self.array(2);
            self.text(source.to_str()?);
            self.headed(0xcf, &id.to_be_bytes());
        } else {
            return Err(PyValueError::new_err("the id of an event does not fit 64 bits"));
        }
        Ok(())
    }

    /// The source and the id of an event.
    #[inline]
    pub fn pair(&mut self, source: &str, id: i64) {
        self.array(2);
        self.text(source);
        self.int(id);
    }

    fn headed(&mut self, head: u8, rest: &[u8]) {
        self.0.push(head);
        self.0.extend_from_slice(rest);
    }

    fn text(&mut self, text: &str) {
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
