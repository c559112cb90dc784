//! The server process of the embedded cluster: found, started, stopped. One for all labs of a klab home.

use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::server;
use super::server_lock::{Attempt, ServerLock, holder};
use crate::allocator;
use crate::client::{NoAnswer, is_cut_off};
use crate::error::{Code, Context, Error, Result};
use crate::exec::{self, Command};
use crate::state::Home;
use crate::state::home::state_error;
use klab_server::files::create_private_folder;
use klab_server::{Access, Health};

/// How long a server may take to stop before it is ended the hard way.
const STOP: Duration = Duration::from_secs(5);
/// How long a server may be stopped (SIGSTOP) before commands no longer wait for it.
const STOPPED: Duration = Duration::from_millis(500);
/// How long a server may take to restore what it saved.
const START: Duration = Duration::from_secs(60);

/// How long a look at a server may take.
const LOOK: Duration = Duration::from_secs(5);

/// The server that is running, if one is. It takes connections; whether it answers shows with the first request.
///
/// # Errors
/// When there is one that takes no connections, or the state folder cannot be read.
pub fn running(home: &Home) -> Result<Option<Access>> {
    let folder = home.server();
    let since = Instant::now();
    // A server that holds the lock answers, or is about to: it begins to listen a few milliseconds after it took the
    // lock, and lets go of it a moment after it was killed.
    while matches!(ServerLock::take_existing(&folder)?, Attempt::Held) {
        let pid = holder(&folder);
        if let Some(pid) = pid.filter(|pid| exec::is_stopped(*pid) && is_server_of(*pid, &folder)) {
            // Connecting would succeed: the kernel does that.
            if since.elapsed() > STOPPED {
                let which = format!("process {pid}, which is stopped");
                return Err(Error::new(Code::NoAnswer, NoAnswer::of_server(&which, STOPPED)));
            }
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        let access = server::access(&folder).filter(|access| pid.is_none_or(|pid| pid == access.pid));
        let access = access.filter(|access| exec::process_exists(access.pid));
        let starts = access.is_none() && pid.is_some_and(exec::process_exists);
        if let Some(access) = access.filter(|access| TcpStream::connect_timeout(&access.address, STOP).is_ok()) {
            return Ok(Some(access));
        }
        if since.elapsed() > if starts { START } else { STOP } {
            let which = pid.map_or("unknown process".to_owned(), |pid| format!("process {pid}"));
            return Err(Error::new(Code::NoAnswer, NoAnswer::of_server(&which, since.elapsed())));
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
    let folder = home.server();
    let mut attempts = 0;
    loop {
        if let Some(access) = running(home)? {
            if access.version == env!("CARGO_PKG_VERSION") {
                return Ok(access);
            }
            // Left by another version of klab: its clusters are saved and come back in the new server.
            drop(stop(home)?);
        }
        // Where another klab was faster by a moment, its server serves this lab too.
        let Some(lock) = ServerLock::take(&folder)? else { continue };
        attempts += 1;
        match start(&folder, &lock) {
            Ok(()) => {}
            // A `down` of the last lab may have ended it in this moment.
            Err(_) if attempts < 2 => {}
            Err(error) => return Err(error),
        }
        drop(lock);
        if attempts > 2 {
            return Err(could_not_start(&folder, anyhow::Error::msg("it ended as soon as it was ready")));
        }
    }
}

fn start(folder: &Path, lock: &ServerLock) -> Result<()> {
    create_private_folder(folder).map_err(|error| state_error(error, "create", folder))?;
    let program = std::env::current_exe().code(Code::KlabFault, || "could not find klab's own program".to_owned())?;
    let command = Command::new(program).arg("serve").arg("--state-directory").arg(folder.as_os_str());
    let command = allocator::gives_back(command);
    let handed =
        lock.to_hand_over().code(Code::MachineRefused, || "could not hand over the server's lock".to_owned())?;
    let started = command.start_in_background(handed, &folder.join("server.log"), START);
    started.map(drop).map_err(|error| could_not_start(folder, error.into()))
}

fn could_not_start(folder: &Path, error: anyhow::Error) -> Error {
    Error::new(Code::Server, error.context("could not start the embedded cluster's server"))
        .hint(format!("its log is `{}`", folder.join("server.log").display()))
}

/// How the server is, asked by a person who will not wait; none where none is running.
///
/// # Errors
/// When it does not answer.
pub async fn look(home: &Home) -> Result<Option<(Access, Health)>> {
    let Some(access) = running(home)? else { return Ok(None) };
    let asked = async { server::Client::new_within(&access, LOOK).await?.health().await };
    match asked.await {
        Ok(health) => Ok(Some((access, health))),
        // It was killed in this moment.
        Err(error) if is_cut_off(&error) && running(home)?.is_none() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ends the server, if one is running, whether it answers or not; what it holds stays saved. Gives its lock, so that no
/// other one begins until that is dropped; none where there is no folder of a server.
///
/// # Errors
/// When it does not end, or the process that holds the lock is no server of this home.
pub fn stop(home: &Home) -> Result<Option<ServerLock>> {
    let folder = home.server();
    let since = Instant::now();
    let mut asked: Option<(u32, Instant)> = None;
    loop {
        match ServerLock::take_existing(&folder)? {
            Attempt::Taken(lock) => return Ok(Some(lock)),
            Attempt::Absent => return Ok(None),
            Attempt::Held => {}
        }
        let found = holder(&folder);
        match (found, asked) {
            (Some(pid), Some((known, at))) if pid == known && at.elapsed() < STOP => {}
            (Some(pid), Some((known, _))) if pid == known && is_server_of(pid, &folder) => exec::end_process(pid, true),
            (Some(pid), _) if is_server_of(pid, &folder) => {
                exec::end_process(pid, false);
                // One that was stopped (SIGSTOP) hears of it only when it goes on.
                exec::continue_process(pid);
                asked = Some((pid, Instant::now()));
            }
            _ => {}
        }
        if since.elapsed() > 3 * STOP {
            let lock = folder.join("lock");
            let message = match (found, asked) {
                (Some(pid), Some(_)) => format!("the embedded cluster's server (process {pid}) does not end"),
                _ => format!("`{}` is held by a process that is no klab server of this folder", lock.display()),
            };
            let hint = found.filter(|_| asked.is_some()).map_or_else(
                || format!("`fuser -v {}` shows which process it is", lock.display()),
                |pid| format!("`kill -9 {pid}` ends it"),
            );
            return Err(Error::message(Code::Server, message).hint(hint));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process is klab, serving this folder: nothing else may ever be ended.
fn is_server_of(pid: u32, folder: &Path) -> bool {
    let Some(words) = exec::command_line(pid) else { return false };
    let mut words = words.iter().skip_while(|word| *word != "serve");
    let served = words.find(|word| *word == "--state-directory").and_then(|_| words.next());
    // One folder may have several names.
    let real = |folder: &Path| std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    served.is_some_and(|served| real(Path::new(served)) == real(folder))
}

/// What a person can do about a server that does not answer.
pub fn advice(home: &Home) -> Vec<String> {
    let Some(pid) = holder(&home.server()).filter(|pid| is_server_of(*pid, &home.server())) else { return Vec::new() };
    let again = "the next klab command starts it again with all its labs, nothing is lost";
    if exec::is_stopped(pid) {
        return vec![format!("process {pid} is stopped: `kill -CONT {pid}` lets it continue")];
    }
    vec![format!("`kill {pid}` ends the server, `kill -9 {pid}` if it stays: {again}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_of_the_folder_is_taken_for_one() {
        let root = tempfile::tempdir().unwrap();
        let (mine, other, name) = (root.path().join("mine"), root.path().join("other"), root.path().join("name"));
        std::fs::create_dir(&mine).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&mine, &name).unwrap();
        let mut server = std::process::Command::new("sh")
            .args(["-c", "echo ready; read line", "klab", "serve", "--state-directory"])
            .arg(&mine)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Before that it may still be on its way to its own command line.
        let mut ready = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut ready).unwrap();
        let taken = [&mine, &name, &other].map(|folder| is_server_of(server.id(), folder));
        drop(server.stdin.take());
        server.wait().unwrap();
        assert_eq!(taken, [true, true, false]);
        assert!(!is_server_of(std::process::id(), &mine));
    }
}
