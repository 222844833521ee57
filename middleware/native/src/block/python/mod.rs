//! Blocks as Python sees them: of events that are objects, and for Arrow.

pub mod blocks;
pub mod event_batch;
pub mod export;
pub mod gathering;
pub mod growing;
pub mod held_blocks;
mod import;
pub mod repacking;
pub mod results;
mod scalar;
pub mod spelling;
