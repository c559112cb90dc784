//! Lessons: the steps of a lab performed, undone, and written as the commands that a learner types.
//!
//! What a lab should be after this many steps is a lab again ([`stage()`]); a step is performed by bringing the cluster from
//! one stage to the next ([`Performer`]), on every provider and without a terminal. A [`session`] drives the steps of a
//! lesson: for a terminal, a host, and a trial. [`mod@undo`] and [`command`] are pure.

mod actions;
pub mod command;
mod control_plane;
mod drain;
mod goal_arguments;
mod history;
mod kubectl;
mod line;
pub mod look;
mod nodes;
pub mod pass;
pub mod peek;
mod perform;
mod performer;
mod pools;
mod reset;
mod rewrite;
pub mod session;
mod set;
pub mod text;
pub mod time;
mod tools;
pub mod undo;
mod undone_drains;
pub mod words;
mod workloads;

pub use crate::stage::{note_before, open_next, stage, stage_within, staged};
pub use actions::undo;
pub use control_plane::until_answering;
pub use goal_arguments::GoalArguments;
pub use nodes::change as change_nodes;
pub use performer::{Performer, Run};
pub use reset::{reset, restart_misplaced};
pub use time::{Time, WallClock};
pub use tools::Tools;
pub use undone_drains::undone_drains;
pub use workloads::{delete_all, step_kinds};
