//! Kubernetes in containers, through `kind`: pools are groups of workers with the labels, taints and sizes of AKS.
//!
//! Nothing that kind says is trusted: that it ends well does not mean that all nodes are there. What can change on a live
//! cluster is changed there, workers are added and removed; only the rest needs a new cluster, and that is asked for.

mod addons;
mod check;
mod commands;
pub mod config;
mod create;
pub mod desired;
pub mod docker;
pub mod failure;
pub mod images;
mod joining;
pub mod kind_tool;
mod kubelet;
mod live;
mod load;
pub mod machine;
pub mod names;
mod preflight;
mod record;
pub mod roster;
pub mod rules;
mod session;
mod teardown;
mod tool;
pub mod version;
mod workers;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

pub use self::desired::kubelet_may_set;
use self::docker::{Container, Info, Runtime};
use self::kind_tool::KindTool;
use self::live::Starts;
use self::names::Names;
use self::record::{ClusterRecord, Settings};
use self::session::Session;
use self::version::KindVersion;
use self::workers::RunningCluster;
use super::{Machines, Options, Provider, Work};
use crate::environment;
use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::state::Home;
use klab_cluster::clock::later;
use klab_lab::names::{DECLARED_ANNOTATION, POOL_LABEL};
use klab_lab::plan::{Action, Declared, Observed, ObservedNode, ObservedPool};
use klab_lab::spec::Lab;
use klab_lab::words::plural;

/// How long after its start a control plane may take until its API answers.
const API_START: SignedDuration = SignedDuration::from_mins(2);

/// Labs on kind.
pub struct KindProvider {
    home: Home,
    seat: Option<String>,
    memory: Arc<docker::Memory>,
    runtime: OnceCell<(Runtime, Info)>,
    version: OnceCell<KindVersion>,
}

impl KindProvider {
    /// The provider for a klab home, with what was seen of the machine already.
    pub fn new(home: &Home, memory: Arc<docker::Memory>) -> Self {
        let seat = environment::KLAB_SEAT.text();
        Self { home: home.clone(), seat, memory, runtime: OnceCell::new(), version: OnceCell::new() }
    }

    /// The names of a lab: those it was made with, if it was.
    fn names(&self, lab: &str) -> Result<Names> {
        let mut names = Names::new(&self.home, lab, self.seat.as_deref())?;
        if let Some(record) = ClusterRecord::read(&names.record())? {
            names.cluster = record.cluster;
        }
        Ok(names)
    }

    fn runtime(&self, names: &Names) -> Result<&(Runtime, Info)> {
        if let Some(found) = self.runtime.get() {
            return Ok(found);
        }
        let record = ClusterRecord::read(&names.record())?;
        let wanted = match record {
            Some(record) => Some(record.runtime),
            None => environment::KIND_EXPERIMENTAL_PROVIDER.text(),
        };
        let found = docker::find(wanted.as_deref(), &self.memory)?;
        Ok(self.runtime.get_or_init(|| found))
    }

    fn session(&self, lab: &str) -> Result<Session> {
        let names = self.names(lab)?;
        let (runtime, info) = self.runtime(&names)?;
        Ok(Session {
            runtime: runtime.transcribed(names.transcript()),
            kind: KindTool::new(runtime.program()).transcribed(names.transcript()),
            info: info.clone(),
            names,
        })
    }

    fn version(&self, session: &Session) -> Result<KindVersion> {
        if let Some(version) = self.version.get() {
            return Ok(*version);
        }
        let version = session.kind.version()?;
        Ok(*self.version.get_or_init(|| version))
    }

