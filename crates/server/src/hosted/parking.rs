//! How a cluster is woken, parked, reset and stopped. It is parked when no other code holds any part of it, so that there are
//! never two of one cluster.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use klab_api_machinery::status::Status;
use serde_json::Value;

use super::{Hosted, LOG_FILE, SEED_FILE, SEEDED_FILE, STOPPED_FILE, Stage, io_failure, io_status};
use crate::active::Active;
use crate::control_thread::Rest;
use crate::files::{gone, write_private};
use crate::register::{CopyOf, Note, Parked};
use klab_cluster::api::Api;
use klab_cluster::cluster::{Cluster, Voice};
use klab_cluster::control::Settings;
use klab_cluster::seed::{Seed, add_objects};
use klab_cluster::system;

/// What is due within this time is waited for.
const SOON: Duration = Duration::from_secs(30);
/// How many hold a cluster that is not used: its API, and three parts of its control plane.
const OWN: usize = 4;

impl Hosted {
    /// It, awake; opened where it was parked.
    pub(crate) fn wake(self: &Arc<Self>) -> Result<Arc<Active>, Status> {
        self.wake_in(&mut self.stage())
    }

    fn wake_in(&self, stage: &mut Stage) -> Result<Arc<Active>, Status> {
        let parked = match stage {
            Stage::Active(active) => return Ok(Arc::clone(active)),
            Stage::Gone => return Err(Status::new(404, "NotFound", format!("cluster {:?} not found", self.name()))),
            Stage::Parked(parked) => *parked,
        };
        let opened = match &self.copy {
            Some(copy) => self.open_copy(copy, &parked),
            None => self.open_folder(),
        };
        let rest = Rest { version: parked.version, due: parked.due };
        let active = opened
            .and_then(|opened| refuse_older(&opened.0, &parked).map(|()| opened))
            .and_then(|(cluster, seed)| self.begin(Arc::new(cluster), &seed, rest))
            .map_err(|mut status| {
                if self.copy.is_some() {
                    let (name, folder) = (self.name(), self.folder());
                    let words = format!("cluster `{name}` cannot be served: {}", status.message);
                    let whole = format!("{words}; it is kept in `{}`", folder.display());
                    tracing::error!(cluster = name, "{whole}");
                    self.host.broken().insert(name.to_owned(), whole.clone());
                    // Where others than the machine's own users ask, where it is kept is not theirs to know.
                    status.message = if self.host.public.is_some() { words } else { whole };
                }
                status
            })?;
        let active = Arc::new(active);
        *stage = Stage::Active(Arc::clone(&active));
        self.host.activity.note_active(self.shared_name());
        if self.copy.is_some() {
            self.host.broken().remove(self.name());
            self.note(Note::Active(self.name().to_owned()));
        }
        Ok(active)
    }

    /// Runs a cluster that was opened, and rested there when it was parked.
    fn begin(&self, cluster: Arc<Cluster>, seed: &Seed, rest: Rest) -> Result<Active, Status> {
        cluster.set_flavour(seed.flavour);
        cluster.set_features(seed.features);
        cluster.set_limits(Arc::clone(&self.host.room));
        cluster.set_webhooks(Arc::clone(&self.host.webhooks));
        cluster.count_kinds(&self.kinds);
        self.sign_as_now(&cluster)?;
        let api = Api::at(Arc::clone(&cluster), self.host.address.to_string());
        let figures = *self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        api.set_metrics(figures.unwrap_or(seed.metrics).metrics());
        let own = self.copy.as_ref().and_then(|copy| copy.seed);
        let settings = Settings { seed: own.unwrap_or(seed.seed), ..seed.settings() };
        let active = Active::new(api, settings);
        self.run_control(&active, Some(rest))?;
        Ok(active)
    }

    /// Has its controllers work. They begin later where it rests.
    fn run_control(&self, active: &Active, rest: Option<Rest>) -> Result<(), Status> {
        let cluster = Arc::clone(active.api.cluster());
        let running = self.host.control.run(self.shared_name(), cluster, active.settings.clone(), rest);
        *active.running() = Some(running.map_err(io_failure("control plane"))?);
        Ok(())
    }

