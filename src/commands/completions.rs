//! `klab completions`: completions for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Context;
use crate::cli::Cli;
use crate::error::Result;

/// What can be typed after `klab completions`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions.
///
/// # Errors
/// None.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "klab", &mut text);
    context.ui.result(&String::from_utf8_lossy(&text));
    Ok(())
}
