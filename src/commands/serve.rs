//! `klab serve`: the process that serves embedded clusters; `up` starts it, people need not.

use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};

use crate::environment;
use crate::error::{Context as _, Error, Kind, Result};
use crate::provider::sim::server_lock::ServerLock;
use crate::state::home::state_error;
use klab_cluster::server::{Server, ServerOptions, StartError};

/// What can be typed after `klab serve`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where clusters are saved.
    #[arg(long, value_name = "FOLDER")]
    state_directory: PathBuf,
    /// Port on 127.0.0.1; the last one if it is free, else any, by default.
    #[arg(long, env = environment::KLAB_SIM_PORT.name)]
    port: Option<u16>,
}

/// Serves until it is told to stop. Says on stdout, in one line of JSON, when it is ready.
///
/// # Errors
/// When another server is using the folder, or no port can be had.
pub fn run(arguments: &Arguments) -> Result<()> {
    crate::ui::trace("klab=info");
    let folder = &arguments.state_directory;
    let Some(lock) = ServerLock::of_this_server(folder)? else {
        let message = format!("another server is using `{}`", folder.display());
        return Err(Error::message(Kind::Failed, message));
    };
    lock.sign().map_err(|error| state_error(error, "sign the lock in", folder))?;
    let runtime = crate::client::runtime()?;
    runtime.block_on(async {
        let mut end = signal(SignalKind::terminate()).kind(Kind::Outside, || "could not take signals".to_owned())?;
        let options = ServerOptions { state_directory: folder.clone(), port: arguments.port };
        let server = Server::start(options).await.map_err(start_error)?;
        crate::ui::announce(&format!("serving embedded clusters at {}", server.address()));
        tokio::select! {
            () = server.stopped() => {}
            _ = end.recv() => server.stop(),
        }
        server.run_until_stopped().await;
        Ok(())
    })
}

fn start_error(error: StartError) -> Error {
    match error {
        StartError::Folder(folder, error) => state_error(error, "use the server's folder", &folder),
        port @ StartError::Port(..) => {
            Error::new(Kind::Outside, port).hint("another program uses it; without a port the server takes a free one")
        }
        none @ StartError::Listen(_) => Error::new(Kind::Outside, none),
    }
}