    /// Pools as the world shows them: containers that are nodes of the API.
    fn look(session: &Session, lab: Option<&Lab>) -> Result<Observed> {
        let containers = session.containers_seen()?;
        let record = session.record()?;
        let whole = record.as_ref().is_none_or(|record| record.complete);
        if containers.is_empty() || !whole {
            return Ok(Observed::default());
        }
        if containers.iter().any(|container| !container.running) {
            return Ok(record.map_or_else(Observed::default, |record| from_record(&record, &containers)));
        }
        let nodes = nodes_of(session, &containers)?;
        let mut observed = Observed { exists: true, changes_in_place: true, ..Observed::default() };
        if let Some(record) = &record {
            // A pool whose nodes are all gone, or that has none, is still a pool.
            for (name, declared) in &record.declared {
                observed
                    .pools
                    .insert(name.clone(), ObservedPool { declared: declared.clone(), ..ObservedPool::default() });
            }
        }
        for container in containers.iter().filter(|container| container.is_worker()) {
            let Some(node) = nodes.iter().find(|node| node.name_any() == container.hostname) else { continue };
            let recorded = record.as_ref().and_then(|record| record.roster.place(&container.name));
            let Some(pool) = recorded.map(|place| &place.pool).or_else(|| node.labels().get(POOL_LABEL)) else {
                continue;
            };
            let live = observed.pools.entry(pool.clone()).or_default();
            if let Some(declared) =
                node.annotations().get(DECLARED_ANNOTATION).and_then(|text| serde_json::from_str(text).ok())
            {
                live.declared = declared;
            }
            if lab.and_then(|lab| lab.pool(pool)).is_some_and(|pool| pool.kubernetes.is_some()) {
                let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
                live.kubernetes = info.map(|info| info.kubelet_version.trim_start_matches('v').to_owned());
            }
            live.nodes.push(ObservedNode {
                name: container.hostname.clone(),
                labels: node.labels().clone(),
                taints: check::own_taints(node)
                    .into_iter()
                    .filter(|taint| !taint.key.starts_with("kubernetes.azure.com/"))
                    .collect(),
            });
        }
        Ok(observed)
    }

    /// The record, or one rebuilt from what there is where it was lost.
    fn record(session: &Session, lab: &Lab) -> Result<ClusterRecord> {
        if let Some(record) = session.record()? {
            return Ok(record);
        }
        let host = session.runtime.host(&session.info);
        let mut record = ClusterRecord::new(&session.names, lab, session.runtime.program(), host);
        record.roster = roster::Roster::default();
        record.declared = BTreeMap::new();
        let nodes = session.live()?.nodes()?;
        for container in session.containers()?.iter().filter(|container| container.is_worker()) {
            let node = nodes.iter().find(|node| node.name_any() == container.hostname);
            if let Some(pool) = node.and_then(|node| node.labels().get(POOL_LABEL)) {
                record.roster.adopt(&container.name, &container.hostname, pool);
            }
        }
        session.make_folder()?;
        session.save(&record)?;
        Ok(record)
    }

    fn one(cluster: &mut RunningCluster<'_>, action: &Action, work: &mut Work<'_>) -> Result<()> {
        let live = cluster.session.live()?;
        match action {
            Action::CreateCluster | Action::UpgradeCluster { .. } | Action::SetAutoscaler { .. } => Ok(()),
            Action::AddPool { pool, nodes, .. }
            | Action::ReplacePool { pool, nodes, .. }
            | Action::UpgradePool { pool, nodes, .. } => cluster.scale(pool, *nodes, &live, work),
            Action::ScalePool { pool, to, .. } => cluster.scale(pool, *to, &live, work),
            Action::UpdatePool { pool, changes } => {
                work.intend("change-pool", &action.to_string())?;
                let activity = work
                    .events
                    .about(About::Pool, pool)
                    .start(Verb::ChangePool, format!("pool {pool}: {}", changes.join(", ")));
                cluster.declare(pool)?;
                cluster.settle(&BTreeSet::from([pool.clone()]), &live, work)?;
                activity.finish(format!("pool {pool}: {}", changes.join(", ")));
                Ok(())
            }
            Action::RemovePool { pool, .. } => cluster.remove_pool(pool, &live, work),
        }
    }

