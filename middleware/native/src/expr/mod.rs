//! Expressions over fields: of rows, one at a time, and of columns, as programs; and what is selected and projected with them.

pub mod aggregate;
pub mod expression;
pub mod pattern;
pub mod program;
pub mod projection;
pub mod selection;
pub mod tuples;
pub mod value;
