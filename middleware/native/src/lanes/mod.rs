//! Lanes of one unit: for each key a detector, its history, and snapshots to go back to.

pub mod disturbance;
pub mod emission;
pub mod lane;
#[cfg(feature = "python")]
pub mod python;
pub mod replay;
pub mod runs;
pub mod snapshots;
#[cfg(test)]
mod tests;
