//! Numbers that look random and are the same in each run, for tests against plain models.

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Drawn(pub u64);

impl Drawn {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to before `count`.
    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}
