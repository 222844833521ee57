//! Events as objects of Python: their fields, and what is kept of them in order.

pub mod buffer;
pub mod by_class;
pub mod columns;
pub mod entry;
pub mod fields;
pub mod held;
pub mod model;
pub mod waiting;
pub mod wholes;
