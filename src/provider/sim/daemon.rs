//! The server process of the embedded cluster: found, started, stopped. One for all labs of a klab home.

use std::fs::{File, TryLockError};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::deadline;
use crate::error::{Context, Error, Kind, Result};
use crate::exec::{self, Command};
use crate::sim::server::{Access, client};
use crate::state::Home;
use crate::state::home::{create_private_folder, open_private_append, state_error};

/// How long a server may take to stop before it is ended the hard way.
const STOP: Duration = Duration::from_secs(5);

/// The lock a server holds as long as it lives; the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct ServerLock {
    _file: File,
}

impl ServerLock {
    /// Takes the lock; `None` when another server holds it.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn take(folder: &Path) -> Result<Option<Self>> {
        create_private_folder(folder).map_err(|error| state_error(error, "create", folder))?;
        let path = folder.join("lock");
        let file = open_private_append(&path).map_err(|error| state_error(error, "open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(state_error(error, "lock", &path)),
        }
    }
}

/// The server that is running, if one is.
///
/// # Errors
/// When the state folder cannot be read.
pub fn running(home: &Home) -> Result<Option<Access>> {
    let folder = home.server();
    let until = deadline::within(STOP);
    // A server that holds the lock answers, or is about to: it begins to listen a few milliseconds after it took the
    // lock, and lets go of it a moment after it was killed.
    while folder.join("lock").is_file() && ServerLock::take(&folder)?.is_none() {
        let access = client::access(&folder).filter(|access| exec::process_exists(access.pid));
        if let Some(access) = access.filter(|access| TcpStream::connect_timeout(&access.address, STOP).is_ok()) {
            return Ok(Some(access));
        }
        if Instant::now() > until {
            let message = format!("a server holds `{}` but does not answer", folder.join("lock").display());
            return Err(Error::message(Kind::Failed, message).hint("end it with `pkill -f 'klab serve'`"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(None)
}

/// The server that is running, or a new one that restores what the last one saved.
///
/// # Errors
/// When it cannot be started, in its own words.
pub fn ensure(home: &Home) -> Result<Access> {
    if let Some(access) = running(home)? {
        if access.version == env!("CARGO_PKG_VERSION") {
            return Ok(access);
        }
        // Left by another version of klab: its clusters are saved and come back in the new server.
        stop(home)?;
    }
    let folder = home.server();
    create_private_folder(&folder).map_err(|error| state_error(error, "create", &folder))?;
    let program = std::env::current_exe().kind(Kind::Failed, || "could not find klab's own program".to_owned())?;
    let command = Command::new(program).arg("serve").arg("--state-directory").arg(folder.as_os_str());
    let log = folder.join("server.log");
    let failed = |error: anyhow::Error| {
        Error::new(Kind::Failed, error.context("could not start the embedded cluster's server"))
            .hint(format!("its log is `{}`", log.display()))
    };
    match command.start_in_background(&log) {
        Ok(_) => {}
        // Another klab was faster by a moment; its server serves this lab too.
        Err(_) if running(home)?.is_some() => {}
        Err(error) => return Err(failed(error.into())),
    }
    running(home)?.ok_or_else(|| failed(anyhow::Error::msg("it ended as soon as it was ready")))
}

/// Ends the server, if one is running; what it holds stays saved.
///
/// # Errors
/// When it does not end.
pub fn stop(home: &Home) -> Result<()> {
    let Some(access) = running(home)? else { return Ok(()) };
    exec::end_process(access.pid, false);
    let started = Instant::now();
    let mut forced = false;
    while ServerLock::take(&home.server())?.is_none() {
        if !forced && started.elapsed() > STOP {
            exec::end_process(access.pid, true);
            forced = true;
        }
        if started.elapsed() > 2 * STOP {
            let message = format!("the embedded cluster's server (process {}) does not end", access.pid);
            return Err(Error::message(Kind::Failed, message).hint(format!("`kill -9 {}` ends it", access.pid)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
