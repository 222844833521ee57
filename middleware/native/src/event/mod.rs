//! Events in their total order: where one stands, what waits, and what a barrier holds back.

pub mod held;
pub mod order;
#[cfg(feature = "python")]
pub mod python;
pub mod search;
pub mod splice;
pub mod survey;
