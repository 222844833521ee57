//! Blocks of events, each of which lives as long as one of its rows is on a stack.

pub struct Blocks<B> {
    all: Vec<Option<B>>,
    /// How many rows of each are held.
    counts: Vec<u32>,
    free: Vec<u32>,
    /// Blocks of which no row was held at some time in this step.
    idle: Vec<u32>,
}

impl<B> Default for Blocks<B> {
    fn default() -> Self {
        Self { all: Vec::new(), counts: Vec::new(), free: Vec::new(), idle: Vec::new() }
    }
}

impl<B> Blocks<B> {
    pub fn open(&mut self, block: B) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.counts.push(0);
            self.all.len() as u32 - 1
        });
        self.all[number as usize] = Some(block);
        self.idle.push(number);
        number
    }

    #[inline]
    pub fn get(&self, number: u32) -> &B {
        self.all[number as usize].as_ref().expect("blocks of which rows are held are there")
    }

    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut B {
        self.all[number as usize].as_mut().expect("blocks of which rows are held are there")
    }

    /// One more row of a block is held.
    #[inline]
    pub fn hold(&mut self, number: u32) {
        self.counts[number as usize] += 1;
    }

    /// One row less is held.
    #[inline]
    pub fn release(&mut self, number: u32) {
        let count = &mut self.counts[number as usize];
        *count -= 1;
        if *count == 0 {
            self.idle.push(number);
        }
    }

    /// Forget blocks of which no row is held any more: at the end of a step, whose changes may hold rows of them.
    pub fn sweep(&mut self) {
        for number in self.idle.drain(..) {
            if self.counts[number as usize] == 0 && self.all[number as usize].take().is_some() {
                self.free.push(number);
            }
        }
    }

    /// Every invariant; `held`: how many rows are held.
    pub fn check(&self, held: usize) {
        assert_eq!(self.counts.iter().map(|count| *count as usize).sum::<usize>(), held, "counts of rows are off");
        assert!(
            self.all.iter().zip(&self.counts).all(|(block, count)| block.is_some() == (*count > 0)),
            "a block is kept, or gone"
        );
    }
}
