//! What FiBA is measured against (VLDB 2019, section 5): the same language, the same monoids, the same columns.
//!
//! A classic B-tree with augmented aggregates takes events in any order; the others know nothing of disorder.

mod classic;
mod daba_lite;
mod in_order;
pub mod python;
mod reactive;
mod recompute;
mod two_stacks;
