//! Sequence queries: stacks, search and conditions; the twin of `detectors.sequence.strategies.matcher`.

#[cfg(feature = "python")]
mod arriving;
#[cfg(feature = "python")]
mod block;
#[cfg(feature = "python")]
mod changes;
#[cfg(feature = "python")]
mod entries;
#[cfg(feature = "python")]
mod identity;
#[cfg(feature = "python")]
pub mod matcher;
#[cfg(feature = "python")]
mod partitions;
#[cfg(feature = "python")]
mod plan;
#[cfg(feature = "python")]
pub mod runs;
#[cfg(feature = "python")]
mod search;
mod stack;
#[cfg(feature = "python")]
mod standing;
