//! Windows: panes where they are in step with each other, trees elsewhere.

pub mod fiba;
#[cfg(feature = "python")]
pub mod panes;
