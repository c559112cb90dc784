//! What is done to one lab: by its own commands, and for each seat of a class.

mod make;
mod remove;
mod switch;
mod taken;

pub use make::Arguments;
pub(super) use make::{Made, make, refuse, refuse_stranger, save_lab_file, wait, with_way_on};
pub(super) use remove::{remove, remove_and_wait, retire};
pub(super) use switch::{Switch, switch_one};
pub(super) use taken::taken;
