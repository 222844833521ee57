//! Windows in step with each other (hopping, tumbling) by key: what `detectors.window.windows_operation` does, for plain numbers.

mod aggregate;
mod correcting;
mod folds;
mod identity;
mod lane;
mod pane;
mod passing;
mod plan;
#[cfg(feature = "python")]
pub mod python;
mod results;
mod sliding;
mod states;
#[cfg(test)]
mod tests;
mod windows;
