//! A command followed from its start: what it prints, what it does to files, how it ends.
//!
//! ```text
//! syntax ─▶ interpreter ─▶ execution::{Execution, Performed}
//!           └ expand, commands, printing, file_commands, network_commands
//! ```
//!
//! How a command ends is followed as far as scheduling needs it. What it prints is certain, or unknown with the reason.

mod commands;
pub(crate) mod execution;
mod expand;
mod file_commands;
pub(crate) mod interpreter;
mod network_commands;
pub(crate) mod output;
mod printing;
mod syntax;
#[cfg(test)]
mod tests;

pub(crate) use self::interpreter::{execute, simulate};
pub(crate) use self::network_commands::is_network_command;