    /// Opens a cluster that was made of a seed.
    fn open_folder(&self) -> Result<(Cluster, Seed), Status> {
        let (name, folder) = (self.name(), self.folder());
        let seed = std::fs::read(folder.join(SEED_FILE)).map_err(io_failure(SEED_FILE))?;
        let seed: Seed = serde_json::from_slice(&seed).map_err(|error| io_failure(SEED_FILE)(error.into()))?;
        refuse_lost(&folder)?;
        let authority = &self.host.identity.authority;
        let (cluster, recovery) =
            Cluster::open_trusting(&folder.join(LOG_FILE), Arc::clone(&self.host.clock), seed.seed, authority)
                .map_err(io_failure(LOG_FILE))?;
        if recovery.fresh && folder.join(SEEDED_FILE).exists() {
            return Err(lost("cut off before its first record"));
        }
        for note in recovery.notes {
            tracing::warn!(cluster = name, "{note}");
        }
        let cluster = cluster.with_voice(Arc::clone(&self.voice));
        cluster.set_limits(Arc::clone(&self.host.room));
        if self.checked.swap(true, Ordering::Relaxed) {
            cluster.assume_root_certificate(&self.host.identity.authority);
            return Ok((cluster, seed));
        }
        cluster.set_root_certificate(&self.host.identity.authority);
        if !folder.join(SEEDED_FILE).exists() {
            seed.fill(&cluster, name)?;
            write_private(&folder.join(SEEDED_FILE), b"").map_err(io_failure("folder"))?;
        }
        // As an API server does at each start: an older klab may have made the cluster.
        system::ensure_common(&cluster);
        Ok((cluster, seed))
    }

    /// Opens a copy: what its template holds, and what has changed since.
    fn open_copy(&self, copy: &CopyOf, parked: &Parked) -> Result<(Cluster, Seed), Status> {
        let id = &copy.base.template;
        let loaded = self.host.templates.load(id);
        let loaded = loaded.map_err(|error| io_status(&format!("use its template `{id}`"), &error))?;
        let path = self.folder().join(LOG_FILE);
        if parked.written && std::fs::metadata(&path).is_ok_and(|log| log.len() == 0) {
            return Err(lost("empty"));
        }
        if parked.written && !path.exists() {
            return Err(lost("missing"));
        }
        let opened = Cluster::open_copy(&path, &loaded.template, &copy.base, copy.seed, Arc::clone(&self.host.clock));
        let (cluster, recovery) = opened.map_err(io_failure(LOG_FILE))?;
        for note in recovery.notes {
            tracing::warn!(cluster = self.name(), "{note}");
        }
        let cluster = cluster.with_voice(Arc::clone(&self.voice));
        cluster.assume_root_certificate(&self.host.identity.authority);
        if loaded.about.klab != env!("CARGO_PKG_VERSION") {
            // As an API server does at each start.
            cluster.set_limits(Arc::clone(&self.host.room));
            system::ensure_common(&cluster);
        }
        Ok((cluster, loaded.about.seed.clone()))
    }

    /// Parks it, if no request has come for as long as `quiet`, no other code holds it, and nothing is due soon. Says whether it
    /// did.
    pub(crate) fn park(&self, quiet: Duration) -> bool {
        let Some(mut stage) = self.try_stage() else { return false };
        let Stage::Active(active) = &*stage else { return false };
        let now = Timestamp::now();
        let used = self.used().map_or(Duration::MAX, |used| now.duration_since(used).try_into().unwrap_or_default());
        let cluster = active.api.cluster();
        let is_idle = Arc::strong_count(active) == 1 && active.api.is_held_by(OWN);
        if used < quiet || !is_idle || cluster.is_silent() || !cluster.control_faults().is_empty() {
            return false;
        }
        let Some(rest) = active.rest() else { return false };
        if rest.due.is_some_and(|due| self.host.clock.until(due) < SOON) {
            return false;
        }
        self.put_away(&mut stage, rest)
    }

    /// Puts it away as it is, for a server that stops: what is due is done by the next one.
    pub(crate) fn put_away_for_good(&self) -> bool {
        let mut stage = self.stage();
        let Stage::Active(active) = &*stage else { return false };
        let due = active.rest().map_or_else(|| Some(self.host.clock.now()), |rest| rest.due);
        active.end_control();
        let version = active.api.cluster().version();
        self.put_away(&mut stage, Rest { version, due })
    }

    fn put_away(&self, stage: &mut Stage, rest: Rest) -> bool {
        let Stage::Active(active) = &*stage else { return false };
        active.end_control();
        let cluster = active.api.cluster();
        let is_quiet = active.api.is_held_by(1) && cluster.version() == rest.version;
        let is_kept = is_quiet && cluster.settle_down().inspect_err(|error| self.not_synced(error)).is_ok();
        if !is_kept {
            if let Err(status) = self.run_control(active, None) {
                tracing::error!(cluster = self.name(), "{status}");
            }
            return false;
        }
        let (objects, bytes) = cluster.size();
        let (version, written) = (rest.version, cluster.is_written());
        let parked = Parked { due: rest.due, used: self.used(), objects, bytes, version, written };
        *stage = Stage::Parked(parked);
        self.host.activity.is_parked(self.shared_name(), parked.due);
        if self.copy.is_some() {
            self.note(Note::Parked(self.name().to_owned(), parked));
        }
        true
    }

    /// Writes down in the register what only saves time at the next start.
    fn note(&self, note: Note) {
        if let Err(error) = self.host.register.note([note]) {
            tracing::error!(cluster = self.name(), %error, "the register could not be written");
        }
    }

