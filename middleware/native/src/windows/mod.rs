//! Windows: panes where they are in step with each other, trees elsewhere.

pub mod fiba;
pub mod panes;
