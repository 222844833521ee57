//! Monoids, which say how entries are aggregated. They must be associative, but need neither commutativity nor an inverse.

/// An associative operator over what the entries of a window hold.
///
/// An entry holds a `Slot`: often the plain value, which is smaller than its aggregate and cheaper to absorb (one hash
/// against a whole Bloom filter). Several values at one time share a slot. A partial aggregate is an `Agg`.
pub trait Monoid: Send + Sync + 'static {
    type Slot: Clone + Default + Send + Sync;
    type Agg: Clone + Default + Send + Sync;
    /// The error of an operation: `Infallible` where none fails.
    type Failure;

    /// Whether an operation may fail midway, so that the tree must be able to go back.
    const FALLIBLE: bool = false;

    /// Whether the tree has fingers. Without, it is the classic B-tree: searched from the root, with the aggregate of its
    /// subtree in each node; for comparison.
    const FINGERS: bool = true;

    /// Whether the order of values never shows in an aggregate, down to the last bit: then one change is one combine a level.
    fn commutes(&self) -> bool;

    /// The aggregate of one entry.
    fn lift(&self, slot: &Self::Slot) -> Result<Self::Agg, Self::Failure>;

    /// agg := agg * slot.
    fn absorb(&self, agg: &mut Self::Agg, slot: &Self::Slot) -> Result<(), Self::Failure>;

    /// agg := agg * right.
    fn combine(&self, agg: &mut Self::Agg, right: &Self::Agg) -> Result<(), Self::Failure>;

    /// slot := slot * later, for two values at one time.
    fn merge(&self, slot: &mut Self::Slot, later: &Self::Slot) -> Result<(), Self::Failure>;

    /// agg := slot * agg.
    #[inline]
    fn prepend(&self, slot: &Self::Slot, agg: &mut Self::Agg) -> Result<(), Self::Failure> {
        if self.commutes() {
            return self.absorb(agg, slot);
        }
        let mut first = self.lift(slot)?;
        self.combine(&mut first, agg)?;
        *agg = first;
        Ok(())
    }

    /// Whether two aggregates are the same value, for checks.
    fn same(&self, one: &Self::Agg, other: &Self::Agg) -> Result<bool, Self::Failure>;
}

/// A product built from left to right, without spending a combine on the identity.
pub struct Product<'a, M: Monoid> {
    monoid: &'a M,
    value: Option<M::Agg>,
    /// Values and aggregates taken so far.
    pub terms: u64,
}

impl<'a, M: Monoid> Product<'a, M> {
    #[inline]
    pub fn new(monoid: &'a M) -> Self {
        Self { monoid, value: None, terms: 0 }
    }

    #[inline]
    pub fn slot(&mut self, slot: &M::Slot) -> Result<(), M::Failure> {
        self.terms += 1;
        match &mut self.value {
            Some(value) => self.monoid.absorb(value, slot),
            None => {
                self.value = Some(self.monoid.lift(slot)?);
                Ok(())
            }
        }
    }

    #[inline]
    pub fn agg(&mut self, agg: &M::Agg) -> Result<(), M::Failure> {
        self.terms += 1;
        match &mut self.value {
            Some(value) => self.monoid.combine(value, agg),
            None => {
                self.value = Some(agg.clone());
                Ok(())
            }
        }
    }

    #[inline]
    pub fn finish(self) -> Option<M::Agg> {
        self.value
    }

    /// How many combines it took.
    #[inline]
    pub fn combines(&self) -> u64 {
        self.terms.saturating_sub(1)
    }
}