    /// Starts node containers that do not run, in an order in which each gets its old address again, and lets those go on that
    /// are frozen: of a klab that was killed while it kept the API server silent. Gives when which container was started.
    fn wake(session: &Session, work: &mut Work<'_>) -> Result<Starts> {
        let containers = session.containers_seen()?;
        let mut stopped: Vec<&Container> = containers.iter().filter(|container| !container.running).collect();
        if stopped.is_empty() {
            return Ok(starts(&containers));
        }
        let addresses = session.record()?.map(|record| record.addresses).unwrap_or_default();
        stopped.sort_by_key(|container| {
            let address = addresses.get(&container.name).and_then(|text| text.parse::<std::net::Ipv4Addr>().ok());
            (address.is_none(), address, container.name.len(), container.name.clone())
        });
        let names: Vec<String> = stopped.iter().map(|container| container.name.clone()).collect();
        work.intend("start-nodes", &names.join(" "))?;
        let activity = work.events.counting(names.len()).start(Verb::StartNodes, plural(names.len(), "stopped node"));
        let (frozen, stopped): (Vec<&Container>, Vec<&Container>) = stopped.into_iter().partition(|one| one.frozen);
        let of = |containers: Vec<&Container>| containers.into_iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        session.runtime.thaw(&of(frozen))?;
        session.runtime.start(&of(stopped))?;
        let containers = session.containers()?;
        let of_nodes = containers.iter().filter(|container| container.is_worker() || container.is_control_plane());
        let nodes: Vec<String> = of_nodes.clone().map(|container| container.hostname.clone()).collect();
        let starts = starts(&containers);
        let live = session.live()?;
        live.wait(
            workers::ready_deadline(),
            |words| activity.progress(words),
            |live| live::missing(live, &nodes, &starts),
        )
        .map_err(|mut error| {
            let causes = of_nodes.filter_map(|container| session.cause(&container.name, &container.hostname));
            let causes: Vec<String> = causes.take(2).collect();
            error.source = anyhow::Error::msg(format!("{:#}\n{}", error.source, causes.join("\n")))
                .context("the nodes did not come back after they were started");
            error.hint("`klab down` and `klab up` recreate the lab")
        })?;
        activity.finish(plural(names.len(), "stopped node"));
        Ok(starts)
    }

    /// What only a new cluster can change, in words.
    fn settings_that_differ(session: &Session, lab: &Lab) -> Result<Vec<String>> {
        let record = session.record()?.filter(|record| record.complete);
        Ok(record.map_or_else(Vec::new, |record| record.settings.differences(&Settings::of(lab))))
    }
}

/// When containers were started last, by their nodes.
fn starts(containers: &[Container]) -> Starts {
    containers.iter().filter_map(|container| Some((container.hostname.clone(), container.started?))).collect()
}

/// The containers of these nodes.
fn containers_of(containers: &[Container], nodes: &[String]) -> Vec<String> {
    let meant = containers.iter().filter(|container| nodes.contains(&container.hostname));
    meant.map(|container| container.name.clone()).collect()
}

/// The nodes of a cluster whose containers run. Where they were started a moment ago, with the machine for example, its API
/// is waited for.
fn nodes_of(session: &Session, containers: &[Container]) -> Result<Vec<Node>> {
    let live = session.live()?;
    let started = containers.iter().filter(|node| node.is_control_plane()).filter_map(|node| node.started).max();
    loop {
        match live.nodes() {
            Err(_) if started.is_some_and(|started| Timestamp::now() < later(started, API_START)) => {
                std::thread::sleep(Duration::from_millis(300));
            }
            result => return result,
        }
    }
}

/// A stopped cluster as it was when it ran.
fn from_record(record: &ClusterRecord, containers: &[Container]) -> Observed {
    let stopped = containers.iter().any(|container| container.is_control_plane() && !container.running);
    let mut observed = Observed { exists: true, stopped, changes_in_place: true, ..Observed::default() };
    for (name, declared) in &record.declared {
        observed.pools.insert(name.clone(), ObservedPool { declared: declared.clone(), ..ObservedPool::default() });
    }
    for (name, place) in record.roster.iter() {
        if containers.iter().any(|container| container.name == *name) {
            let pool = observed.pools.entry(place.pool.clone()).or_default();
            let declared: &Declared = &pool.declared;
            pool.nodes.push(ObservedNode {
                name: record.roster.node(name).to_owned(),
                labels: declared.labels.clone(),
                taints: declared.taints.iter().filter_map(|text| plain_taint(text)).collect(),
            });
        }
    }
    observed
}

