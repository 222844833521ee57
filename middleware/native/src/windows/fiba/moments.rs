//! Built-in monoids over exact sums: sum, mean and geometric mean of floats, variance. The same to the last bit in any order.

use std::convert::Infallible;

use super::exact::{Exact, two_product, two_sum};
use super::monoid::Monoid;

/// The content of an entry whose aggregate is larger than a value: one value, or, of several at one time, their aggregate.
#[derive(Clone)]
pub enum Few<V, A> {
    One(V),
    Many(Box<A>),
}

impl<V: Default, A> Default for Few<V, A> {
    fn default() -> Self {
        Self::One(V::default())
    }
}

/// Aggregates that grow by single values and by each other, in any order.
pub trait Growing: Clone + Default + Send + Sync + 'static {
    type Value: Copy + Default + Send + Sync;
    fn add(&mut self, value: Self::Value);
    fn join(&mut self, other: &Self);
    fn same(&self, other: &Self) -> bool;
}

/// The monoid of growing aggregates: the empty one, which carries parameters, and how results are read off.
pub struct Grown<A, H> {
    pub empty: A,
    pub how: H,
}

impl<A: Growing, H: Send + Sync + 'static> Monoid for Grown<A, H> {
    type Slot = Few<A::Value, A>;
    type Agg = A;
    type Failure = Infallible;

    #[inline]
    fn commutes(&self) -> bool {
        true
    }

    #[inline]
    fn lift(&self, slot: &Self::Slot) -> Result<A, Infallible> {
        match slot {
            Few::One(value) => {
                let mut agg = self.empty.clone();
                agg.add(*value);
                Ok(agg)
            }
            Few::Many(agg) => Ok((**agg).clone()),
        }
    }

    #[inline]
    fn absorb(&self, agg: &mut A, slot: &Self::Slot) -> Result<(), Infallible> {
        match slot {
            Few::One(value) => agg.add(*value),
            Few::Many(other) => agg.join(other),
        }
        Ok(())
    }

    #[inline]
    fn combine(&self, agg: &mut A, right: &A) -> Result<(), Infallible> {
        agg.join(right);
        Ok(())
    }

    fn merge(&self, slot: &mut Self::Slot, later: &Self::Slot) -> Result<(), Infallible> {
        let mut agg = self.lift(slot)?;
        self.absorb(&mut agg, later)?;
        *slot = Few::Many(Box::new(agg));
        Ok(())
    }

    fn same(&self, one: &A, other: &A) -> Result<bool, Infallible> {
        Ok(one.same(other))
    }
}

fn same_bits(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan())
}

/// Count and sum.
#[derive(Clone, Default)]
pub struct Moments {
    pub count: i64,
    pub sum: Exact,
}

impl Growing for Moments {
    type Value = f64;

    #[inline]
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum.add(value);
    }

    #[inline]
    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.join(&other.sum);
    }

    fn same(&self, other: &Self) -> bool {
        self.count == other.count && same_bits(self.sum.value(), other.sum.value())
    }
}

/// Squares of larger values are not summed: 2^400.
pub const LARGEST: f64 = f64::from_bits(0x58F0_0000_0000_0000);

/// Products below this are left to as many floats as they take: 2^-600.
const TINY: f64 = f64::from_bits(0x1A70_0000_0000_0000);

/// Sixteen roundings of a float: 2^-49.
const SLACK: f64 = f64::from_bits(0x3CE0_0000_0000_0000);

/// Count, sum, and sum of squares.
#[derive(Clone, Default)]
pub struct Spread {
    pub count: i64,
    pub sum: Exact,
    pub squares: Exact,
}

impl Growing for Spread {
    type Value = f64;

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum.add(value);
        if value.abs() <= LARGEST {
            let (square, rest) = two_product(value, value);
            self.squares.add_long(square);
            self.squares.add_long(rest);
        } else {
            self.squares.add(f64::NAN);
        }
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.join(&other.sum);
        self.squares.join(&other.squares);
    }

    fn same(&self, other: &Self) -> bool {
        same_bits(self.variance(0), other.variance(0)) && same_bits(self.sum.value(), other.sum.value())
    }
}

