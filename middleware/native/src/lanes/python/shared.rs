//! The settings and functions that all lanes of a unit share.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::event::order::NEVER;
use crate::lanes::python::calls::LaneCalls;
use crate::lanes::python::counts::Counts;
use crate::lanes::python::stamp::Stamp;
use crate::lanes::python::state::Names;

/// Lanes of many keys go back often and by little: their snapshots are closer together by this.
const KEYED: usize = 4;

/// The settings of the unit: `middleware.ordering.lanes.lane.Settings`.
#[derive(FromPyObject)]
pub struct Settings {
    spacing: usize,
    retraction: String,
    stop_on_error: bool,
    keeps_history: bool,
}

pub struct Shared {
    pub calls: Py<LaneCalls>,
    /// Events of a lane between two snapshots.
    pub spacing: usize,
    is_keyed: bool,
    pub full_retraction: bool,
    pub stop_on_error: bool,
    /// Whether lanes can go back. If not, events come in order and are final as they come.
    pub keeps_history: bool,
    /// Whether the detector leaves snapshots to the middleware, and its `__dict__` is all its state.
    pub is_plain: bool,
    /// The names of the attributes of a plain state.
    pub names: OnceLock<Names>,
    pub stamp: Stamp,
    pub counts: Py<Counts>,
    /// Failures that became final and were not reported yet.
    pub failures: Vec<Py<PyAny>>,
    /// The latest time of the results that were forgotten, as they are final.
    pub newest: i64,
}

impl Shared {
    pub fn new(
        py: Python<'_>,
        settings: &Settings,
        calls: Py<LaneCalls>,
        stamp: Stamp,
        is_keyed: bool,
        is_plain: bool,
    ) -> PyResult<Self> {
        let mut shared = Self {
            calls,
            spacing: 1,
            is_keyed,
            full_retraction: false,
            stop_on_error: false,
            is_plain,
            keeps_history: true,
            names: OnceLock::new(),
            stamp,
            counts: Py::new(py, Counts::default())?,
            failures: Vec::new(),
            newest: NEVER,
        };
        shared.configure(settings);
        Ok(shared)
    }

    /// Take changed settings.
    pub fn configure(&mut self, settings: &Settings) {
        self.spacing = if self.is_keyed { (settings.spacing / KEYED).max(1) } else { settings.spacing };
        self.full_retraction = settings.retraction == "full";
        self.keeps_history = settings.keeps_history;
        // without a history there is no state to go back to
        self.stop_on_error = !settings.keeps_history || settings.stop_on_error;
    }
}
