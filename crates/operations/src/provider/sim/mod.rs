//! The embedded cluster as a provider: one server process, pools as node objects made through its API.

mod beginning;
pub mod copies;
pub mod daemon;
mod devices;
pub mod in_process;
mod node_pools;
mod pools;
mod scheduler;
pub mod seat;
pub mod server;
pub mod server_lock;
mod standalone;
mod upgrades;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::runtime::Runtime;

use self::beginning::seed;
pub use self::beginning::{addons, flavour};
use self::server_lock::{Attempt, ServerLock};
pub use self::standalone::Inside;
use super::{Copies, Options, Provider, Work};
use crate::client::{self, NoAnswer, connect, is_cut_off};
use crate::error::{Code, Error, Result};
use crate::event::{About, Events, Verb};
use crate::state::Home;
use crate::state::home::state_error;
use klab_lab::nodes::{VERSION, full_version};
use klab_lab::plan::{Action, Observed};
use klab_lab::spec::Lab;
use klab_lab::words::plural;
use klab_server::files::write_link;
use klab_server::{Access, Delays, NewCopy, Renaming, Seed};
use klab_server::{is_served, remove_saved};

/// How long `down` asks a server before it ends it.
const ASKED: Duration = Duration::from_secs(10);

/// Labs on the embedded cluster.
pub struct Sim {
    home: Home,
    runtime: Runtime,
    client: OnceCell<Client>,
}

impl Sim {
    /// The provider for a klab home.
    ///
    /// # Errors
    /// When the system refuses a runtime.
    pub fn new(home: &Home) -> Result<Self> {
        let runtime = client::runtime()?;
        Ok(Self { home: home.clone(), runtime, client: OnceCell::new() })
    }

    /// Where the server keeps the cluster of this lab.
    fn saved(&self, lab: &str) -> PathBuf {
        self.home.server().join("clusters").join(lab)
    }

    /// Whether the server, running or not, has a cluster of this lab. One that was being made or removed when a server was
    /// killed, or is being made for a klab that was, is none yet: its kubeconfig is written last.
    fn exists(&self, lab: &str) -> bool {
        is_served(&self.saved(lab))
    }

    /// The running server; one that died is started again and restores its clusters.
    ///
    /// # Errors
    /// When it cannot be started, or cannot serve the cluster of this lab.
    fn server(&self, lab: &str) -> Result<Access> {
        let access = daemon::ensure(&self.home)?;
        match access.broken.get(lab) {
            None => Ok(access),
            Some(reason) => Err(Error::message(Code::ClusterGone, reason.clone())
                .hint(format!("`klab down {lab}` removes it; `klab up` with its lab file then recreates it"))),
        }
    }

    fn kubeconfig_path(&self, lab: &str) -> PathBuf {
        self.home.lab(lab).join("kubeconfig")
    }