    /// Puts what its template holds in the place of all that it holds. Watches end with 410.
    pub(crate) fn reset(&self) -> Result<(), Status> {
        if self.copy.is_none() {
            let what = format!("cluster {:?} is no copy: there is nothing to go back to", self.name());
            return Err(Status::new(409, "Conflict", what));
        }
        let mut stage = self.stage();
        if matches!(&*stage, Stage::Parked(parked) if !parked.written && parked.objects > 0) {
            // It is as it was made.
            return Ok(());
        }
        let active = self.wake_in(&mut stage)?;
        active.end_control();
        let done = active.api.cluster().return_to_template();
        self.run_control(&active, None)?;
        done.map_err(|error| io_status("reset the cluster", &error))
    }

    /// Stops its API server, also for servers that serve it later, or lets it run again. What runs in the cluster goes on.
    pub(crate) fn stop_api(&self, stopped: bool) -> Result<(), Status> {
        let file = self.folder().join(STOPPED_FILE);
        let noted = if stopped { write_private(&file, b"") } else { gone(std::fs::remove_file(&file)) };
        noted.map_err(io_failure(STOPPED_FILE))?;
        let voice = if stopped { Voice::Stopped } else { Voice::Answers };
        self.voice.send_if_modified(|before| std::mem::replace(before, voice) != voice);
        Ok(())
    }

    /// Ends its control plane for good. Idempotent.
    pub(crate) fn close(&self) {
        let before = std::mem::replace(&mut *self.stage(), Stage::Gone);
        if let Stage::Active(active) = before {
            active.end_control();
        }
        self.host.activity.is_gone(self.shared_name());
    }

    /// Makes what was written since the last time survive the machine, too.
    pub(crate) fn sync(&self) {
        let active = match self.try_stage() {
            Some(stage) => match &*stage {
                Stage::Active(active) => Arc::clone(active),
                _ => return,
            },
            // Who holds it syncs it, or the next round does.
            None => return,
        };
        let version = active.api.cluster().version();
        if active.synced.swap(version, Ordering::Relaxed) != version
            && let Err(error) = active.api.cluster().sync()
        {
            self.not_synced(&error);
        }
    }

    fn not_synced(&self, error: &io::Error) {
        tracing::error!(cluster = self.name(), %error, "the cluster's log could not be synced");
    }

    /// Makes what the cluster began with and has no more; gives what that was.
    pub(crate) fn restore(self: &Arc<Self>) -> Result<Vec<String>, Status> {
        let api = self.api()?;
        self.seed()?.fill(api.cluster(), self.name())
    }

    /// How it behaves, and what it was made with.
    pub(crate) fn seed(&self) -> Result<Seed, Status> {
        let failed = |error: io::Error| io_status("read the cluster's seed", &error);
        if let Some(copy) = &self.copy {
            return Ok(self.host.templates.load(&copy.base.template).map_err(failed)?.about.seed.clone());
        }
        let text = std::fs::read(self.folder().join(SEED_FILE)).map_err(failed)?;
        serde_json::from_slice(&text).map_err(|error| failed(error.into()))
    }

    /// Makes the objects of this JSON list; those that are there already stay as they are.
    pub(crate) fn add_objects(self: &Arc<Self>, objects: &[u8]) -> Result<(), Status> {
        let objects: Vec<Value> = serde_json::from_slice(objects)
            .map_err(|error| Status::bad_request(format!("not a list of objects: {error}")))?;
        add_objects(self.api()?.cluster(), &objects).map(drop)
    }

    /// Waits until its control plane rests, for so long at most; gives what it then holds, and when something is due.
    pub(crate) fn at_rest(self: &Arc<Self>, patience: Duration) -> Result<(Api, Option<Timestamp>), Status> {
        let active = self.wake()?;
        let begun = std::time::Instant::now();
        loop {
            if let Some(rest) = active.rest() {
                return Ok((active.api.clone(), rest.due));
            }
            if begun.elapsed() > patience {
                // Copies of it go on at once with what is under way.
                return Ok((active.api.clone(), Some(self.host.clock.now())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A cluster that was made has objects: without them it is not a new one, but one that was lost.
fn refuse_lost(folder: &Path) -> Result<(), Status> {
    if !folder.join(SEEDED_FILE).exists() {
        return Ok(());
    }
    match std::fs::metadata(folder.join(LOG_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(lost("missing")),
        Ok(log) if log.is_file() && log.len() == 0 => Err(lost("empty")),
        _ => Ok(()),
    }
}

/// A cluster has what it had when it was put away.
fn refuse_older(cluster: &Cluster, parked: &Parked) -> Result<(), Status> {
    if cluster.version() >= parked.version {
        return Ok(());
    }
    Err(lost(&format!("cut off: it ends at version {}, and had {}", cluster.version(), parked.version)))
}

fn lost(what: &str) -> Status {
    Status::new(500, "InternalError", format!("its objects are lost: `{LOG_FILE}` is {what}"))
}
