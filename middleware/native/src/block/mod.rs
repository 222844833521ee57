//! Events of one type as columns: made, read and written.

pub mod arrival;
pub mod arrow;
pub mod batch;
pub mod cells;
pub mod form;
pub mod gathered;
pub mod growing;
pub mod kept;
pub mod naming;
#[cfg(feature = "python")]
pub mod python;
pub mod reading;
pub mod stamping;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod waiting;
pub mod wire;