/// A taint as `Declared` writes it.
fn plain_taint(text: &str) -> Option<k8s_openapi::api::core::v1::Taint> {
    let (pair, effect) = text.rsplit_once(':')?;
    let (key, value) = pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value.to_owned())));
    Some(k8s_openapi::api::core::v1::Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None })
}

impl Provider for KindProvider {
    fn preflight(&self, lab: &Lab) -> Vec<Error> {
        let session = match self.session(&lab.name.value) {
            Ok(session) => session,
            Err(error) => {
                // A machine that lacks both is refused at once.
                let kind = KindTool::new("docker").version().err();
                return [error].into_iter().chain(kind).collect();
            }
        };
        match self.version(&session) {
            Ok(version) => preflight::problems(&session, lab, version),
            Err(error) => vec![error],
        }
    }

    fn caveats(&self, lab: &Lab) -> Vec<String> {
        let Ok(session) = self.session(&lab.name.value) else { return Vec::new() };
        let Ok(version) = self.version(&session) else { return Vec::new() };
        preflight::caveats(&session, lab, version)
    }

    fn recreation(&self, lab: &Lab) -> Result<Vec<String>> {
        if !self.names(&lab.name.value)?.record().is_file() {
            return Ok(Vec::new());
        }
        Self::settings_that_differ(&self.session(&lab.name.value)?, lab)
    }

    fn observe(&self, lab: &str, file: Option<&Lab>) -> Result<Observed> {
        Self::look(&self.session(lab)?, file)
    }

    fn commands(&self, lab: &Lab, actions: &[Action]) -> Result<Vec<String>> {
        if actions.contains(&Action::CreateCluster) {
            let names = self.names(&lab.name.value)?;
            // The commands can be shown on a machine without any of the tools.
            let runtime = self.runtime(&names).map_or("docker", |(runtime, _)| runtime.program());
            let arguments = kind_tool::create_arguments(&names.cluster, &names.config(), &names.kubeconfig());
            return Ok(vec![KindTool::new(runtime).shown(&arguments)]);
        }
        let session = self.session(&lab.name.value)?;
        commands::live(&session, lab, actions, self.version(&session)?)
    }

    fn perform_all(&self, lab: &Lab, actions: &[Action], _: &Options, work: &mut Work<'_>) -> Result<()> {
        let name = &lab.name.value;
        let session = self.session(name)?;
        let kind = self.version(&session)?;
        let create = actions.contains(&Action::CreateCluster);
        let (record, starts) = if create {
            (create::create(&session, lab, kind, work)?, Starts::new())
        } else {
            let starts = Self::wake(&session, work)?;
            (Self::record(&session, lab)?, starts)
        };
        let mut cluster = RunningCluster { session: &session, lab, kind, record, added: BTreeSet::new(), starts };
        if !create {
            cluster.strike_off_lost(work)?;
        }
        let mut touched = BTreeSet::new();
        if actions.is_empty() {
            touched.extend(cluster.record.declared.keys().cloned());
        }
        for action in actions.iter().filter(|_| !create) {
            // Of a pool that is scaled, only the nodes that are new have to become what is declared: labels and taints of the
            // others, where they differ, are an action of their own.
            if let Action::AddPool { pool, .. } | Action::UpdatePool { pool, .. } | Action::ReplacePool { pool, .. } =
                action
            {
                touched.insert(pool.clone());
            }
            Self::one(&mut cluster, action, work)?;
        }
        if create {
            cluster.fill(work)?;
            touched = cluster.record.declared.keys().cloned().collect();
        }
        let live = session.live()?;
        cluster.settle(&touched, &live, work)?;
        load::load(&session, lab, &mut cluster.record, work)?;
        addons::settle(&session, lab, &mut cluster.record, &live, work)?;
        cluster.complete()
    }

