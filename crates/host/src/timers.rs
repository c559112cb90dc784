//! A class in its time: it opens, closes, is kept for a while, is set aside, and is removed. Nothing is ever taken from a class that is
//! open, and nothing is removed because a clock says so once: a machine may start with a wrong one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::register::{Entry, Phase};
use super::state::Host;
use klab_operations::error::{Code, Context, Error, Result};

/// Longest sleep: machines are suspended, and clocks are set.
const NAP: Duration = Duration::from_secs(30);
/// For how long a host runs with a class that is over until its seats are removed. A clock that cannot be set measures that.
pub const ASIDE: Duration = Duration::from_hours(72);

/// Follows the class until it is over, and has been for long; removes its seats then. It calls `announce` when it is set aside.
///
/// # Errors
/// When something could not be removed.
pub async fn run(host: &Arc<Host>, announce: impl Fn()) -> Result<()> {
    let mut retimed = host.times_changed();
    let mut last = None;
    let mut aside: Option<Instant> = None;
    loop {
        let now = Timestamp::now();
        let phase = host.register().phase(now);
        let before = last.replace(phase);
        if before != Some(phase) {
            if before.is_some() {
                host.audit.line("phase", json!({ "phase": format!("{phase:?}").to_lowercase() }));
                host.standings.stir();
                host.stages.poke_all();
            }
            aside = (phase == Phase::Over).then(Instant::now);
            if aside.is_some() && !host.register().is_removed() {
                announce();
            }
        }
        if let Some(since) = aside
            && (since.elapsed() >= ASIDE || host.register().is_removed())
        {
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
                server.remove(seat).map_err(|status| Error::message(Code::ClassFault, status.message))?;
            }
        }
        let gone = klab_server::files::gone(std::fs::remove_dir_all(&folder));
        gone.map_err(|error| klab_operations::state::home::state_error(error, "remove", &folder))
    });
    removed.await.code(Code::ClassFault, || "could not remove the seats".to_owned())??;
    host.record(vec![Entry::Over { at: Timestamp::now() }]).await?;
    host.standings.clear();
    host.audit.line("over", json!({}));
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::register::Times;
    use super::super::state::Settings;
    use super::*;

    /// Times by which a class closed before or closes after a number of hours, and is kept for one.
    fn closing(hours: i64) -> Entry {
        let closes = Some(klab_cluster::clock::later(Timestamp::now(), SignedDuration::from_hours(hours)));
        Entry::Times(Times { opens: None, closes, keep: SignedDuration::from_hours(1), decided: None })
    }

    /// Records on the disk while the clock stands still, as it does for work of threads.
    async fn record(host: &Host, entry: Entry) {
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let stands_still = tokio::task::spawn_blocking(move || waits.recv().is_err());
        host.record(vec![entry]).await.unwrap();
        drop(done);
        assert!(stands_still.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_that_is_over_is_set_aside_for_days_and_a_clock_that_is_put_right_brings_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::open(folder.path(), Settings::default(), &["scheduling".to_owned()]).unwrap();
        let host = Arc::new(host);
        let kept = folder.path().join("seats/0-1");
        std::fs::create_dir_all(&kept).unwrap();
        record(&host, closing(-9 * 24)).await;
        let count = std::sync::atomic::AtomicUsize::new(0);
        let tell = || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        let hours = async |hours: u64| {
            let passed = Duration::from_hours(hours);
            tokio::time::timeout(passed, run(&host, tell)).await.is_ok()
        };
        // Each start counts from the beginning.
        for _ in 0..3 {
            assert!(!hours(71).await && kept.exists());
        }
        assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 3);
        // The clock is put right half way, and wrong again: as if the class had other times.
        let running = tokio::time::timeout(Duration::from_hours(100), run(&host, tell));
        let clock = async {
            for times in [closing(4), closing(-9 * 24)] {
                tokio::time::sleep(Duration::from_hours(40)).await;
                record(&host, times).await;
            }
        };
        let (ended, ()) = tokio::join!(running, clock);
        assert!(ended.is_err() && kept.exists() && !host.register().is_removed());
        let start = Instant::now();
        run(&host, tell).await.unwrap();
        assert!((ASIDE..ASIDE + NAP).contains(&start.elapsed()));
        assert!(!kept.exists() && host.register().is_removed());
        let start = Instant::now();
        run(&host, tell).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "a class that is removed is not waited for");
    }
}
