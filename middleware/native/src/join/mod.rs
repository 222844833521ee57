//! Joins: pairs of tuples near each other in time.

#[cfg(feature = "python")]
pub mod python;
pub mod sides;
