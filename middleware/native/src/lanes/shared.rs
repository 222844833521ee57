//! What all lanes of a unit have in common.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::event::entry::NEVER;
use crate::event::twins::Twins;
use crate::lanes::counts::Counts;
use crate::lanes::stamp::Stamp;
use crate::lanes::state::Names;

/// Lanes of many keys go back often and by little: their snapshots are closer together by this.
const KEYED: usize = 4;

pub struct Shared {
    pub twins: &'static Twins,
    /// Events of a lane between two snapshots.
    pub spacing: usize,
    is_keyed: bool,
    pub full_retraction: bool,
    pub stop_on_error: bool,
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
    /// From the settings of the unit, `middleware.ordering.lane.Settings`.
    pub fn new(settings: &Bound<'_, PyAny>, detector: &Bound<'_, PyAny>, stamp: Stamp, is_keyed: bool) -> PyResult<Self> {
        let py = settings.py();
        let base = py.import("middleware.model.detector")?.getattr("Detector")?;
        let inherits = |name: &str| Ok::<_, PyErr>(detector.get_type().getattr(name)?.is(&base.getattr(name)?));
        let has_dict_only = py.import("middleware.model.attributes")?.call_method1("has_dict_only", (detector.get_type(),))?;
        let mut shared = Self {
            twins: Twins::get(py)?,
            spacing: 1,
            is_keyed,
            full_retraction: false,
            stop_on_error: false,
            is_plain: inherits("snapshot")? && inherits("restore")? && has_dict_only.extract()?,
            names: OnceLock::new(),
            stamp,
            counts: Py::new(py, Counts::default())?,
            failures: Vec::new(),
            newest: NEVER,
        };
        shared.configure(settings)?;
        Ok(shared)
    }

    /// Take changed settings.
    pub fn configure(&mut self, settings: &Bound<'_, PyAny>) -> PyResult<()> {
        let spacing: usize = settings.getattr("spacing")?.extract()?;
        self.spacing = if self.is_keyed { (spacing / KEYED).max(1) } else { spacing };
        self.full_retraction = settings.getattr("retraction")?.is(&self.twins.full_retraction);
        self.stop_on_error = settings.getattr("stop_on_error")?.extract()?;
        Ok(())
    }
}
