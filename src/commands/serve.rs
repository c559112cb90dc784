//! `klab serve`: the process that serves embedded clusters. `up` starts one for labs; tests of operators start one that ends
//! with them.

mod controllers;
mod definitions;
mod ephemeral;
mod kubeconfig_file;
mod parent;
mod ready;
mod refusal;

use std::path::{Path, PathBuf};

use tokio::signal::unix::{SignalKind, signal};

use self::refusal::start_error;
use klab_operations::environment;
use klab_operations::error::{Code, Context as _, Error, Result};
use klab_operations::provider::sim::server_lock::ServerLock;
use klab_operations::state::home::state_error;
use klab_server::{Server, ServerOptions};

/// What can be typed after `klab serve`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub struct Arguments {
    /// Serve one cluster that is kept nowhere and ends with the program that started klab.
    #[arg(long, group = "which")]
    ephemeral: bool,
    /// Where clusters are saved; `klab up` starts such a server itself.
    #[arg(long, value_name = "FOLDER", group = "which")]
    state_directory: Option<PathBuf>,
    /// Port on 127.0.0.1; any that is free by default, of saved clusters the last one (KLAB_SIM_PORT).
    #[arg(long)]
    port: Option<u16>,
    #[command(flatten)]
    of_ephemeral: ephemeral::Arguments,
}

/// Serves until it is asked to stop, or ended. Says on stdout, in one line, when it is ready.
///
/// # Errors
/// When another server is using the folder, no port can be had, or what a cluster is to begin with is wrong.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.state_directory {
        Some(folder) => run_saved(folder, arguments.port),
        None => ephemeral::run(&arguments.of_ephemeral, arguments.port),
    }
}

impl Arguments {
    /// Whether it needs nothing of this user's: no home, and no handling of interruptions but its own.
    pub fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }
}

fn run_saved(folder: &Path, port: Option<u16>) -> Result<()> {
    klab_operations::ui::trace("klab=info");
    let port = match port {
        None => port_of_environment()?,
        port => port,
    };
    let Some(lock) = ServerLock::of_this_server(folder)? else {
        let message = format!("another server is using `{}`", folder.display());
        return Err(Error::message(Code::Server, message));
    };
    lock.sign().map_err(|error| state_error(error, "sign the lock in", folder))?;
    let runtime = klab_operations::client::runtime()?;
    runtime.block_on(async {
        let mut end =
            signal(SignalKind::terminate()).code(Code::MachineRefused, || "could not take signals".to_owned())?;
        let options = ServerOptions { port, clock_times: clock_times(), ..ServerOptions::at(folder) };
        let server = Server::start(options).await.map_err(start_error)?;
        klab_operations::ui::announce(&format!("serving embedded clusters at {}", server.address()));
        tokio::select! {
            () = server.stopped() => {}
            _ = end.recv() => server.stop(),
        }
        server.run_until_stopped().await;
        Ok(())
    })
}

/// How many times as fast as the machine's the clusters' clock goes.
pub(super) fn clock_times() -> u32 {
    environment::KLAB_CLOCK_TIMES.parsed().unwrap_or(1)
}

/// The port of the server that keeps clusters, where the environment names one.
fn port_of_environment() -> Result<Option<u16>> {
    let variable = environment::KLAB_SIM_PORT;
    let Some(text) = variable.value() else { return Ok(None) };
    match text.to_str().and_then(|text| text.parse().ok()) {
        Some(port) => Ok(Some(port)),
        None => {
            Err(Error::message(Code::Flags, format!("{} is `{}`, which is no port", variable.name, text.display())))
        }
    }
}
