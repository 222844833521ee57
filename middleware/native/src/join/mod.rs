//! Joins: pairs of tuples near each other in time.

pub mod arrivals;
pub mod pairs;
