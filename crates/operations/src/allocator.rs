//! How the allocator of a process that serves for long gives memory back.

use crate::environment::{MIMALLOC_ALLOW_THP, MIMALLOC_PURGE_DELAY, Variable};
use crate::error::{Code, Context as _, Error, Result};
use crate::exec::Command;

/// What the environment tells it, 0 each: it reads that once, when a process starts.
///
/// Memory of a cluster that is put away goes back to the system at once: nothing may be left to do that would bring it there.
/// Nor is memory taken in pieces of 2 MiB, of which a small cluster fills a tenth: a dozen of them for its few objects.
const SETTINGS: [Variable; 2] = [MIMALLOC_PURGE_DELAY, MIMALLOC_ALLOW_THP];

/// A command with these settings. What the user has set stays.
pub fn gives_back(command: Command) -> Command {
    let missing = SETTINGS.into_iter().filter(|setting| setting.value().is_none());
    missing.fold(command, |command, setting| command.env(setting.name, "0"))
}

/// Has klab begin again with these settings, in the same process, unless it has them.
///
/// # Errors
/// When it cannot begin again.
pub fn begin_again() -> Result<()> {
    if SETTINGS.into_iter().all(|setting| setting.value().is_some()) {
        return Ok(());
    }
    let program = std::env::current_exe().code(Code::KlabFault, || "could not find klab's own program".to_owned())?;
    let command = gives_back(Command::new(program).args(std::env::args_os().skip(1)));
    Err(Error::new(Code::KlabFault, command.replace_klab()))
}
