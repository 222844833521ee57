//! The identities of events that are objects.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::event::python::fields::Stamps;
use crate::sequence::encoder::Encoder;

impl Encoder {
    /// An event, which is an object.
    pub fn event(&mut self, event: &Bound<'_, PyAny>) -> PyResult<()> {
        let stamps = Stamps::get(event.py())?;
        let (source, id) = (stamps.source(event)?, stamps.id(event)?);
        if let Ok(id) = id.extract::<i64>() {
            self.pair(source.to_str()?, id);
        } else if let Ok(id) = id.extract::<u64>() {
            self.array(2);
            self.text(source.to_str()?);
            self.headed(0xcf, &id.to_be_bytes());
        } else {
            return Err(PyValueError::new_err("the id of an event does not fit 64 bits"));
        }
        Ok(())
    }
}
