//! Sequence queries: stacks, search and conditions; the twin of `detectors.sequence.strategies.matcher`.

mod aggregate;
mod arrivals;
mod blocks;
mod changes;
mod condition;
mod encoder;
mod entries;
mod matching;
mod negation;
mod partitions;
mod pattern;
#[cfg(feature = "python")]
pub mod python;
mod running;
mod search;
mod stack;
#[cfg(test)]
mod tests;
