//! `klab completions`: completions for a shell.

use clap::Command;
use clap_complete::Shell;

use super::Context;
use crate::error::Result;

/// What can be typed after `klab completions`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions for klab's command line.
///
/// # Errors
/// None.
pub fn run(context: &Context, arguments: &Arguments, mut klab: Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut klab, "klab", &mut text);
    context.ui.result(&String::from_utf8_lossy(&text));
    Ok(())
}
