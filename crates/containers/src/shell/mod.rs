//! A command followed from its start: what it prints, what it does to files, how it ends.
//!
//! ```text
//! tokens ─▶ syntax ─▶ interpreter ─▶ execution::{Execution, Performed}
//!                     └ loops, expand, redirections, commands, {text,file,network}_commands
//! ```
//!
//! How a command ends is followed as far as scheduling needs it. What it prints is certain, or unknown with the reason.

mod arithmetic;
mod commands;
pub(crate) mod execution;
mod expand;
mod file_commands;
mod glob;
pub(crate) mod interpreter;
mod loops;
mod network_commands;
mod numbers;
pub(crate) mod output;
mod redirections;
pub(crate) mod resolver;
mod syntax;
#[cfg(test)]
mod tests;
mod text_commands;
mod tokens;

pub(crate) use self::interpreter::{execute, simulate};
pub(crate) use self::network_commands::is_network_command;
