//! Lanes of one unit: for each key a detector, its history, and snapshots to go back to.

pub mod calls;
pub mod counts;
pub mod detector;
pub mod disturbance;
pub mod emission;
pub mod keyless;
pub mod keys;
pub mod lane;
pub mod python;
pub mod replay;
pub mod shared;
pub mod snapshots;
pub mod stamp;
pub mod state;
pub mod writing;
