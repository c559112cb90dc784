//! `klab operate`: the process that does what `az … --no-wait` left to be done; az starts it, people need not.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use super::{Context, az};
use klab_operations::background;
use klab_operations::error::{Code, Error, Result};
use klab_operations::state::home::state_error;
use klab_operations::state::operation::Held;

/// What can be typed after `klab operate`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The lab.
    lab: String,
    /// Where the operation is written down; the same file, held, is stdin.
    operation: PathBuf,
}

/// Does an operation to its end. Says on stdout, in one line, that it has it.
///
/// # Errors
/// When it is not there, or fails: that is remembered with it.
pub fn run(context: &mut Context, arguments: &Arguments) -> Result<()> {
    let Arguments { lab, operation: path } = arguments;
    context.is_later = true;
    let failed = |error| state_error(error, "use the operation", path);
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let Some(held) = Held::handed_over(path, stdin).map_err(failed)? else {
        let message = format!("`{}` is not an operation that this process was given", path.display());
        return Err(Error::message(Code::Flags, message).hint(format!("`{}` starts it", background::NAME)));
    };
    klab_operations::ui::announce("at work");
    let tasks = held.operation.tasks.clone();
    match tasks.iter().try_for_each(|task| az::perform(context, lab, task)) {
        Ok(()) => held.end().map_err(failed),
        Err(error) => {
            // Where the lab went meanwhile, there is nothing left to remember it with.
            if path.exists() {
                held.fail(format!("{error:#}")).map_err(failed)?;
            }
            Err(error)
        }
    }
}
