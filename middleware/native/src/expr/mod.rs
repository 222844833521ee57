//! Expressions over fields, one tree for rows, one at a time, and for columns; and what is selected and projected with them.

pub mod node;
pub mod pattern;
pub mod program;
#[cfg(feature = "python")]
pub mod python;
pub mod value;