impl Spread {
    /// (n * sum of squares - square of the sum) / (n * (n - correction)), the numerator exact and rounded once.
    ///
    /// NaN if a value is beyond `LARGEST`, or if there are too few.
    pub fn variance(&self, correction: i64) -> f64 {
        let count = self.count as f64;
        if self.count <= correction || self.sum.is_extreme() || self.squares.is_extreme() {
            return f64::NAN;
        }
        let numerator = self.quick_numerator(count).unwrap_or_else(|| self.numerator(count));
        numerator.max(0.0) / (count * (self.count - correction) as f64)
    }

    /// The numerator in two floats, if that tells how it is rounded: it nearly always does.
    ///
    /// All that is omitted or rounded in `low` is less than `slack`, whatever the sizes of the parts: each of its terms is
    /// rounded once, and so is each of six additions of them.
    #[inline]
    fn quick_numerator(&self, count: f64) -> Option<f64> {
        let ([sum, lost, 0.0], [squares, less, least]) = (self.sum.short()?, self.squares.short()?) else { return None };
        let (product, rest) = two_product(count, squares);
        let (square, more) = two_product(sum, sum);
        if !(product > TINY && (square > TINY || sum == 0.0)) {
            return None; // what rounding loses of such products is no float
        }
        let (high, left) = two_sum(product, -square);
        let terms = [rest, -more, count * less, -2.0 * sum * lost, count * least, -lost * lost, left];
        let [a, b, c, d, e, f, g] = terms;
        let low = ((a + b) + (c + d)) + ((e + f) + g);
        let slack = terms.iter().map(|term| term.abs()).sum::<f64>() * SLACK;
        let (least, most) = (high + (low - slack), high + (low + slack));
        (least == most && least > TINY).then_some(least)
    }

    /// The numerator in as many floats as it takes.
    #[cold]
    fn numerator(&self, count: f64) -> f64 {
        let mut numerator = Exact::default();
        let mut add_product = |a: f64, b: f64| {
            let (product, rest) = two_product(a, b);
            numerator.add_long(product);
            numerator.add_long(rest);
        };
        self.squares.with_parts(|parts| parts.iter().for_each(|&part| add_product(count, part)));
        self.sum.with_parts(|parts| {
            for (i, &a) in parts.iter().enumerate() {
                add_product(-a, a);
                parts[..i].iter().for_each(|&b| add_product(-2.0 * a, b));
            }
        });
        numerator.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in [0, 1) that look random.
    struct Drawn(u64);

    impl Drawn {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut spread = Spread::default();
        values.for_each(|value| spread.add(value));
        spread
    }

    #[test]
    fn two_floats_say_what_as_many_as_it_takes_say() {
        let mut drawn = Drawn(1);
        let (mut quick, mut all) = (0, 0);
        for round in 0..20_000 {
            let count = 1 + (drawn.next() * 20.0) as usize;
            let (middle, scale) = (2_f64.powf(drawn.next() * 80.0), 2_f64.powf(-drawn.next() * 90.0));
            let far = 2_f64.powf(drawn.next() * 640.0 - 500.0);
            let spread = of((0..count).map(|_| match round % 5 {
                0 => drawn.next() * 100.0,                                    // plain
                1 => middle + (drawn.next() * 8.0).floor() * scale,           // they cancel, up to all that they have
                2 => (drawn.next() * 16.0).floor() - 8.0,                     // ties, and variances of 0
                3 => drawn.next() * 2_f64.powf(drawn.next() * 200.0 - 100.0), // of all sizes
                _ => drawn.next() * far,                                      // tiny, and huge
            }));
            let count = spread.count as f64;
            all += i32::from(round % 5 == 0);
            if let Some(found) = spread.quick_numerator(count) {
                quick += i32::from(round % 5 == 0);
                assert_eq!(found.to_bits(), spread.numerator(count).to_bits(), "round {round}");
            }
        }
        assert!(quick * 100 > all * 90, "{quick} of {all}"); // a single value has none
    }

    #[test]
    fn what_was_lost_may_be_larger_than_the_sum() {
        let large = 2_f64.powi(60);
        let mut spread = of([large, 1.0 + 2_f64.powi(-40), 3.0, 2.0 + 2_f64.powi(-44)].into_iter());
        spread.count -= 1;
        spread.sum.add(-large);
        spread.squares.add_long(-large * large);
        let plain = of([1.0 + 2_f64.powi(-40), 3.0, 2.0 + 2_f64.powi(-44)].into_iter());
        assert_eq!(spread.variance(1).to_bits(), plain.variance(1).to_bits());
        assert_eq!(spread.variance(1).to_bits(), (plain.numerator(3.0) / 6.0).to_bits());
    }
}
