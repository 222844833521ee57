//! Events of one type as columns: made, read and written.

pub mod arrow;
pub mod blocks;
pub mod cells;
pub mod event_batch;
pub mod export;
pub mod gathering;
pub mod growing;
pub mod held_blocks;
pub mod naming;
pub mod repacking;
pub mod results;
pub mod spelling;
pub mod tables;
pub mod wire;
