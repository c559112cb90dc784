//! Threads on which control planes run: apart from those that answer requests, so that neither waits for the other.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::super::cluster::Cluster;
use super::super::control::{ControlPlane, Progress, Settings};

/// Most threads; each serves many clusters.
const MOST: usize = 4;
/// How long a control plane works before others on its thread have their turn, and before it looks whether it is to stop.
const TURN: Duration = Duration::from_millis(10);
/// A cluster where nothing is due for longer is at rest.
const BREATHER: Duration = Duration::from_millis(200);

/// A few threads, started as clusters come.
#[derive(Default)]
pub(super) struct ControlThreads {
    threads: Mutex<Vec<Thread>>,
}

struct Thread {
    work: mpsc::UnboundedSender<Work>,
    /// How many clusters it was given.
    given: usize,
}

struct Work {
    cluster: Arc<Cluster>,
    settings: Settings,
    stop: oneshot::Receiver<()>,
}

/// A control plane that runs until this is dropped.
pub(super) struct Running {
    _stop: oneshot::Sender<()>,
}

impl ControlThreads {
    /// Runs a control plane for the cluster.
    pub(super) fn run(&self, cluster: Arc<Cluster>, settings: Settings) -> std::io::Result<Running> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let most = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
        let idle = threads.iter().all(|thread| thread.given > 0);
        if idle && threads.len() < most {
            let work = start(threads.len())?;
            threads.push(Thread { work, given: 0 });
        }
        let (stop, stopped) = oneshot::channel();
        if let Some(thread) = threads.iter_mut().min_by_key(|thread| thread.given) {
            thread.given += 1;
            let work = Work { cluster, settings, stop: stopped };
            thread.work.send(work).map_err(|_| std::io::Error::other("a control thread has ended"))?;
        }
        Ok(Running { _stop: stop })
    }
}

/// Starts a thread; it ends when its sender is dropped and all its clusters have stopped.
fn start(number: usize) -> std::io::Result<mpsc::UnboundedSender<Work>> {
    let (sender, mut receiver) = mpsc::unbounded_channel::<Work>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name(format!("control-{number}")).spawn(move || {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async move {
            while let Some(work) = receiver.recv().await {
                tokio::task::spawn_local(drive(work));
            }
        });
    })?;
    Ok(sender)
}

/// Runs a control plane whenever its cluster changes or something is due.
async fn drive(work: Work) {
    let Work { cluster, settings, mut stop } = work;
    let mut changes = cluster.changes();
    let mut plane = ControlPlane::new(Arc::clone(&cluster), settings);
    loop {
        changes.mark_unchanged();
        let Progress::Settled(due) = plane.run_for(TURN) else {
            tokio::task::yield_now().await;
            if !matches!(stop.try_recv(), Err(TryRecvError::Empty)) {
                return;
            }
            continue;
        };
        let wait = due.map_or(Duration::MAX, |due| {
            // What is due already was done; a clock that stands still must not spin.
            Duration::try_from(due.duration_since(cluster.now())).unwrap_or_default().max(Duration::from_millis(1))
        });
        if wait > BREATHER {
            cluster.rest();
        }
        tokio::select! {
            _ = &mut stop => return,
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep(wait) => {}
        }
    }
}

async fn sleep(wait: Duration) {
    if wait == Duration::MAX { std::future::pending().await } else { tokio::time::sleep(wait).await }
}
