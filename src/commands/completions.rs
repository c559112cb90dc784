//! `klab completions`: completions for a shell.

use clap_complete::Shell;
use clap_complete::env::Shells;

use super::Context;
use klab_operations::environment;
use klab_operations::error::{Code, Error, Result};

/// What can be typed after `klab completions`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints what makes the shell ask klab for completions.
///
/// # Errors
/// When klab cannot talk to that shell.
pub fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let shell = arguments.shell.to_string();
    let refused = || Error::message(Code::Flags, format!("klab has no completions for {shell}"));
    let shells = Shells::builtins();
    let completer = shells.completer(&shell).ok_or_else(refused)?;
    let mut text = Vec::new();
    completer.write_registration(environment::KLAB_COMPLETE.name, "klab", "klab", &klab(), &mut text).map_err(
        |error| Error::new(Code::KlabFault, anyhow::Error::new(error).context("could not write completions")),
    )?;
    context.ui.result(&String::from_utf8_lossy(&text));
    Ok(())
}

/// This klab, as the shell starts it: by the path it was typed with, else from PATH.
fn klab() -> String {
    let typed = std::env::args_os().next().map(std::path::PathBuf::from);
    let path = typed.filter(|path| path.components().count() > 1).and_then(|path| std::path::absolute(path).ok());
    path.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| "klab".to_owned())
}
