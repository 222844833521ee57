//! Sequence queries: stacks, search and conditions; the twin of `detectors.sequence.matcher`.

mod aggregate;
mod arriving;
mod block;
mod changes;
mod entries;
mod expression;
mod identity;
mod matcher;
mod partitions;
mod plan;
mod runs;
mod search;
mod stack;
mod standing;
mod value;

pub use expression::Expression;
pub use matcher::SequenceMatcher;
pub use partitions::{Scattered, whole};
pub use runs::SequenceRuns;
pub use value::{Unsure, Value};
