//! What a server does now and then: what was written goes to the disk, clusters without clients are parked, and those that
//! are due are woken.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::files::sync_all_of;
use super::shared::Shared;

/// How often what was acknowledged is made to survive the machine (it survives the process at once).
const SYNC: Duration = Duration::from_secs(1);
/// How often it is looked for clusters to be parked.
const LOOK: Duration = Duration::from_millis(500);
/// From this number of awake clusters on, those without clients are parked sooner.
const MANY: f64 = 300.0;
/// How many are woken in one go because they are due: those of one class may all be due at once.
const AT_ONCE: usize = 32;

/// Which folder it is, whatever its name.
pub(super) fn place(folder: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(folder).map(|folder| (folder.dev(), folder.ino()))
}

/// Writes what changed to the disk, about once a second, until the server stops. A server whose folder was removed stops:
/// no client can find it any more.
pub(super) async fn sync_now_and_then(shared: Arc<Shared>, home: (u64, u64)) {
    let mut stop = shared.stop.subscribe();
    let mut reported = shared.host.broken().len();
    loop {
        tokio::select! {
            // An error means that the server is gone.
            _ = stop.changed() => return,
            () = tokio::time::sleep(SYNC) => {}
        }
        if place(&shared.host.state).ok() != Some(home) {
            tracing::warn!("the server's folder was removed; the server stops");
            shared.stop.send_replace(true);
            return;
        }
        let broken = shared.host.broken().len();
        let tell = std::mem::replace(&mut reported, broken) != broken;
        let at_work = Arc::clone(&shared);
        let synced = tokio::task::spawn_blocking(move || sync(&at_work, tell));
        if synced.await.is_err() {
            return;
        }
    }
}

fn sync(shared: &Shared, tell: bool) {
    let failed = |error: std::io::Error, what: &str| tracing::error!(%error, "{what} could not be written");
    for hosted in shared.active() {
        hosted.sync();
    }
    if shared.files_written.swap(false, Ordering::Relaxed)
        && let Err(error) = sync_all_of(&shared.host.state)
    {
        failed(error, "files of clusters");
    }
    if let Err(error) = shared.host.register.sync() {
        failed(error, "the register");
    }
    if shared.host.register.is_due()
        && let Err(error) = shared.rewrite_register()
    {
        failed(error, "the register");
    }
    if tell && let Err(error) = shared.write_access() {
        failed(error, "what other processes read");
    }
}

/// Parks clusters without requests for `quiet`, and wakes those that are due, until the server stops.
pub(super) async fn park_and_wake(shared: Arc<Shared>, quiet: Option<Duration>) {
    let mut stop = shared.stop.subscribe();
    loop {
        let until_due = shared.host.activity.next_due().map(|due| shared.host.clock.until(due));
        // What is due is done at its time, and not more often than a processor has time for others.
        let wait = until_due.unwrap_or(LOOK).clamp(Duration::from_millis(5), LOOK);
        tokio::select! {
            // An error means that the server is gone.
            _ = stop.changed() => return,
            () = shared.host.activity.earlier.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
        let at_work = Arc::clone(&shared);
        let done = tokio::task::spawn_blocking(move || round(&at_work, quiet));
        if done.await.is_err() {
            return;
        }
    }
}

fn round(shared: &Shared, quiet: Option<Duration>) {
    for name in shared.host.activity.due(shared.host.clock.now(), AT_ONCE) {
        let Some(hosted) = shared.cluster(&name) else {
            shared.host.activity.is_gone(&name);
            continue;
        };
        if let Err(status) = hosted.wake() {
            tracing::error!(cluster = hosted.name(), "{status}");
            // Its next client gets the reason; klab does not try again by itself.
            shared.host.activity.is_gone(&name);
        }
    }
    let Some(quiet) = quiet else { return };
    let active = shared.active();
    // Where very many were looked at in a short time, none of them stays for long.
    let quiet = quiet.mul_f64((MANY / active.len().max(1) as f64).min(1.0));
    for hosted in active {
        hosted.park(quiet);
    }
    shared.host.control.end_idle();
}
