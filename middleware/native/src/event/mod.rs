//! Events as objects of Python: their fields, and their total order.

pub mod buffer;
pub mod by_class;
pub mod columns;
pub mod entry;
pub mod fields;
pub mod held;
pub mod model;
pub mod placing;
pub mod search;
pub mod splice;
pub mod waiting;
pub mod wholes;
