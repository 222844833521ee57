//! Windows in step with each other (hopping, tumbling) by key: what `detectors.window.windows_operation` does, for plain numbers.

mod aggregate;
mod correcting;
mod folds;
mod key;
mod lane;
mod named;
mod pane;
mod passing;
mod plan;
mod results;
mod sliding;
mod states;
mod taken;
pub mod windows;
