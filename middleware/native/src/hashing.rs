//! The hash of whole numbers (Fibonacci hashing, Knuth vol. 3, 6.4).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Maps of whole numbers, which need no hash that withstands an attacker.
pub type Scattered<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// A hash for integers: both halves of one wide product, so that every bit of the integer tells in the low bits.
#[derive(Default)]
pub struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9E37_79B9_7F4A_7C15;
        #[expect(clippy::cast_possible_truncation, reason = "only the halves count")]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = low ^ high;
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value.cast_unsigned());
    }

    fn write_isize(&mut self, value: isize) {
        self.write_i64(value as i64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hasher;

    use super::Multiply;

    #[test]
    fn hashes_spread_over_low_and_high_bits() {
        for step in [1i64, 2, 1 << 16, 1 << 32, 1 << 48, -7] {
            let hashes = (0..1_000).map(|number| {
                let mut hasher = Multiply::default();
                hasher.write_i64(number * step);
                hasher.finish()
            });
            let (low, high): (HashSet<u64>, HashSet<u64>) = hashes.map(|hash| (hash & 0x3FF, hash >> 54)).unzip();
            assert!(low.len() > 400 && high.len() > 400, "step {step}: {} low, {} high", low.len(), high.len());
        }
    }
}
