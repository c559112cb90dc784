//! Threads on which control planes run: apart from those that answer requests, so that neither waits for the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};

use super::quiescence::Followers;
use klab_cluster::cluster::Cluster;
use klab_cluster::control::{ControlPlane, Progress, Settings};

/// Most threads; each serves many clusters.
const MAX_THREADS: usize = 4;
/// How long a control plane works before others on its thread have their turn, and before it looks whether it is to stop.
const TURN: Duration = Duration::from_millis(10);
/// How long a client that wakes a cluster and only reads is alone with it: a control plane takes longer to read all objects of a
/// cluster than most answers take.
const PEACE: Duration = Duration::from_secs(2);
/// A cluster where nothing is due for longer is at rest.
const BREATHER: Duration = Duration::from_millis(200);

/// A few threads, started as clusters come.
#[derive(Default)]
pub(super) struct ControlThreads {
    threads: Mutex<Vec<Thread>>,
    quiescence: Arc<Followers>,
}

struct Thread {
    work: mpsc::UnboundedSender<Work>,
    /// How many clusters it has.
    load: Arc<AtomicUsize>,
}

struct Work {
    name: Arc<str>,
    cluster: Arc<Cluster>,
    settings: Settings,
    stop: oneshot::Receiver<()>,
    /// Dropped when the control plane is gone.
    _end: std::sync::mpsc::Sender<()>,
    rest: Arc<Mutex<Option<Rest>>>,
    quiescence: Arc<Followers>,
}

/// A control plane that has nothing to do now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    /// The resourceVersion that it has seen.
    pub(super) version: u64,
    /// When something is to be done that somebody could see, if nothing changes until then.
    pub(super) due: Option<Timestamp>,
}

/// A control plane that runs until this is dropped.
pub(super) struct Running {
    stop: Option<oneshot::Sender<()>>,
    end: std::sync::mpsc::Receiver<()>,
    rest: Arc<Mutex<Option<Rest>>>,
    load: Arc<AtomicUsize>,
}

impl Running {
    /// Where the control plane rests, if it does.
    pub(super) fn rest(&self) -> Option<Rest> {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the control plane, and waits until it has.
    pub(super) fn end(mut self) {
        drop(self.stop.take());
        // An error says that it is gone.
        let _ = self.end.recv();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ControlThreads {
    /// Those who follow which clusters come to rest.
    pub(super) fn quiescence(&self) -> &Followers {
        &self.quiescence
    }

    /// Ends the threads that have no cluster: what they have allocated can be given back only then.
    pub(super) fn end_idle(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| thread.load.load(Ordering::Relaxed) > 0);
    }

    /// Runs a control plane for the cluster. If the cluster still is where it rested before, its control plane begins when something
    /// changes or is due, or a little later.
    pub(super) fn run(
        &self,
        name: &Arc<str>,
        cluster: Arc<Cluster>,
        settings: Settings,
        rest: Option<Rest>,
    ) -> std::io::Result<Running> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let most = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let busy = threads.iter().all(|thread| thread.load.load(Ordering::Relaxed) > 0);
        if busy && threads.len() < most {
            let work = start(threads.len())?;
            threads.push(Thread { work, load: Arc::default() });
        }
        let thread = threads.iter().min_by_key(|thread| thread.load.load(Ordering::Relaxed));
        let thread = thread.ok_or_else(|| std::io::Error::other("there is no control thread"))?;
        let (stop, stopped) = oneshot::channel();
        let (ends, end) = std::sync::mpsc::channel();
        let rest = rest.filter(|rest| rest.version == cluster.version());
        if let Some(rest) = rest {
            cluster.set_settled(rest.version, rest.due);
        }
        let rest = Arc::new(Mutex::new(rest));
        let work = Work {
            name: Arc::clone(name),
            cluster,
            settings,
            stop: stopped,
            _end: ends,
            rest: Arc::clone(&rest),
            quiescence: Arc::clone(&self.quiescence),
        };
        thread.work.send(work).map_err(|_| std::io::Error::other("a control thread has ended"))?;
        thread.load.fetch_add(1, Ordering::Relaxed);
        Ok(Running { stop: Some(stop), end, rest, load: Arc::clone(&thread.load) })
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
async fn drive(mut work: Work) {
    let cluster = Arc::clone(&work.cluster);
    let mut changes = cluster.changes();
    let mut reported = cluster.version();
    if !work.peace(&mut changes).await {
        return;
    }
    let mut plane = ControlPlane::new(Arc::clone(&cluster), work.settings.clone());
    loop {
        changes.mark_unchanged();
        let version = cluster.version();
        let rest = |rest: Option<Rest>| *work.rest.lock().unwrap_or_else(PoisonError::into_inner) = rest;
        let Progress::Settled(due) = plane.run_for(TURN) else {
            rest(None);
            tokio::task::yield_now().await;
            if !matches!(work.stop.try_recv(), Err(TryRecvError::Empty)) {
                return;
            }
            continue;
        };
        // What came while it worked is seen by the next turn, which then rests at that version.
        let seen = plane.seen();
        rest((seen >= version).then(|| Rest { version: seen, due: plane.due_if_nothing_changes() }));
        if seen > reported {
            reported = seen;
            work.quiescence.notify(&work.name);
        }
        // What is due already was done; a clock that stands still must not spin.
        let wait = until(due, &cluster).max(Duration::from_millis(1));
        if wait > BREATHER {
            cluster.rest();
        }
        tokio::select! {
            _ = &mut work.stop => return,
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep(wait) => {}
        }
    }
}

impl Work {
    /// Waits where it rests while nothing is to be done; whether the control plane is to begin then.
    async fn peace(&mut self, changes: &mut watch::Receiver<u64>) -> bool {
        let Some(rest) = *self.rest.lock().unwrap_or_else(PoisonError::into_inner) else { return true };
        changes.mark_unchanged();
        if self.cluster.version() != rest.version {
            return true;
        }
        tokio::select! {
            _ = &mut self.stop => false,
            changed = changes.changed() => changed.is_ok(),
            () = sleep(until(rest.due, &self.cluster).min(PEACE)) => true,
        }
    }
}

/// How long until something is due.
fn until(due: Option<Timestamp>, cluster: &Cluster) -> Duration {
    due.map_or(Duration::MAX, |due| cluster.until(due))
}

async fn sleep(wait: Duration) {
    if wait == Duration::MAX { std::future::pending().await } else { tokio::time::sleep(wait).await }
}
