//! Aggregates, kept as values enter and leave a window. Sums of floats are exact: neither order nor history shows.

use std::marker::PhantomData;

use super::aggregate::{Value, What};
use crate::windows::fiba::exact::two_product;
use crate::windows::fiba::moments::{Growing, LARGEST, Moments, Spread};

/// An aggregate of values, which come and go as bits; the default is that of none.
pub trait Fold: Default {
    fn add(&mut self, bits: u64);
    /// A value goes; false if what is left must be calculated anew.
    fn take(&mut self, what: What, bits: u64) -> bool;
    fn value(&self, what: What) -> Value;
}

/// How many entries or values there are.
#[derive(Default)]
pub struct Count(i64);

impl Fold for Count {
    #[inline]
    fn add(&mut self, _: u64) {
        self.0 += 1;
    }

    #[inline]
    fn take(&mut self, _: What, _: u64) -> bool {
        self.0 -= 1;
        true
    }

    #[inline]
    fn value(&self, _: What) -> Value {
        Value::Int(i128::from(self.0))
    }
}

impl Fold for Moments {
    #[inline]
    fn add(&mut self, bits: u64) {
        Growing::add(self, f64::from_bits(bits));
    }

    #[inline]
    fn take(&mut self, _: What, bits: u64) -> bool {
        let value = f64::from_bits(bits);
        if !self.sum.is_short() || !value.is_finite() {
            return false;
        }
        self.count -= 1;
        self.sum.add(-value);
        true
    }

    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "a mean is a float")]
    fn value(&self, what: What) -> Value {
        match what {
            What::Mean | What::Total if self.count == 0 => Value::Nothing,
            What::Mean => Value::Float(self.sum.value() / self.count as f64),
            _ => Value::Float(self.sum.value()),
        }
    }
}

impl Fold for Spread {
    #[inline]
    fn add(&mut self, bits: u64) {
        Growing::add(self, f64::from_bits(bits));
    }

    #[inline]
    fn take(&mut self, _: What, bits: u64) -> bool {
        let value = f64::from_bits(bits);
        if !self.sum.is_short() || !self.squares.is_short() || value.is_nan() || value.abs() > LARGEST {
            return false;
        }
        let (square, rest) = two_product(value, value);
        self.count -= 1;
        self.sum.add(-value);
        self.squares.add_long(-square);
        self.squares.add_long(-rest);
        true
    }

    #[inline]
    fn value(&self, what: What) -> Value {
        match what {
            What::Variance(free, _) if self.count <= free => Value::Nothing,
            What::Variance(free, true) => Value::Float(self.variance(free).sqrt()),
            What::Variance(free, false) => Value::Float(self.variance(free)),
            _ => Value::Nothing,
        }
    }
}

/// The sum of integers, and their number.
#[derive(Default)]
pub struct Whole {
    sum: i128,
    count: i64,
}

impl Fold for Whole {
    #[inline]
    fn add(&mut self, bits: u64) {
        self.sum += i128::from(bits.cast_signed());
        self.count += 1;
    }

    #[inline]
    fn take(&mut self, _: What, bits: u64) -> bool {
        self.sum -= i128::from(bits.cast_signed());
        self.count -= 1;
        true
    }

    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "a mean is a float")]
    fn value(&self, what: What) -> Value {
        match what {
            What::Mean | What::Total if self.count == 0 => Value::Nothing,
            What::Mean => Value::Float(self.sum as f64 / self.count as f64),
            _ => Value::Int(self.sum),
        }
    }
}

/// Numbers in an order of whole numbers: they are compared without a branch that cannot be foretold.
pub trait Ordered {
    /// None for a NaN.
    fn place(bits: u64) -> Option<i64>;
    fn value(place: i64) -> Value;
    fn range(least: i64, most: i64) -> Value;
}

impl Ordered for i64 {
    #[inline]
    fn place(bits: u64) -> Option<i64> {
        Some(bits.cast_signed())
    }

    #[inline]
    fn value(place: i64) -> Value {
        Value::Int(i128::from(place))
    }

    #[inline]
    fn range(least: i64, most: i64) -> Value {
        Value::Int(i128::from(most) - i128::from(least))
    }
}

/// The bits of a float as a whole number in the same order, -0.0 before 0.0; the same way back.
#[inline]
fn turned(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

#[inline]
fn float(place: i64) -> f64 {
    f64::from_bits(turned(place).cast_unsigned())
}

impl Ordered for f64 {
    #[inline]
    fn place(bits: u64) -> Option<i64> {
        (!f64::from_bits(bits).is_nan()).then(|| turned(bits.cast_signed()))
    }

    #[inline]
    fn value(place: i64) -> Value {
        Value::Float(float(place))
    }

    #[inline]
    fn range(least: i64, most: i64) -> Value {
        Value::Float(float(most) - float(least))
    }
}

/// The least and the largest; a NaN wins.
pub struct Ends<T> {
    least: i64,
    most: i64,
    count: u32,
    nans: u32,
    of: PhantomData<T>,
}

impl<T> Default for Ends<T> {
    fn default() -> Self {
        Self { least: i64::MAX, most: i64::MIN, count: 0, nans: 0, of: PhantomData }
    }
}

impl<T: Ordered> Fold for Ends<T> {
    #[inline]
    fn add(&mut self, bits: u64) {
        self.count += 1;
        match T::place(bits) {
            Some(place) => (self.least, self.most) = (self.least.min(place), self.most.max(place)),
            None => self.nans += 1,
        }
    }

    #[inline]
    fn take(&mut self, what: What, bits: u64) -> bool {
        self.count -= 1;
        let Some(place) = T::place(bits) else {
            self.nans -= 1;
            return true;
        };
        (what == What::Max || place != self.least) && (what == What::Min || place != self.most)
    }

    #[inline]
    fn value(&self, what: What) -> Value {
        match what {
            _ if self.count == 0 => Value::Nothing,
            _ if self.nans > 0 => Value::Float(f64::NAN),
            What::Min => T::value(self.least),
            What::Max => T::value(self.most),
            _ => T::range(self.least, self.most),
        }
    }
}

/// How many NaNs there are, and the other values in order.
#[derive(Default)]
pub struct Ranks {
    nans: usize,
    values: Vec<f64>,
}

impl Fold for Ranks {
    #[inline]
    fn add(&mut self, bits: u64) {
        let value = f64::from_bits(bits) + 0.0;
        if value.is_nan() {
            self.nans += 1;
        } else {
            self.values.insert(self.values.partition_point(|&each| each <= value), value);
        }
    }

    #[inline]
    fn take(&mut self, _: What, bits: u64) -> bool {
        let value = f64::from_bits(bits);
        if value.is_nan() {
            self.nans -= 1;
        } else {
            self.values.remove(self.values.partition_point(|&each| each < value));
        }
        true
    }

    /// As `detectors.window.aggregation.ranks.middle`; a NaN wins.
    #[inline]
    fn value(&self, _: What) -> Value {
        if self.nans > 0 {
            return Value::Float(f64::NAN);
        }
        let Some(last) = self.values.len().checked_sub(1) else { return Value::Nothing };
        let (low, high) = (self.values[last / 2], self.values[self.values.len() / 2]);
        let half = (low + high) / 2.0; // infinite where only the sum is too large
        Value::Float(if half.is_infinite() { low / 2.0 + high / 2.0 } else { half + 0.0 })
    }
}
