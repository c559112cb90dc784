//! How a console is to be.

use std::path::PathBuf;
use std::time::Duration;

/// What may be missing of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Unconfined {
    /// Nothing: without all of it there is no console.
    #[default]
    None,
    /// That kubectl reaches one port only: where the network around the host sees to it, as a NetworkPolicy does.
    Network,
    /// All of it: for classes whose learners may do on this machine what klab may do.
    All,
}

/// Settings of a console.
#[derive(Debug, Clone)]
pub struct Settings {
    /// kubectl's program; the first on `PATH` otherwise.
    pub kubectl: Option<PathBuf>,
    /// klab's own program, which is the sandbox.
    pub klab: PathBuf,
    /// What may be missing.
    pub unconfined: Unconfined,
    /// Commands that run at a time; half of them may be such that go on until they are ended.
    pub at_a_time: usize,
    /// Those of one seat.
    pub of_a_seat: usize,
    /// How long one waits for its turn.
    pub patience: Duration,
    /// How long one runs.
    pub time: Duration,
    /// Bytes that one writes.
    pub output: usize,
}

impl Settings {
    /// The usual ones, with klab's program.
    pub fn new(klab: PathBuf) -> Self {
        Self {
            kubectl: None,
            klab,
            unconfined: Unconfined::None,
            at_a_time: 16,
            of_a_seat: 2,
            patience: Duration::from_secs(10),
            time: Duration::from_secs(300),
            output: 2 << 20,
        }
    }
}

/// What is typed for a console at `klab host`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Give learners a console in their page: this machine's kubectl in a sandbox.
    #[arg(long)]
    pub console: bool,
    /// kubectl for the console; the first on PATH by default.
    #[arg(long, value_name = "FILE", requires = "console")]
    pub console_kubectl: Option<PathBuf>,
    /// Give a console although the sandbox is not whole: without a wall around the network, or at all.
    #[arg(long, value_name = "WHAT", requires = "console", num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "all")]
    pub console_unconfined: Unconfined,
    /// Commands that the console runs at a time.
    #[arg(long, value_name = "N", requires = "console", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub console_commands: u16,
}

impl Arguments {
    /// The settings, where a console is wanted.
    ///
    /// # Errors
    /// When klab does not find its own program.
    pub fn settings(&self) -> std::io::Result<Option<Settings>> {
        if !self.console {
            return Ok(None);
        }
        let klab = std::env::current_exe()?;
        Ok(Some(Settings {
            kubectl: self.console_kubectl.clone(),
            unconfined: self.console_unconfined,
            at_a_time: self.console_commands.into(),
            ..Settings::new(klab)
        }))
    }
}
