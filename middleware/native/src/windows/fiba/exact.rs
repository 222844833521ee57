//! Exact sums of floats: the sum is kept as it is, and rounded once, when it is asked for.
//!
//! A sum that was rounded on the way would depend on the shape of the tree, and so on the order of arrival, in its last bits.
//! So a few floats are kept whose sum is exact, after the expansions of Shewchuk (1997); two do for most data.

use std::mem::take;

/// Above this a sum of many might overflow on the way; such values are kept apart, scaled down.
const HUGE: f64 = f64::from_bits(0x7BF0_0000_0000_0000); // 2^960
const SCALE: f64 = f64::from_bits(0x47F0_0000_0000_0000); // 2^128

/// The sum is `sum + lost + rest`, exactly.
#[derive(Clone, Default)]
pub struct Exact {
    /// The sum as plain addition gives it.
    sum: f64,
    /// The rounding error of the sum, and the rounding error of that.
    lost: f64,
    rest: f64,
    more: Option<Box<More>>,
}

/// State that most sums never need.
#[derive(Clone, Default)]
struct More {
    /// All parts, once three do not hold them: growing in size, and apart.
    parts: Vec<f64>,
    /// Parts of the sum of huge values, divided by `SCALE`.
    huge: Vec<f64>,
    /// The sum of infinities and NaNs.
    special: f64,
}

/// a + b, and what rounding lost of it (Knuth).
#[inline]
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// a * b, and what rounding lost of it (Dekker). Exact unless it overflows or underflows.
#[inline]
pub fn two_product(a: f64, b: f64) -> (f64, f64) {
    let halves = |x: f64| {
        let c = 134_217_729.0 * x; // 2^27 + 1
        let high = c - (c - x);
        (high, x - high)
    };
    let product = a * b;
    let ((a1, a2), (b1, b2)) = (halves(a), halves(b));
    (product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2))
}

/// Add to parts of growing size that do not overlap.
fn grow(parts: &mut Vec<f64>, x: f64) {
    let count = parts.len();
    parts.push(0.0);
    let kept = grow_in(parts, count, x);
    parts.truncate(kept);
}

/// Add to the first `count` of the parts, with room for one more; return how many there are then.
fn grow_in(parts: &mut [f64], count: usize, mut x: f64) -> usize {
    let mut kept = 0;
    for i in 0..count {
        let (sum, lost) = two_sum(x, parts[i]);
        if lost != 0.0 {
            parts[kept] = lost;
            kept += 1;
        }
        x = sum;
    }
    if x != 0.0 {
        parts[kept] = x;
        kept += 1;
    }
    kept
}

impl Exact {
    /// Add a value. O(1) but for sums of very many different sizes.
    #[inline]
    pub fn add(&mut self, x: f64) {
        if self.more.is_none() && x.abs() <= HUGE {
            self.add_small(x);
        } else {
            self.add_any(x);
        }
    }

    /// Add a number with more bits than most sums have room for, as products have: no check on the way.
    #[inline]
    pub fn add_long(&mut self, x: f64) {
        if self.more.is_some() || x.abs() > HUGE || x.is_nan() {
            return self.add_any(x);
        }
        let (sum, error) = two_sum(self.sum, x);
        let (lost, error) = two_sum(self.lost, error);
        let (rest, error) = two_sum(self.rest, error);
        (self.sum, self.lost, self.rest) = (sum, lost, rest);
        if error != 0.0 {
            self.add_any(error);
        }
    }

    #[inline]
    fn add_small(&mut self, x: f64) {
        let (sum, error) = two_sum(self.sum, x);
        let (lost, error) = two_sum(self.lost, error); // whatever was lost: nobody can foretell whether something was
        (self.sum, self.lost) = (sum, lost);
        if error == 0.0 {
            return;
        }
        let (rest, error) = two_sum(self.rest, error);
        self.rest = rest;
        if error != 0.0 {
            self.add_any(error);
        }
    }

    #[cold]
    fn add_any(&mut self, x: f64) {
        let three = [take(&mut self.rest), take(&mut self.lost), take(&mut self.sum)];
        let more = self.more.get_or_insert_with(Box::default);
        for part in three {
            grow(&mut more.parts, part);
        }
        if !x.is_finite() {
            more.special += x;
        } else if x.abs() > HUGE {
            grow(&mut more.huge, x / SCALE);
        } else {
            grow(&mut more.parts, x);
        }
    }

