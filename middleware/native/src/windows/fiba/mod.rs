//! FiBA, the finger B-tree aggregator: sliding windows over events that arrive out of order.
//!
//! Tangwongsan, Hirzel and Schneider: Sub-O(log n) out-of-order sliding-window aggregation (VLDB 2019).

#[cfg(feature = "baselines")]
#[path = "../../../../../tests/slackline_benchmarks/baselines/mod.rs"]
pub mod baselines;
mod bulk;
mod check;
mod evict;
pub mod exact;
mod insert;
pub mod moments;
mod monoid;
pub mod numbers;
#[cfg(feature = "python")]
pub mod python;
mod query;
mod repair;
mod search;
mod sketches;
#[cfg(test)]
mod tests;
mod tree;
mod undo_log;
