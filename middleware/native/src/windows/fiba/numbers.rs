//! Built-in monoids over numbers: count, sum of integers, smallest and largest, range, first and last, how often the largest.

use std::convert::Infallible;

use super::monoid::Monoid;

/// Numbers that a window can hold as they are.
pub trait Scalar: Copy + Default + Send + Sync + PartialEq + 'static {
    /// The smaller; -0.0 comes before 0.0, and a NaN wins.
    fn least(self, other: Self) -> Self;
    /// The larger; 0.0 comes after -0.0, and a NaN wins.
    fn most(self, other: Self) -> Self;
    /// Whether two numbers are equal to the bit.
    fn same(self, other: Self) -> bool;
}

impl Scalar for i64 {
    #[inline]
    fn least(self, other: Self) -> Self {
        Ord::min(self, other)
    }

    #[inline]
    fn most(self, other: Self) -> Self {
        Ord::max(self, other)
    }

    fn same(self, other: Self) -> bool {
        self == other
    }
}

impl Scalar for f64 {
    #[inline]
    fn least(self, other: Self) -> Self {
        if self < other {
            self
        } else if other < self {
            other
        } else if self == other {
            if self.is_sign_negative() { self } else { other }
        } else {
            f64::NAN
        }
    }

    #[inline]
    fn most(self, other: Self) -> Self {
        -(-self).least(-other)
    }

    fn same(self, other: Self) -> bool {
        self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
    }
}

/// Write down a monoid whose slots are its aggregates.
macro_rules! monoid {
    ($type:ty, [$($generics:tt)*], $agg:ty, $commutes:expr, $combine:expr, $same:expr) => {
        #[allow(clippy::redundant_closure_call, reason = "the closure is an argument of the macro")]
        impl<$($generics)*> Monoid for $type {
            type Slot = $agg;
            type Agg = $agg;
            type Failure = Infallible;

            #[inline]
            fn commutes(&self) -> bool {
                $commutes
            }

            #[inline]
            fn lift(&self, slot: &$agg) -> Result<$agg, Infallible> {
                Ok(*slot)
            }

            #[inline]
            fn absorb(&self, agg: &mut $agg, slot: &$agg) -> Result<(), Infallible> {
                self.combine(agg, slot)
            }

            #[inline]
            fn combine(&self, agg: &mut $agg, right: &$agg) -> Result<(), Infallible> {
                let combine: fn($agg, $agg) -> $agg = $combine;
                *agg = combine(*agg, *right);
                Ok(())
            }

            #[inline]
            fn merge(&self, slot: &mut $agg, later: &$agg) -> Result<(), Infallible> {
                self.combine(slot, later)
            }

            fn same(&self, one: &$agg, other: &$agg) -> Result<bool, Infallible> {
                let same: fn($agg, $agg) -> bool = $same;
                Ok(same(*one, *other))
            }
        }
    };
}

/// How many values.
pub struct Count;
monoid!(Count, [], i64, true, |a, b| a + b, |a, b| a == b);

/// The sum of integers; 128 bits hold any sum of 64-bit ones.
pub struct SumInt;
monoid!(SumInt, [], i128, true, |a, b| a + b, |a, b| a == b);

#[derive(Default)]
pub struct Min<T>(pub T);
monoid!(Min<T>, [T: Scalar], T, true, T::least, T::same);

#[derive(Default)]
pub struct Max<T>(pub T);
monoid!(Max<T>, [T: Scalar], T, true, T::most, T::same);

/// The smallest and the largest.
#[derive(Default)]
pub struct Range<T>(pub T);
monoid!(Range<T>, [T: Scalar], (T, T), true, |a, b| (a.0.least(b.0), a.1.most(b.1)), |a, b| a.0.same(b.0) && a.1.same(b.1));

/// The oldest value.
#[derive(Default)]
pub struct First<T>(pub T);
monoid!(First<T>, [T: Scalar], T, false, |a, _| a, T::same);

/// The youngest value.
#[derive(Default)]
pub struct Last<T>(pub T);
monoid!(Last<T>, [T: Scalar], T, false, |_, b| b, T::same);

/// The largest, and how often it occurs.
#[derive(Default)]
pub struct MaxCount<T>(pub T);
monoid!(
    MaxCount<T>,
    [T: Scalar],
    (T, i64),
    true,
    |a, b| {
        let most = a.0.most(b.0);
        let often = |part: (T, i64)| if part.0 == most || part.0.same(most) { part.1 } else { 0 };
        (most, often(a) + often(b))
    },
    |a, b| a.0.same(b.0) && a.1 == b.1
);
