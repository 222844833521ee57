//! Blocks as bytes: Arrow's stream of one batch, and rows in MessagePack.

pub mod cursor;
pub mod flat;
pub mod ipc;
pub mod msgpack;
pub mod packing;
#[cfg(test)]
mod tests;