    fn client(&self, lab: &str) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let connected = || self.kubeconfig(lab).and_then(|path| self.block_on(connect(&path)));
        let client = once_more(connected)?;
        Ok(self.client.get_or_init(|| client))
    }

    fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(future)
    }

    fn create(&self, lab: &Lab, work: &mut Work<'_>) -> Result<()> {
        let name = &lab.name.value;
        work.intend("start-server", &self.home.server().display().to_string())?;
        let activity =
            work.events.about(About::Cluster, name).start(Verb::CreateCluster, format!("cluster {name} (embedded)"));
        self.server(name)?;
        work.intend("add-cluster", name)?;
        let seed = Seed { delays: Delays::in_real_time(), ..seed(lab, lab.sim.seed.unwrap_or_default()) };
        let cluster = once_more(|| {
            let access = self.server(name)?;
            self.block_on(async { server::Client::new(&access).await?.add(name, &seed).await })
        })?;
        self.link_kubeconfig(name, &cluster.kubeconfig_path)?;
        if let Some(version) = &lab.kubernetes
            && full_version(version.value) != VERSION
        {
            self.block_on(pools::answer_as(self.client(name)?, Some(version.value)))?;
        }
        activity.finish(format!("cluster {name} (embedded)"));
        Ok(())
    }

    /// Removes the cluster: by the server, else by klab itself when there is no server, or one that does not answer and is
    /// ended.
    fn remove_cluster(&self, lab: &str, events: &Events) -> Result<()> {
        let saved = self.saved(lab);
        let by_hand = |lock: Option<ServerLock>| {
            let removed =
                remove_saved(&self.home.server(), &[lab]).map_err(|error| state_error(error, "remove", &saved));
            drop(lock);
            removed
        };
        let mut cut_off = 0;
        loop {
            match ServerLock::take_existing(&self.home.server())? {
                Attempt::Absent => return Ok(()),
                Attempt::Taken(lock) => return by_hand(Some(lock)),
                Attempt::Held => {}
            }
            // Where nothing is saved yet, a request of a klab that was killed may still be on its way to the server.
            let asked = match daemon::running(&self.home) {
                Ok(None) => continue,
                Ok(Some(access)) => self
                    .block_on(async { server::Client::new_within(&access, ASKED).await?.remove(lab).await.map(drop) }),
                Err(error) => Err(error),
            };
            match asked {
                // It was killed in this moment.
                Err(error) if is_cut_off(&error) && cut_off < 3 => cut_off += 1,
                Err(error) if is_cut_off(&error) || NoAnswer::in_error(&error).is_some() => {
                    let words = "it is ended; its other labs come back with the next klab command";
                    events.warn(
                        Code::ServerEnded,
                        format!("{}: {words}, none of their data is lost", error.source.root_cause()),
                    );
                    return by_hand(daemon::stop(&self.home)?);
                }
                asked => return asked,
            }
        }
    }

    /// The lab's kubeconfig is the server's own file: after a restart at another port it is right by itself.
    fn link_kubeconfig(&self, lab: &str, target: &std::path::Path) -> Result<()> {
        let path = self.kubeconfig_path(lab);
        write_link(target, &path).map_err(|error| state_error(error, "write", &path))
    }

    fn perform(&self, lab: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()> {
        if *action == Action::CreateCluster {
            return self.create(lab, work);
        }
        work.intend("change-pool", &action.to_string())?;
        let name = &lab.name.value;
        let client = self.client(name)?;
        let make =
            async |nodes: Vec<Value>| server::Client::new(&self.server(name)?).await?.add_objects(name, &nodes).await;
        let pass = async |time| tokio::time::sleep(time).await;
        self.block_on(pools::perform(client, make, pass, lab, action, work.events))
    }
}

impl Provider for Sim {
    fn preflight(&self, _: &Lab) -> Vec<Error> {
        Vec::new()
    }

    fn observe(&self, lab: &str, file: Option<&Lab>) -> Result<Observed> {
        if !self.exists(lab) {
            return Ok(Observed::default());
        }
        let client = self.client(lab)?;
        self.block_on(pools::observe(client, file))
    }

    fn recreation(&self, lab: &Lab) -> Result<Vec<String>> {
        let name = &lab.name.value;
        if !self.exists(name) {
            return Ok(Vec::new());
        }
        let differences = self.client(name).and_then(|client| self.block_on(scheduler::other_features(client, lab)));
        // One that does not answer is no reason: what comes next says so.
        Ok(differences.unwrap_or_default().into_iter().collect())
    }

    fn perform_all(&self, lab: &Lab, actions: &[Action], _: &Options, work: &mut Work<'_>) -> Result<()> {
        let is_new = actions.contains(&Action::CreateCluster);
        actions.iter().try_for_each(|action| self.perform(lab, action, work))?;
        // A new cluster was made with it; an annotation says so to those that change it later.
        if is_new && (lab.scheduler.is_none() || lab.configures_scheduler_by_object()) {
            Ok(())
        } else {
            self.block_on(scheduler::configure(self.client(&lab.name.value)?, lab, work.events))
        }
    }

    fn abort_upgrade(&self, lab: &Lab, pool: &str) -> Result<()> {
        self.block_on(upgrades::abort(self.client(&lab.name.value)?, pool))
    }

    fn prepare(&self) -> Result<()> {
        daemon::ensure(&self.home).map(|_| ())
    }

    fn restore_system(&self, lab: &Lab) -> Result<Vec<String>> {
        let version = lab.kubernetes.as_ref().map(|version| version.value);
        self.block_on(pools::answer_as(self.client(&lab.name.value)?, version))?;
        let access = self.server(&lab.name.value)?;
        self.block_on(async { server::Client::new(&access).await?.restore(&lab.name.value).await })
    }

