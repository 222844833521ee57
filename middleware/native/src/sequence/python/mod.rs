//! Sequence queries over events that are objects of Python, or rows of columns.

mod arriving;
mod block;
mod condition;
mod entries;
mod identity;
mod keys;
pub mod matcher;
mod plan;
mod results;
pub mod runs;