    fn kubeconfig(&self, lab: &str) -> Result<PathBuf> {
        let session = self.session(lab)?;
        let containers = session.containers_seen()?;
        if containers.is_empty() {
            let message = format!("the kind cluster of lab `{lab}` is gone");
            return Err(Error::message(Code::ClusterGone, message).hint("`klab up` with its lab file creates it again"));
        }
        if containers.iter().any(|container| container.is_control_plane() && !container.running) {
            let message = format!("the nodes of lab `{lab}` are stopped");
            return Err(Error::message(Code::PausedLab, message).hint(format!("`klab resume {lab}` starts them")));
        }
        session.ensure_kubeconfig()?;
        Ok(session.names.kubeconfig())
    }

    fn remove(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        match self.session(lab) {
            Ok(session) => teardown::remove(&session, work),
            // Where nothing was ever made, nothing is needed to remove it.
            Err(_) if !self.names(lab)?.record().is_file() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn machines(&self) -> Option<&dyn Machines> {
        Some(self)
    }

    fn remains(&self, lab: &str) -> Result<Vec<String>> {
        match self.session(lab) {
            Ok(session) => teardown::remains(&session),
            Err(_) if !self.names(lab)?.record().is_file() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl Machines for KindProvider {
    fn pause(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let session = self.session(lab)?;
        let containers = session.containers()?;
        let names = |is_meant: fn(&Container) -> bool| -> Vec<String> {
            containers.iter().filter(|one| is_meant(one)).map(|one| one.name.clone()).collect()
        };
        let running = names(|container| container.running || container.frozen);
        if running.is_empty() {
            return Ok(());
        }
        work.intend("stop-nodes", &running.join(" "))?;
        let activity = work.events.counting(running.len()).start(Verb::StopNodes, plural(running.len(), "node"));
        session.runtime.thaw(&names(|container| container.frozen))?;
        session.runtime.stop(&running)?;
        activity.finish(format!("{}; everything in the cluster is kept", plural(running.len(), "node")));
        Ok(())
    }

    fn resume(&self, lab: &str, work: &mut Work<'_>) -> Result<()> {
        let session = self.session(lab)?;
        if session.containers()?.is_empty() {
            let message = format!("the kind cluster of lab `{lab}` is gone");
            return Err(Error::message(Code::ClusterGone, message).hint("`klab up` with its lab file creates it again"));
        }
        Self::wake(&session, work).map(|_| ())
    }

    fn stop_nodes(&self, lab: &str, nodes: &[String], work: &mut Work<'_>) -> Result<()> {
        let session = self.session(lab)?;
        work.intend("stop-nodes", &nodes.join(" "))?;
        let activity = work.events.counting(nodes.len()).start(Verb::StopNodes, plural(nodes.len(), "node"));
        session.runtime.stop_at_once(&containers_of(&session.containers()?, nodes))?;
        activity.end();
        Ok(())
    }

    fn set_api_answers(&self, lab: &str, answers: bool, work: &mut Work<'_>) -> Result<()> {
        let session = self.session(lab)?;
        let containers = session.containers()?;
        let control_planes: Vec<String> =
            containers.into_iter().filter(Container::is_control_plane).map(|container| container.name).collect();
        work.intend(if answers { "thaw-nodes" } else { "freeze-nodes" }, &control_planes.join(" "))?;
        if answers { session.runtime.thaw(&control_planes) } else { session.runtime.freeze(&control_planes) }
    }

    fn start_nodes(&self, lab: &str, nodes: &[String], work: &mut Work<'_>) -> Result<()> {
        let session = self.session(lab)?;
        work.intend("start-nodes", &nodes.join(" "))?;
        let activity = work.events.counting(nodes.len()).start(Verb::StartNodes, plural(nodes.len(), "node"));
        session.runtime.start(&containers_of(&session.containers()?, nodes))?;
        let starts = starts(&session.containers()?);
        let live = session.live()?;
        live.wait(
            workers::ready_deadline(),
            |words| activity.progress(words),
            |live| live::missing(live, nodes, &starts),
        )?;
        activity.end();
        Ok(())
    }
}
