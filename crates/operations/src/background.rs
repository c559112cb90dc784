//! Operations on labs that processes of their own do: begun, taken up again where one was killed, waited for.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::environment;
use crate::error::{Code, Context as _, Error, Result};
use crate::exec::Command;
use crate::state::Home;
use crate::state::operation::{Held, Operation, StoredOperation};
use klab_cluster::deadline;

/// What such a process is called where a lock says who holds it.
pub const NAME: &str = "az … --no-wait";
/// How long a process may take to begin.
const START: Duration = Duration::from_secs(60);
/// How often is looked whether an operation is done.
pub const LOOK: Duration = Duration::from_millis(20);
/// How long others wait for operations: an upgrade on kind takes minutes.
pub const PATIENCE: Duration = Duration::from_mins(30);

/// Begins an operation. Says whether it was: another about the same may not be done yet.
///
/// # Errors
/// When it cannot be written down, or no process be started.
pub fn begin(home: &Home, lab: &str, operation: Operation) -> Result<bool> {
    match operation.begin(&home.lab(lab))? {
        Some(held) => start(home, lab, &held).map(|()| true),
        None => Ok(false),
    }
}

/// The operations of a lab that are under way or have failed. Those whose process has ended go on.
///
/// # Errors
/// When they cannot be read, or no process be started.
pub fn operations(home: &Home, lab: &str) -> Result<Vec<Operation>> {
    let mut all = Vec::new();
    for found in Operation::all(&home.lab(lab))? {
        all.push(match found {
            StoredOperation::UnderWay(operation) | StoredOperation::Failed(operation) => operation,
            StoredOperation::Orphan(held) => {
                start(home, lab, &held)?;
                held.operation
            }
        });
    }
    Ok(all)
}

/// Waits until no operation of a lab is under way, for as long as is reasonable; `tell` is called once, before the first
/// pause.
///
/// # Errors
/// As [`operations`].
pub fn wait(home: &Home, lab: &str, tell: impl FnOnce()) -> Result<()> {
    let until = deadline::within(PATIENCE);
    let mut tell = Some(tell);
    while operations(home, lab)?.iter().any(|operation| operation.failed.is_none()) && Instant::now() < until {
        if let Some(tell) = tell.take() {
            tell();
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Starts the process that does an operation, and hands it over: at any time one process owns it.
fn start(home: &Home, lab: &str, held: &Held) -> Result<()> {
    let program = std::env::current_exe().code(Code::KlabFault, || "could not find klab's own program".to_owned())?;
    let path = held.path();
    let log = path.with_extension("log");
    let handed = held.to_hand_over().code(Code::MachineRefused, || "could not hand an operation over".to_owned())?;
    let home = home.root().as_os_str();
    let command =
        Command::new(program).args(["operate", lab]).arg(path.as_os_str()).env(environment::KLAB_HOME.name, home);
    let started = command.directory(existing(path)).start_in_background(handed, &log, START);
    started.map(drop).map_err(|error| {
        Error::new(Code::KlabFault, anyhow::Error::from(error).context("could not start the process of an operation"))
            .hint(format!("its log is `{}`", log.display()))
    })
}

/// A folder that stays while the process runs: where the command was typed may be removed.
fn existing(path: &Path) -> &Path {
    path.ancestors().last().unwrap_or(path)
}
