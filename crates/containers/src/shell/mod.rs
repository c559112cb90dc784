//! A command followed from its start: what it prints, what it does to files, how it ends.
//!
//! ```text
//! tokens ─▶ script ─▶ run ─ loops, expand, plumbing, programs, printing, filing, clients ─▶ world::{Course, Performance}
//! ```
//!
//! How a command ends is followed as far as scheduling needs it. What it prints is certain or in doubt, with the reason.

mod amounts;
mod arithmetic;
mod clients;
mod expand;
mod filing;
mod glob;
mod loops;
pub(crate) mod output;
mod plumbing;
mod printing;
mod programs;
pub(crate) mod reach;
pub(crate) mod run;
mod script;
#[cfg(test)]
mod tests;
mod tokens;
pub(crate) mod world;

pub(crate) use self::clients::is_client;
pub(crate) use self::run::{follow, perform};
