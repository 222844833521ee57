//! Windows in step with each other (hopping, tumbling) by key: what `detectors.window.running` does, for plain numbers.

mod agenda;
mod aggregate;
mod correcting;
mod key;
mod lane;
mod named;
mod passing;
mod plan;
mod results;
mod states;
mod taken;
pub mod windows;