    fn kubeconfig(&self, lab: &str) -> Result<PathBuf> {
        if !self.exists(lab) {
            let message = format!("the embedded cluster of lab `{lab}` is gone");
            return Err(Error::message(Code::ClusterGone, message).hint("`klab up` with its lab file creates it again"));
        }
        self.server(lab)?;
        let path = self.kubeconfig_path(lab);
        if !path.is_file() {
            // A klab killed between making the cluster and naming its kubeconfig.
            self.link_kubeconfig(lab, &self.saved(lab).join("kubeconfig"))?;
        }
        Ok(path)
    }

    fn remove(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let activity =
            work.events.about(About::Cluster, lab).start(Verb::RemoveCluster, format!("cluster {lab} (embedded)"));
        work.intend("remove-cluster", lab)?;
        self.remove_cluster(lab, work.events)?;
        work.intend("stop-server", &self.home.server().display().to_string())?;
        let others = clusters(&self.home);
        self.retire()?;
        let what = match others.len() {
            0 => format!("cluster {lab} and the server"),
            count => format!("cluster {lab}; the server still holds {}", plural(count, "other cluster")),
        };
        activity.finish(what);
        Ok(())
    }

    /// Ends the server and removes its folder, where it holds no cluster.
    fn retire(&self) -> Result<()> {
        if !clusters(&self.home).is_empty() {
            return Ok(());
        }
        // A `down` that was killed may have removed the lock already, and not all that is beside it.
        let folder = self.home.server();
        let lock = match daemon::stop(&self.home)? {
            None if folder.exists() => ServerLock::take(&folder)?,
            lock => lock,
        };
        let Some(lock) = lock else { return Ok(()) };
        // Another klab may have been given a cluster before the server ended.
        if clusters(&self.home).is_empty() {
            lock.remove_folder(&folder)?;
        }
        Ok(())
    }

    fn copies(&self) -> Option<&dyn Copies> {
        Some(self)
    }

    fn remains(&self, lab: &str) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let saved = self.saved(lab);
        if saved.exists() {
            left.push(format!("the saved cluster in `{}`", saved.display()));
        }
        // Where other labs are, one of them may be about to be made.
        let alone = self.home.labs().is_ok_and(|labs| labs.iter().all(|known| known == lab));
        if alone
            && clusters(&self.home).is_empty()
            && let Some(access) = daemon::running(&self.home)?
        {
            left.push(format!("the server, process {} at {}", access.pid, access.address));
        }
        Ok(left)
    }
}

impl Copies for Sim {
    fn renaming(&self, of: &Lab, to: &Lab) -> Option<Renaming> {
        copies::renaming(of, to)
    }

    fn copy_all(&self, of: &str, copies: &[NewCopy]) -> Result<BTreeSet<String>> {
        let access = self.server(of)?;
        let made = self.block_on(async { server::Client::new(&access).await?.copy(of, copies).await })?;
        Ok(made.into_iter().filter(|copy| copy.created).map(|copy| copy.name).collect())
    }

    fn link_kubeconfig(&self, lab: &str) -> Result<()> {
        let path = self.kubeconfig_path(lab);
        let linked = std::os::unix::fs::symlink(self.saved(lab).join("kubeconfig"), &path);
        linked.map_err(|error| state_error(error, "write", &path))
    }

    fn remove_all(&self, labs: &[String]) -> Result<BTreeSet<String>> {
        let Some(access) = daemon::running(&self.home)? else { return Ok(BTreeSet::new()) };
        let removed = self.block_on(async { server::Client::new(&access).await?.remove_all(labs).await })?;
        let gone = removed.into_iter().filter(|one| one.error.is_none()).map(|one| one.name);
        Ok(gone.filter(|name| !self.saved(name).exists()).collect())
    }
}

/// Does something with the server, and once more where the server was killed in this moment.
fn once_more<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    match attempt() {
        Err(error) if is_cut_off(&error) => attempt(),
        done => done,
    }
}

/// The clusters the server has saved, by name.
fn clusters(home: &Home) -> Vec<String> {
    let folder = std::fs::read_dir(home.server().join("clusters"));
    let entries = folder.into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
