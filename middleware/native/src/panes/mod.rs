//! Windows in step with each other (hopping, tumbling) by key: what `detectors.window.running` does, for plain numbers.

mod aggregate;
mod key;
mod lane;
mod made;
mod plan;
mod running;
mod taken;
pub mod windows;
