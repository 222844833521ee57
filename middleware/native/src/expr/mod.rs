//! Expressions over fields: of rows, one at a time, and of columns, as programs; and what is selected and projected with them.

pub mod aggregate;
#[cfg(feature = "python")]
pub mod expression;
pub mod pattern;
pub mod program;
#[cfg(feature = "python")]
pub mod projection;
#[cfg(feature = "python")]
pub mod python;
#[cfg(feature = "python")]
pub mod selection;
#[cfg(feature = "python")]
pub mod tuples;
pub mod value;
