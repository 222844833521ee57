//! Events as objects of Python: their fields, and their total order.

#[cfg(feature = "python")]
pub mod buffer;
#[cfg(feature = "python")]
pub mod by_class;
#[cfg(feature = "python")]
pub mod columns;
#[cfg(feature = "python")]
pub mod entry;
#[cfg(feature = "python")]
pub mod fields;
#[cfg(feature = "python")]
pub mod held;
#[cfg(feature = "python")]
pub mod model;
#[cfg(feature = "python")]
pub mod placing;
pub mod search;
pub mod splice;
#[cfg(feature = "python")]
pub mod waiting;
#[cfg(feature = "python")]
pub mod wholes;
