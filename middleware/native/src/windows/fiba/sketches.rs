//! Built-in monoids that only estimate: Bloom filter and HyperLogLog. What they hold does not depend on any order.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use xxhash_rust::xxh3::xxh3_64;

use super::columns::numbers;
use super::moments::{Few, Growing, Grown};
use super::values::Values;

/// How values become 64 random bits: the same as `detectors.window.sketches.hashed` in Python, which is called for texts.
#[derive(FromPyObject)]
pub struct Hashed {
    #[pyo3(attribute("lift_hash"))]
    function: Py<PyAny>,
    /// Makes a result of what is given, or None.
    #[pyo3(attribute("lower_native"))]
    finish: Py<PyAny>,
}

impl Hashed {
    #[inline]
    fn of(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        match value.cast_exact::<PyInt>().ok().and_then(|integer| integer.extract::<i64>().ok()) {
            Some(integer) => Ok(of_integer(integer)),
            None => self.function.bind(value.py()).call1((value,))?.extract(),
        }
    }

    fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        if let Ok(dtype) = values.getattr("dtype") {
            match dtype.getattr("kind")?.extract::<String>()?.as_str() {
                "i" | "u" => return Ok(numbers::<i64>(values)?.into_iter().map(of_integer).collect()),
                "f" => return Ok(numbers::<f64>(values)?.into_iter().map(of_float).collect()),
                _ => {}
            }
        }
        values.try_iter()?.map(|value| self.of(&value?)).collect()
    }
}

/// The mixer of SplitMix64 (Steele, Lea and Flood 2014).
fn of_integer(value: i64) -> u64 {
    let mut bits = value.cast_unsigned().wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Whole numbers as integers; others by their encoding in MessagePack.
#[expect(clippy::cast_possible_truncation, reason = "it is a whole number in range")]
fn of_float(value: f64) -> u64 {
    if value.trunc() == value && value.abs() < 9.2e18 {
        return of_integer(value as i64);
    }
    let mut bytes = [0xCB; 9];
    bytes[1..].copy_from_slice(&value.to_bits().to_be_bytes());
    xxh3_64(&bytes)
}

/// Bits and hashes of a filter: 1 % of wrong answers at about 1,700 values.
const BITS: usize = 1 << 14;
const PLACES: u64 = 7;

/// A Bloom filter.
#[derive(Clone)]
pub struct Bloom(Box<[u64]>);

impl Default for Bloom {
    fn default() -> Self {
        Self(vec![0; BITS / 64].into_boxed_slice())
    }
}

impl Growing for Bloom {
    type Value = u64;

    fn add(&mut self, hash: u64) {
        let step = hash >> 32 | 1;
        for number in 0..PLACES {
            let bit = hash.wrapping_add(number.wrapping_mul(step)) as usize % BITS;
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    #[inline]
    fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    fn same(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyBytes::new(py, &self.bytes()).into_any())
    }

    fn load(saved: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes: Vec<u8> = saved.extract()?;
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        Ok(Self(words.collect()))
    }
}

/// Registers of HyperLogLog: 2^PRECISION, for a standard error of 1.04 / sqrt of that, 1.6 %.
const PRECISION: u32 = 12;

/// HyperLogLog (Flajolet et al. 2007), over 64-bit hashes.
#[derive(Clone)]
pub struct Distinct(Box<[u8]>);

impl Default for Distinct {
    fn default() -> Self {
        Self(vec![0; 1 << PRECISION].into_boxed_slice())
    }
}

impl Growing for Distinct {
    type Value = u64;

    fn add(&mut self, hash: u64) {
        let register = (hash >> (64 - PRECISION)) as usize;
        let rank = ((hash << PRECISION) | 1 << (PRECISION - 1)).leading_zeros() as u8 + 1;
        self.0[register] = self.0[register].max(rank);
    }

    #[inline]
    fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    fn same(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyBytes::new(py, &self.bytes()).into_any())
    }

    fn load(saved: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(saved.extract::<Vec<u8>>()?.into_boxed_slice()))
    }
}

/// Bytes of a sketch, which Python makes a result of.
trait Sketch: Growing<Value = u64> {
    fn bytes(&self) -> Vec<u8>;
}

impl Sketch for Bloom {
    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl Sketch for Distinct {
    fn bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

#[allow(private_bounds, reason = "sketches are those of this file")]
impl<S: Sketch> Values for Grown<S, Hashed> {
    type Out = Vec<u8>;

    fn save<'py>(&self, py: Python<'py>, slot: &Self::Slot) -> PyResult<Bound<'py, PyAny>> {
        slot.save(py)
    }

    fn load(&self, saved: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        Few::load(saved)
    }

    #[inline]
    fn take(&self, value: &Bound<'_, PyAny>) -> PyResult<Self::Slot> {
        Ok(Few::One(self.how.of(value)?))
    }

    fn column(&self, values: &Bound<'_, PyAny>) -> PyResult<Vec<Self::Slot>> {
        Ok(self.how.column(values)?.into_iter().map(Few::One).collect())
    }

    fn lower(&self, agg: Option<&S>) -> PyResult<Vec<u8>> {
        Ok(agg.unwrap_or(&self.empty).bytes())
    }

    fn give<'py>(&self, py: Python<'py>, out: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
        self.how.finish.bind(py).call1((PyBytes::new(py, &out),))
    }
}

pub fn bloom(monoid: &Bound<'_, PyAny>) -> PyResult<Grown<Bloom, Hashed>> {
    Ok(Grown { empty: Bloom::default(), how: monoid.extract()? })
}

pub fn distinct(monoid: &Bound<'_, PyAny>) -> PyResult<Grown<Distinct, Hashed>> {
    Ok(Grown { empty: Distinct::default(), how: monoid.extract()? })
}
