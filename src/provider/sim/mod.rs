//! The embedded cluster as a provider: one server process, pools as node objects made through its API.

pub mod daemon;
pub mod in_process;
mod pools;

use std::cell::OnceCell;
use std::path::PathBuf;

use kube::Client;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{Provider, Work};
use crate::client::connect;
use crate::error::{Context, Error, Kind, Result};
use crate::plan::{Action, Observed};
use crate::sim::server::Flavour;
use crate::sim::server::{Access, Seed, client as server};
use crate::sim::system;
use crate::spec::{Addon, Lab, SimLike};
use crate::state::Home;
use crate::state::home::state_error;
use crate::ui::plural;

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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .kind(Kind::Outside, || "could not start the runtime for network requests".to_owned())?;
        Ok(Self { home: home.clone(), runtime, client: OnceCell::new() })
    }

    /// Whether the server, running or not, has a cluster of this lab.
    fn exists(&self, lab: &str) -> bool {
        self.home.server().join("clusters").join(lab).is_dir()
    }

    /// The running server; one that died is started again and restores its clusters.
    fn server(&self) -> Result<Access> {
        daemon::ensure(&self.home)
    }

    fn kubeconfig_path(&self, lab: &str) -> PathBuf {
        self.home.lab(lab).join("kubeconfig")
    }

    fn client(&self, lab: &str) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let path = self.kubeconfig(lab)?;
        let client = self.block_on(connect(&path))?;
        Ok(self.client.get_or_init(|| client))
    }

    fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(future)
    }

    fn create(&self, lab: &Lab, work: &mut Work<'_>) -> Result<()> {
        let name = &lab.name.value;
        work.intend("start-server", &self.home.server().display().to_string())?;
        let activity = work.events.start("Creating", format!("cluster {name} (embedded)"));
        let access = self.server()?;
        work.intend("add-cluster", name)?;
        let seed = seed(lab, lab.sim.seed.unwrap_or_default());
        let cluster = self.block_on(async { server::Client::new(&access).await?.add(name, &seed).await })?;
        self.link_kubeconfig(name, &cluster.kubeconfig_path)?;
        activity.finish("Created", format!("cluster {name} (embedded)"));
        Ok(())
    }

    /// The lab's kubeconfig is the server's own file: after a restart at another port it is right by itself.
    fn link_kubeconfig(&self, lab: &str, target: &std::path::Path) -> Result<()> {
        let path = self.kubeconfig_path(lab);
        let failed = |error| state_error(error, "write", &path);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        std::os::unix::fs::symlink(target, &path).map_err(failed)
    }
}

impl Provider for Sim {
    fn preflight(&self, _: &Lab) -> Vec<Error> {
        Vec::new()
    }

    fn observe(&self, lab: &str) -> Result<Observed> {
        if !self.exists(lab) {
            return Ok(Observed::default());
        }
        let client = self.client(lab)?;
        self.block_on(pools::observe(client))
    }

    fn perform(&self, lab: &Lab, action: &Action, work: &mut Work<'_>) -> Result<()> {
        if *action == Action::CreateCluster {
            return self.create(lab, work);
        }
        work.intend("change-pool", &action.to_string())?;
        let client = self.client(&lab.name.value)?;
        self.block_on(pools::perform(client, lab, action, work.events))
    }

    fn restore_system(&self, lab: &Lab) -> Result<Vec<String>> {
        let access = self.server()?;
        self.block_on(async { server::Client::new(&access).await?.restore(&lab.name.value).await })
    }

    fn kubeconfig(&self, lab: &str) -> Result<PathBuf> {
        if !self.exists(lab) {
            let message = format!("the embedded cluster of lab `{lab}` is gone");
            return Err(Error::message(Kind::Outside, message).hint("`klab up` with its lab file makes it again"));
        }
        self.server()?;
        let path = self.kubeconfig_path(lab);
        if !path.is_file() {
            // A klab killed between making the cluster and naming its kubeconfig.
            self.link_kubeconfig(lab, &self.home.server().join("clusters").join(lab).join("kubeconfig"))?;
        }
        Ok(path)
    }

    fn remove(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let activity = work.events.start("Removing", format!("cluster {lab} (embedded)"));
        // Where nothing is saved yet, a request of a klab that was killed may still be on its way to the server.
        let server = if self.exists(lab) { Some(self.server()?) } else { daemon::running(&self.home)? };
        if let Some(access) = server {
            work.intend("remove-cluster", lab)?;
            self.block_on(async { server::Client::new(&access).await?.remove(lab).await })?;
        }
        let others = clusters(&self.home);
        if !others.is_empty() {
            activity.finish(
                "Removed",
                format!("cluster {lab}; the server still holds {}", plural(others.len(), "other cluster")),
            );
            return Ok(());
        }
        let folder = self.home.server();
        work.intend("stop-server", &folder.display().to_string())?;
        daemon::stop(&self.home)?;
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(state_error(error, "remove", &folder));
            }
            _ => {}
        }
        activity.finish("Removed", format!("cluster {lab} and the server"));
        Ok(())
    }

    fn remains(&self, lab: &str) -> Result<Vec<String>> {
        let mut left = Vec::new();
        if self.exists(lab) {
            left.push(format!("the saved cluster in `{}`", self.home.server().join("clusters").join(lab).display()));
        }
        if clusters(&self.home).is_empty()
            && let Some(access) = daemon::running(&self.home)?
        {
            left.push(format!("the server, process {} at {}", access.pid, access.address));
        }
        Ok(left)
    }
}

/// What a lab's embedded cluster begins with; `seed` breaks ties.
fn seed(lab: &Lab, seed: u64) -> Seed {
    Seed { flavour: flavour(lab), seed, objects: addons(lab), ..Seed::default() }
}

/// The objects of the lab's add-ons, where the cluster does not have them by itself.
pub fn addons(lab: &Lab) -> Vec<Value> {
    let objects = lab.addons.iter().map(|addon| match addon {
        Addon::MetricsServer => system::metrics_server(flavour(lab)),
    });
    objects.flatten().collect()
}

/// What a lab's embedded cluster holds beside the lab's own objects.
pub fn flavour(lab: &Lab) -> Flavour {
    match lab.sim.like {
        SimLike::Aks => Flavour::Aks,
        SimLike::Kind => Flavour::Kind,
    }
}

/// The clusters the server has saved, by name.
fn clusters(home: &Home) -> Vec<String> {
    let folder = std::fs::read_dir(home.server().join("clusters"));
    let entries = folder.into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
