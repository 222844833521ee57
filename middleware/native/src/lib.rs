//! The core of Slackline: its hot data structures. Tests hold many of them against readable models in Python (`tests/oracles`).
//!
//! It calls back into Python for all that is rare (results, failures, ties in the order, states that are not plain), so that
//! there is one account of what those mean. What it calls it is given (`event::python::model`, `lanes::python::calls`, arguments of
//! constructors): it imports nothing of Slackline by name.

#![cfg_attr(not(feature = "python"), allow(dead_code, unused_imports, reason = "bindings alone use most of the logic"))]

mod block;
#[cfg(test)]
mod drawing;
mod event;
mod expr;
mod hashing;
mod ingress;
mod join;
mod lanes;
mod sequence;
mod windows;

#[cfg(feature = "python")]
use pyo3::prelude::*;

// pyo3 would else declare that no thread needs the interpreter's lock, which nobody has tried.
#[cfg(feature = "python")]
#[pymodule(gil_used = true)]
mod _core {
    #[pymodule_export]
    use crate::block::python::blocks::{Block, BlockReader};
    #[pymodule_export]
    use crate::block::python::event_batch::{EventBatch, Interleaving};
    #[pymodule_export]
    use crate::block::python::gathering::Gathering;
    #[pymodule_export]
    use crate::block::python::growing::in_columns;
    #[pymodule_export]
    use crate::block::python::held_blocks::{HeldBlocks, joined};
    #[pymodule_export]
    use crate::block::python::repacking::{block_of, pack};
    #[pymodule_export]
    use crate::block::python::results::result_block;
    #[pymodule_export]
    use crate::block::python::spelling::spelled_out;
    #[pymodule_export]
    use crate::event::python::buffer::{in_time, merge, split};
    #[pymodule_export]
    use crate::event::python::by_class::by_class;
    #[pymodule_export]
    use crate::event::python::columns::{clock_moves, column_of, span, survey_events};
    #[pymodule_export]
    use crate::event::python::fields::PlainFields;
    #[pymodule_export]
    use crate::event::python::held::HeldEvents;
    #[pymodule_export]
    use crate::event::python::model::give_model;
    #[pymodule_export]
    use crate::event::python::waiting::Waiting;
    #[pymodule_export]
    use crate::expr::python::Pattern;
    #[pymodule_export]
    use crate::expr::python::projection::Projection;
    #[pymodule_export]
    use crate::expr::python::selection::{ColumnCondition, Selection};
    #[pymodule_export]
    use crate::ingress::python::{runs_of, take_ids, take_new, times_of_claimed, times_of_claimed_columns};
    #[pymodule_export]
    use crate::ingress::seen::Intervals;
    #[pymodule_export]
    use crate::join::python::pairs::Pairs;
    #[pymodule_export]
    use crate::lanes::python::KeyedLanes;
    #[pymodule_export]
    use crate::lanes::python::calls::LaneCalls;
    #[pymodule_export]
    use crate::lanes::python::counts::Counts;
    #[pymodule_export]
    use crate::sequence::python::matcher::SequenceMatcher;
    #[pymodule_export]
    use crate::sequence::python::runs::SequenceRuns;
    #[cfg(feature = "baselines")]
    #[pymodule_export]
    use crate::windows::fiba::baselines::python::Baseline;
    #[pymodule_export]
    use crate::windows::fiba::python::Fiba;
    #[pymodule_export]
    use crate::windows::panes::python::KeyedWindows;
    /// Counted up with every change of what Python sees: `middleware.native` uses no core of another version.
    #[pymodule_export]
    const VERSION: u32 = 58;
}
