//! Exact sums of floats: the sum is kept as it is, and rounded once, when it is asked for.
//!
//! A sum that was rounded on the way would depend on the shape of the tree, and so on the order of arrival, in its last bits.
//! Expansions of Shewchuk (1997): a few floats that do not overlap and whose sum is exact; two do for most data.

const INLINE: usize = 3;

/// Above this a sum of many might overflow on the way; such values are kept apart, scaled down.
const HUGE: f64 = f64::from_bits(0x7BF0_0000_0000_0000); // 2^960
const SCALE: f64 = f64::from_bits(0x47F0_0000_0000_0000); // 2^128

#[derive(Clone, Default)]
pub struct Exact {
    few: [f64; INLINE],
    len: u8,
    more: Option<Box<More>>,
}

/// What most sums never need.
#[derive(Clone, Default)]
struct More {
    /// All parts, once they are more than a few.
    parts: Vec<f64>,
    /// Parts of the sum of huge values, divided by `SCALE`.
    huge: Vec<f64>,
    /// The sum of infinities and NaNs.
    special: f64,
}

/// a + b, and what rounding lost of it (Knuth).
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// a * b, and what rounding lost of it (Dekker). Exact unless it overflows or underflows.
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
fn grow(parts: &mut Vec<f64>, mut x: f64) {
    let mut kept = 0;
    for i in 0..parts.len() {
        let (sum, lost) = two_sum(x, parts[i]);
        if lost != 0.0 {
            parts[kept] = lost;
            kept += 1;
        }
        x = sum;
    }
    parts.truncate(kept);
    if x != 0.0 {
        parts.push(x);
    }
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

    #[inline]
    fn add_small(&mut self, mut x: f64) {
        let (mut parts, mut kept) = ([0.0; INLINE + 1], 0);
        for &part in &self.few[..self.len as usize] {
            let (sum, lost) = two_sum(x, part);
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
        if kept > INLINE {
            self.more = Some(Box::new(More { parts: parts.to_vec(), ..More::default() }));
            self.len = 0;
            return;
        }
        self.few.copy_from_slice(&parts[..INLINE]);
        self.len = kept as u8;
    }

    #[cold]
    fn add_any(&mut self, x: f64) {
        let few = &self.few[..self.len as usize];
        let more = self.more.get_or_insert_with(|| Box::new(More { parts: few.to_vec(), ..More::default() }));
        self.len = 0;
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
        for &part in other.parts() {
            self.add(part);
        }
        if let Some(more) = &other.more {
            for &part in &more.huge {
                self.add_any(0.0);
                let own = self.more.as_mut().expect("just made");
                grow(&mut own.huge, part);
            }
            if more.special != 0.0 {
                self.add_any(more.special);
            }
        }
    }

    /// What it is made of, smallest first; without huge and special values.
    #[inline]
    pub fn parts(&self) -> &[f64] {
        match &self.more {
            Some(more) => &more.parts,
            None => &self.few[..self.len as usize],
        }
    }

    /// The sum, correctly rounded; infinite where it is beyond the floats, NaN if it is none.
    pub fn value(&self) -> f64 {
        let Some(more) = &self.more else { return rounded(self.parts()) };
        if more.special != 0.0 {
            return if more.special.is_nan() { f64::NAN } else { more.special };
        }
        if more.huge.is_empty() {
            return rounded(&more.parts);
        }
        let huge: Vec<f64> = more.huge.iter().map(|part| part * SCALE).collect();
        if huge.iter().any(|part| part.is_infinite()) {
            return huge[huge.len() - 1];
        }
        let mut parts = more.parts.clone();
        for part in huge {
            grow(&mut parts, part);
        }
        rounded(&parts)
    }

    /// Whether there are infinities, NaNs, or values so large that products of them are out of range.
    pub fn is_extreme(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.special != 0.0 || !more.huge.is_empty())
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
