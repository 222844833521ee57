//! Sequence queries: stacks, search and conditions; the twin of `detectors.sequence.matcher`.

mod arriving;
mod block;
mod changes;
mod entries;
mod identity;
pub mod matcher;
mod partitions;
mod plan;
pub mod runs;
mod search;
mod stack;
mod standing;
