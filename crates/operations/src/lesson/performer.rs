//! What a step is performed with: the cluster, its provider, a clock, and whether programs may run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use tokio::runtime::Runtime;

use super::time::Time;
use crate::error::{Code, Error, Result};
use crate::event::Verb;
use crate::exec;
use crate::provider::{Provider, Work};

/// How long a program that a step runs may take.
const RUN: Duration = Duration::from_mins(10);

/// Performs steps on one cluster. Everything outside comes in through it, so that a test can give it a cluster in process
/// and a clock that is stepped. Not to be called from within a runtime: providers wait for what they do.
pub struct Performer<'a> {
    /// Runs requests; the client was made on it.
    pub runtime: &'a Runtime,
    /// The cluster.
    pub client: &'a Client,
    /// Who makes pools, and stops and starts nodes.
    pub provider: &'a dyn Provider,
    /// What waiting goes through.
    pub time: &'a dyn Time,
    /// How programs of `run` are started; none: they are refused.
    pub run: Option<Run<'a>>,
}

/// How programs of `run` are started.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Their `KUBECONFIG`.
    pub kubeconfig: &'a Path,
    /// The folder they start in: that of the lab file.
    pub folder: &'a Path,
}

impl Performer<'_> {
    /// Runs a program, where the user allows it.
    pub(super) fn run_program(&self, argv: &[String], work: &mut Work<'_>) -> Result<()> {
        let Some((program, arguments)) = argv.split_first() else { return Ok(()) };
        let Some(run) = self.run else {
            let message = format!("the step runs `{}`, which was not allowed", argv.join(" "));
            return Err(Error::message(Code::StepRunsProgram, message).hint(
                "read what it does in the lab file; `--allow-run` allows it, or type it yourself and `klab verify`",
            ));
        };
        work.intend("run", program)?;
        // A path is meant from the lab file, a bare name from PATH.
        let program = if program.contains('/') { run.folder.join(program) } else { PathBuf::from(program) };
        let command = exec::Command::new(program)
            .args(arguments)
            .env("KUBECONFIG", run.kubeconfig.as_os_str())
            .directory(run.folder);
        let activity = work.events.start(Verb::RunProgram, command.to_string());
        command.output(RUN).map_err(|error| Error::new(Code::StepFailed, error))?;
        activity.finish(command.to_string());
        Ok(())
    }
}
