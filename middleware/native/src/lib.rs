//! The core of Slackline: its hot data structures. Tests hold many of them against readable models in Python (`tests/oracles`).
//!
//! It calls back into Python for all that is rare (results, failures, ties in the order, states that are not plain), so that
//! there is one account of what those mean.

mod arrivals;
mod arrow;
mod blocks;
mod buffer;
mod by_class;
mod cells;
mod claims;
mod columns;
mod counts;
mod detector;
mod disturbance;
mod emission;
mod entry;
mod event_batch;
mod export;
mod fiba;
mod fields;
mod flat;
mod gathering;
mod growing;
mod held;
mod held_blocks;
mod ids;
mod ipc;
mod keyless;
mod keys;
mod lane;
mod lanes;
mod msgpack;
mod naming;
mod order;
mod packing;
mod pairs;
mod panes;
mod pattern;
mod program;
mod projection;
mod repacking;
mod replay;
mod results;
mod search;
mod seen;
mod selection;
mod sequence;
mod shared;
mod snapshots;
mod spelling;
mod splice;
mod stamp;
mod state;
mod tables;
mod tuples;
mod twins;
mod waiting;
mod wholes;
mod writing;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::blocks::{Block, BlockReader};
    #[pymodule_export]
    use crate::buffer::{in_time, merge, split};
    #[pymodule_export]
    use crate::by_class::by_class;
    #[pymodule_export]
    use crate::claims::{times_of_claimed, times_of_claimed_columns};
    #[pymodule_export]
    use crate::columns::{column_of, span, survey_events};
    #[pymodule_export]
    use crate::counts::Counts;
    #[pymodule_export]
    use crate::event_batch::{EventBatch, Interleaving};
    #[pymodule_export]
    use crate::fiba::baselines::python::Baseline;
    #[pymodule_export]
    use crate::fiba::python::Fiba;
    #[pymodule_export]
    use crate::fields::PlainFields;
    #[pymodule_export]
    use crate::gathering::Gathering;
    #[pymodule_export]
    use crate::growing::in_columns;
    #[pymodule_export]
    use crate::held::HeldEvents;
    #[pymodule_export]
    use crate::held_blocks::{HeldBlocks, joined};
    #[pymodule_export]
    use crate::ids::{runs_of, take_ids};
    #[pymodule_export]
    use crate::lanes::KeyedLanes;
    #[pymodule_export]
    use crate::pairs::Pairs;
    #[pymodule_export]
    use crate::panes::windows::KeyedWindows;
    #[pymodule_export]
    use crate::pattern::Pattern;
    #[pymodule_export]
    use crate::projection::Projection;
    #[pymodule_export]
    use crate::repacking::{block_of, pack};
    #[pymodule_export]
    use crate::results::result_block;
    #[pymodule_export]
    use crate::seen::{Intervals, take_new};
    #[pymodule_export]
    use crate::selection::Selection;
    #[pymodule_export]
    use crate::sequence::SequenceMatcher;
    #[pymodule_export]
    use crate::sequence::SequenceRuns;
    #[pymodule_export]
    use crate::spelling::spelled_out;
    #[pymodule_export]
    use crate::waiting::Waiting;
    /// Counted up with every change of what Python sees: `middleware.native` uses no core of another version.
    #[pymodule_export]
    const VERSION: u32 = 53;
}
