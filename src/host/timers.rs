//! A class in its time: it opens, closes, is kept for a while, and is removed. Nothing is ever taken from a class that is open.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::register::{Entry, Phase};
use super::state::Host;
use crate::error::{Context, Error, Kind, Result};

/// Longest sleep: machines are suspended, and clocks are set.
const NAP: Duration = Duration::from_secs(30);

/// Follows the class until it is over, and removes its seats then.
///
/// # Errors
/// When something could not be removed.
pub async fn run(host: &Arc<Host>) -> Result<()> {
    let mut retimed = host.times_changed();
    let mut last = host.phase();
    loop {
        let now = Timestamp::now();
        let phase = host.register().phase(now);
        if phase != last {
            host.audit.line("phase", json!({ "phase": format!("{phase:?}").to_lowercase() }));
            last = phase;
            host.standings.stir();
            host.stages.poke_all();
        }
        if phase == Phase::Over {
            return over(host).await;
        }
        let next = host.times().next_change(now);
        let until = next.map_or(NAP, |at| Duration::try_from(at.duration_since(now)).unwrap_or_default().min(NAP));
        tokio::select! {
            () = tokio::time::sleep(until.max(Duration::from_millis(10))) => {}
            _ = retimed.changed() => {}
        }
    }
}

/// Removes all seats of a class whose time is over.
async fn over(host: &Arc<Host>) -> Result<()> {
    let seats: Vec<String> = host.register().seats().map(|seat| seat.seat.to_string()).collect();
    let server = host.server().cloned();
    let folder = host.folder.join("seats");
    let removed = tokio::task::spawn_blocking(move || {
        for seat in &seats {
            if let Some(server) = &server {
                server.remove(seat).map_err(|status| Error::message(Kind::Failed, status.message))?;
            }
        }
        let gone = klab_cluster::server::files::gone(std::fs::remove_dir_all(&folder));
        gone.map_err(|error| crate::state::home::state_error(error, "remove", &folder))
    });
    removed.await.kind(Kind::Failed, || "could not remove the seats".to_owned())??;
    host.record(vec![Entry::Over { at: Timestamp::now() }]).await?;
    host.standings.clear();
    host.audit.line("over", json!({}));
    Ok(())
}
