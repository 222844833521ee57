//! When the lanes are due: a time each, and the least of each block of them, so that most are not looked at in vain.

/// No window is due.
pub const NEVER: i64 = i64::MAX;

const BLOCK: usize = 64;

#[derive(Default)]
pub struct Agenda {
    times: Vec<i64>,
    /// No time in the block is earlier.
    least: Vec<i64>,
}

impl Agenda {
    /// When a lane is due.
    #[inline]
    pub fn get(&self, lane: usize) -> i64 {
        self.times[lane]
    }

    /// Put a lane down for a time. O(1).
    #[inline]
    pub fn set(&mut self, lane: usize, time: i64) {
        if lane >= self.times.len() {
            self.times.resize(lane + 1, NEVER);
            self.least.resize(lane / BLOCK + 1, NEVER);
        }
        self.times[lane] = time;
        let least = &mut self.least[lane / BLOCK];
        *least = time.min(*least);
    }

    /// The lanes that are due until `upto`, by number: each is to be put down anew. O(lanes / 64 + those near due ones).
    pub fn due(&mut self, upto: i64, due: &mut Vec<usize>) {
        for (number, (least, block)) in self.least.iter_mut().zip(self.times.chunks(BLOCK)).enumerate() {
            if *least > upto {
                continue;
            }
            *least = NEVER;
            for (at, &time) in block.iter().enumerate() {
                if time <= upto {
                    due.push(number * BLOCK + at);
                } else {
                    *least = time.min(*least);
                }
            }
        }
    }
}