    /// Add another sum.
    #[inline]
    pub fn join(&mut self, other: &Self) {
        self.add(other.sum);
        if other.lost != 0.0 {
            self.add(other.lost);
        }
        if other.rest != 0.0 {
            self.add(other.rest);
        }
        if let Some(more) = &other.more {
            self.join_more(more);
        }
    }

    #[cold]
    fn join_more(&mut self, more: &More) {
        self.add_any(0.0);
        for &part in &more.parts {
            self.add_any(part);
        }
        if let Some(own) = &mut self.more {
            for &part in &more.huge {
                grow(&mut own.huge, part);
            }
            own.special += more.special;
        }
    }

    /// Itself as lists of floats.
    pub fn save(&self) -> Vec<Vec<f64>> {
        let three = vec![self.sum, self.lost, self.rest];
        match &self.more {
            None => vec![three],
            Some(more) => vec![three, more.parts.clone(), more.huge.clone(), vec![more.special]],
        }
    }

    /// Restore the state that `save` gave; None for anything else.
    pub fn load(saved: &[Vec<f64>]) -> Option<Self> {
        let of_three = |three: &[f64], more| match *three {
            [sum, lost, rest] => Some(Self { sum, lost, rest, more }),
            _ => None,
        };
        match saved {
            [three] => of_three(three, None),
            [three, parts, huge, special] if special.len() == 1 => {
                let more = More { parts: parts.clone(), huge: huge.clone(), special: special[0] };
                of_three(three, Some(Box::new(more)))
            }
            _ => None,
        }
    }

    /// Floats whose sum it is, to `what`; without huge and special values.
    #[inline]
    pub fn with_parts<T>(&self, what: impl FnOnce(&[f64]) -> T) -> T {
        match &self.more {
            Some(more) => what(&more.parts),
            None if self.rest == 0.0 => what(&[self.lost, self.sum]),
            None => what(&[self.rest, self.lost, self.sum]),
        }
    }

    /// The sum, correctly rounded; infinite where it is beyond the floats, NaN if it is none.
    #[inline]
    pub fn value(&self) -> f64 {
        match &self.more {
            None if self.rest == 0.0 => self.sum + self.lost, // of two floats, which is rounded correctly
            None => {
                let (mut parts, mut count) = ([0.0; 3], 0);
                for part in [self.rest, self.lost, self.sum] {
                    count = grow_in(&mut parts, count, part);
                }
                rounded(&parts[..count])
            }
            Some(more) => more.value(),
        }
    }

    /// Whether three floats hold it: then it can be added to quickly, and what was added can be subtracted again.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.more.is_none()
    }

    /// The sum as plain addition gives it, what rounding lost of it, and what rounding lost of that; of short sums alone.
    #[inline]
    pub fn short(&self) -> Option<[f64; 3]> {
        self.is_short().then_some([self.sum, self.lost, self.rest])
    }

    /// Whether there are infinities, NaNs, or values so large that products of them are out of range.
    pub fn is_extreme(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.special != 0.0 || !more.huge.is_empty())
    }
}

impl More {
    fn value(&self) -> f64 {
        if self.special != 0.0 {
            return if self.special.is_nan() { f64::NAN } else { self.special };
        }
        if self.huge.is_empty() {
            return rounded(&self.parts);
        }
        let huge: Vec<f64> = self.huge.iter().map(|part| part * SCALE).collect();
        if huge.iter().any(|part| part.is_infinite()) {
            return huge[huge.len() - 1];
        }
        let mut parts = self.parts.clone();
        for part in huge {
            grow(&mut parts, part);
        }
        rounded(&parts)
    }
}

/// The sum of parts that do not overlap, correctly rounded (as in Python's `math.fsum`).
fn rounded(parts: &[f64]) -> f64 {
    let Some((&top, rest)) = parts.split_last() else { return 0.0 };
    let mut high = top;
    let mut low = 0.0;
    let mut left = rest.len();
    while left > 0 {
        left -= 1;
        let sum = high + rest[left];
        low = rest[left] - (sum - high);
        high = sum;
        if low != 0.0 {
            break;
        }
    }
    // Halfway cases were rounded to even, whatever is below; what is below decides.
    if left > 0 && ((low < 0.0 && rest[left - 1] < 0.0) || (low > 0.0 && rest[left - 1] > 0.0)) {
        let twice = low * 2.0;
        let further = high + twice;
        if twice == further - high {
            high = further;
        }
    }
    high
}
