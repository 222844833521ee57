//! Joins of events, which are objects or rows of columns.

mod arrivals;
pub mod pairs;
