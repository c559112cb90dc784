//! The workers of a live cluster: added, removed, brought to what the lab says, and checked.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::check::{self, Difference};
use super::desired::{Desired, desired};
use super::docker::Container;
use super::images::{self, NodeImage};
use super::joining::{JoinManner, Joining};
use super::kubelet::{self, FLAGS_FILE};
use super::live::{Live, Starts, missing, unregistered};
use super::load;
use super::record::ClusterRecord;
use super::session::Session;
use super::version::KindVersion;
use crate::environment;
use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::provider::Work;
use crate::state::home::state_error;
use klab_lab::plan::Declared;
use klab_lab::spec::{Lab, Pool};
use klab_lab::words::plural;

/// How long nodes may take to become Ready after kind is done with them; `KLAB_KIND_READY`, in seconds, gives slow machines
/// more.
const READY: Duration = Duration::from_mins(3);
/// How long a node may take to register after kind is done with it.
const REGISTERED: Duration = Duration::from_secs(45);
/// How long a change of a kubelet's flags may take to be seen.
const SEEN: Duration = Duration::from_secs(45);

/// A cluster at work.
pub(super) struct RunningCluster<'a> {
    pub(super) session: &'a Session,
    pub(super) lab: &'a Lab,
    pub(super) kind: KindVersion,
    pub(super) record: ClusterRecord,
    /// Workers that were added: they are to be as declared, even where those of their pool are left as they are.
    pub(super) added: BTreeSet<String>,
    /// When the containers were started that were there before: what nodes said earlier does not count.
    pub(super) starts: Starts,
}

/// The time nodes are given to become Ready.
pub(super) fn ready_deadline() -> Duration {
    let seconds = environment::KLAB_KIND_READY.parsed();
    seconds.map_or(READY, Duration::from_secs)
}

impl RunningCluster<'_> {
    fn pool(&self, name: &str) -> Result<&Pool> {
        self.lab.pool(name).ok_or_else(|| Error::message(Code::KlabFault, format!("the lab has no pool `{name}`")))
    }

    fn save(&self) -> Result<()> {
        self.session.save(&self.record)
    }

    /// Brings a pool to this many nodes. Workers that are not whole are recreated; the last ones go first.
    pub(super) fn scale(&mut self, pool: &str, wanted: u32, live: &Live, work: &mut Work<'_>) -> Result<()> {
        let definition = self.pool(pool)?;
        let containers = self.session.containers()?;
        let nodes = live.nodes()?;
        let whole = |name: &String| {
            let node = self.record.roster.node(name);
            let container = containers.iter().find(|container| container.name == *name);
            nodes.iter().any(|known| known.name_any() == node)
                && container.is_some_and(|container| container.running && has_image(definition, container, &containers))
        };
        let workers: Vec<String> = self.record.roster.pool(pool).map(|(name, _)| name.clone()).collect();
        let (mut whole, broken): (Vec<String>, Vec<String>) = workers.into_iter().partition(whole);
        self.record.declared.insert(pool.to_owned(), Declared::of(self.pool(pool)?));
        let surplus = whole.split_off(whole.len().min(wanted as usize));
        let gone = [broken, surplus].concat();
        self.remove(&gone, &containers, live, work)?;
        let containers: Vec<Container> =
            containers.into_iter().filter(|container| !gone.contains(&container.name)).collect();
        let add = (wanted as usize).saturating_sub(whole.len());
        self.add(pool, add, &containers, live, work)
    }

    /// Notes what the lab file declares for a pool now.
    pub(super) fn declare(&mut self, pool: &str) -> Result<()> {
        self.record.declared.insert(pool.to_owned(), Declared::of(self.pool(pool)?));
        self.save()
    }

    /// After kind is done: waits for the workers it made, then makes those it should have made and those whose nodes the lab
    /// names, and brings every pool to the lab's number.
    pub(super) fn fill(&mut self, work: &mut Work<'_>) -> Result<()> {
        let containers = self.session.containers()?;
        // Those that klab makes are looked at one by one, and recreated where a klab was killed making them.
        let of_kind = |node: &&Container| node.is_worker() && self.record.roster.node(&node.name) == node.name;
        let there: Vec<String> = containers.iter().filter(of_kind).map(|node| node.name.clone()).collect();
        let live = self.session.live()?;
        self.keep_control_plane_apart(&live)?;
        self.wait_ready(&there, &live, work)?;
        let lab = self.lab;
        for pool in lab.pools.iter().filter(|pool| !pool.deferred) {
            self.scale(&pool.name.value, pool.nodes.value, &live, work)?;
        }
        let gone = |name: &String| lab.pool(name).is_none_or(|pool| pool.deferred);
        let gone: Vec<String> = self.record.declared.keys().filter(|name| gone(name)).cloned().collect();
        gone.iter().try_for_each(|pool| self.remove_pool(pool, &live, work))
    }

    /// Gives the control plane back what kind takes from one that it makes without workers: where it has some after all, the
    /// cluster is to be like any other of kind.
    fn keep_control_plane_apart(&self, live: &Live) -> Result<()> {
        let is_alone = self.lab.kind.control_planes <= 1 && self.record.roster.made_by_kind().next().is_none();
        let has_workers = self.lab.pools.iter().any(|pool| !pool.deferred && pool.nodes.value > 0);
        if !is_alone || !has_workers {
            return Ok(());
        }
        let name = self.session.names.control_plane();
        let nodes = live.nodes()?;
        let node = nodes.iter().find(|node| node.name_any() == name);
        match node.and_then(check::control_plane_patch) {
            Some(patch) => live.patch(&name, &patch),
            None => Ok(()),
        }
    }

    /// Removes a pool with all its workers.
    pub(super) fn remove_pool(&mut self, pool: &str, live: &Live, work: &mut Work<'_>) -> Result<()> {
        let workers: Vec<String> = self.record.roster.pool(pool).map(|(name, _)| name.clone()).collect();
        let containers = self.session.containers()?;
        self.remove(&workers, &containers, live, work)?;
        self.record.declared.remove(pool);
        self.save()?;
        let folder = self.session.names.machine(pool);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(state_error(error, "remove", &folder)),
            _ => Ok(()),
        }
    }

    fn remove(&mut self, workers: &[String], containers: &[Container], live: &Live, work: &mut Work<'_>) -> Result<()> {
        for worker in workers {
            let node = self.record.roster.node(worker).to_owned();
            work.intend("remove-node", &node)?;
            let activity = work.events.about(About::Node, &node).start(Verb::RemoveNode, format!("node {node}"));
            let container = containers.iter().find(|container| container.name == *worker);
            if container.is_some_and(|container| container.running) {
                activity.progress("moving its pods elsewhere");
                let stayed = live.drain(&node)?;
                if !stayed.is_empty() {
                    let pods = plural(stayed.len(), "pod");
                    let words = format!("{pods} did not leave node {node} in time: {}", stayed.join(", "));
                    work.events.about(About::Node, &node).warn(Code::PodsStayed, words);
                }
            }
            live.delete_node(&node)?;
            if let Some(container) = container {
                self.session.runtime.remove(std::slice::from_ref(worker))?;
                let left = self.session.runtime.volumes_of(&container.volumes)?;
                self.session.runtime.remove_volumes(&left)?;
            }
            live.forget_pods(&node)?;
            self.record.roster.remove(worker);
            self.record.loaded.remove(worker);
            self.record.addresses.remove(worker);
            self.save()?;
            activity.finish(format!("node {node}"));
        }
        Ok(())
    }

    /// Strikes off workers whose container or node is gone: of a change that was interrupted, or taken away by hand. Reading
    /// alone does not count them, so that the plan makes those again that are wanted.
    pub(super) fn strike_off_lost(&mut self, work: &mut Work<'_>) -> Result<()> {
        let containers = self.session.containers_seen()?;
        let live = self.session.live()?;
        let nodes = live.nodes()?;
        let is_whole = |worker: &str| {
            containers.iter().any(|container| container.name == worker)
                && nodes.iter().any(|node| node.name_any() == self.record.roster.node(worker))
        };
        let lost: Vec<String> =
            self.record.roster.iter().map(|(name, _)| name.clone()).filter(|name| !is_whole(name)).collect();
        self.remove(&lost, &containers, &live, work)
    }

    /// Starts workers as kind does, brings the lab's images into them, and lets them join, all at once.
    fn add(
        &mut self,
        pool: &str,
        count: usize,
        containers: &[Container],
        live: &Live,
        work: &mut Work<'_>,
    ) -> Result<()> {
        if count == 0 {
            return self.save();
        }
        let taken = |name: &str| containers.iter().any(|container| container.name == name);
        let definition = self.lab.pool(pool).map_or(&[][..], |pool| &pool.names);
        let names: Vec<String> =
            (0..count).map(|_| self.record.roster.add(&self.session.names, pool, definition, taken)).collect();
        let nodes: Vec<String> = names.iter().map(|name| self.record.roster.node(name).to_owned()).collect();
        let definition = self
            .lab
            .pool(pool)
            .ok_or_else(|| Error::message(Code::KlabFault, format!("the lab has no pool `{pool}`")))?;
        self.session.write_machine(self.lab, definition, &self.record)?;
        self.save()?;
        self.added.extend(names.iter().cloned());
        work.intend("add-nodes", &nodes.join(" "))?;
        let what = format!("{} to pool {pool} ({})", plural(count, "node"), nodes.join(", "));
        let activity = work.events.about(About::Pool, pool).counting(count).start(Verb::AddNodes, what.clone());
        let at_once = (names.len(), self.record.host.cpus);
        let manner = JoinManner::prepare(self.session, (self.lab, definition), self.kind, at_once, containers)?;
        activity.progress("nodes boot");
        let (session, lab) = (self.session, self.lab);
        let joining = Joining { session, lab, record: &self.record, pool: definition, manner: &manner };
        let addresses = joining.with_all(&names, Joining::boot)?;
        // A node that has joined takes pods at once: their images must be there by then.
        load::load(self.session, self.lab, &mut self.record, work)?;
        activity.progress("nodes join");
        let joining = Joining { session, lab, record: &self.record, pool: definition, manner: &manner };
        joining.with_all(&names, |joining, name| joining.join(name, &addresses))?;
        live.wait(ready_deadline(), |words| activity.progress(words), |there| missing(there, &nodes, &Starts::new()))
            .map_err(|error| self.with_causes(error, &nodes))?;
        activity.finish(what);
        Ok(())
    }

    /// Waits until every worker of these pools, and every one that was added, is Ready, then compares each with what it is to be; what can be mended is
    /// mended, and looked at again. Says how many nodes were mended.
    ///
    /// # Errors
    /// With the differences that stay, and what the kubelets' journals say about them.
    pub(super) fn settle(&mut self, pools: &BTreeSet<String>, live: &Live, work: &mut Work<'_>) -> Result<usize> {
        let wanted = self.desired(pools)?;
        let names: Vec<String> = wanted.iter().map(|(name, _)| name.clone()).collect();
        let mut everyone = names.clone();
        everyone.extend(self.session.names.control_planes(self.lab.kind.control_planes));
        let nodes = self.wait_ready(&everyone, live, work)?;
        let mut mended = 0;
        let mut resized = Vec::new();
        for (name, desired) in &wanted {
            let Some(node) = nodes.iter().find(|node| node.name_any() == *name) else { continue };
            let found = check::differences(node, desired);
            if found.is_empty() {
                continue;
            }
            mended += 1;
            work.intend("change-node", name)?;
            if found.iter().any(|one| matches!(one, Difference::Metadata(_) | Difference::Taint(_))) {
                live.patch(name, &check::patch(node, desired))?;
            }
            if found.iter().any(|one| !one.is_mended_by_api()) {
                resized.push((name, desired));
            }
        }
        self.resize(&resized)?;
        for (name, desired) in &wanted {
            let Some(node) = nodes.iter().find(|node| node.name_any() == *name) else { continue };
            let found = check::differences(node, desired);
            if found.iter().any(|one| matches!(one, Difference::Extended(_)))
                && let Some(patch) = check::status_patch(node, desired)
            {
                live.patch_status(name, &patch)?;
            }
        }
        if mended > 0 {
            let activity = work.events.counting(wanted.len()).start(Verb::CheckNodes, plural(wanted.len(), "node"));
            live.wait(SEEN.min(ready_deadline()), |words| activity.progress(words), |nodes| differing(nodes, &wanted))
                .map_err(|error| self.with_causes(error, &names))?;
            activity.finish(format!(
                "{}: labels, taints, capacity and allocatable are as declared",
                plural(wanted.len(), "node")
            ));
        }
        Ok(mended)
    }

    /// Starts the kubelets that do not run, of nodes that are not Ready although their containers run.
    fn start_kubelets(&self, names: &[String], live: &Live, work: &mut Work<'_>) -> Result<()> {
        let nodes = live.nodes().unwrap_or_default();
        let not_ready =
            |name: &&String| nodes.iter().any(|node| node.name_any() == **name && !klab_lab::verify::is_ready(node));
        for name in names.iter().filter(not_ready) {
            let container = self.record.roster.container(name).unwrap_or(name);
            if self.session.dead_kubelet(container).is_some() {
                work.intend("start-kubelet", name)?;
                self.session.runtime.exec(container, &["systemctl", "start", "kubelet"])?;
                work.events.about(About::Node, name).note(Verb::StartKubelet, format!("the kubelet of node {name}"));
            }
        }
        Ok(())
    }

    fn wait_ready(&self, names: &[String], live: &Live, work: &mut Work<'_>) -> Result<Vec<Node>> {
        // Nothing is shown where nothing has to be waited for.
        if let Ok(nodes) = live.nodes()
            && missing(&nodes, names, &self.starts).is_none()
        {
            return Ok(nodes);
        }
        let activity = work
            .events
            .counting(names.len())
            .start(Verb::WaitReady, format!("for {} to be Ready", plural(names.len(), "node")));
        self.start_kubelets(names, live, work)?;
        // A kubelet that cannot start never registers: there is no use in waiting as long as for a network.
        live.wait(
            REGISTERED.min(ready_deadline()),
            |words| activity.progress(words),
            |nodes| unregistered(nodes, names),
        )
        .map_err(|error| self.with_causes(error, names))?;
        let nodes = live
            .wait(ready_deadline(), |words| activity.progress(words), |nodes| missing(nodes, names, &self.starts))
            .map_err(|error| self.with_causes(error, names))?;
        activity.finish(format!("{}, every one of them", plural(names.len(), "node")));
        Ok(nodes)
    }

    /// What the workers of these pools are to be.
    fn desired(&self, pools: &BTreeSet<String>) -> Result<Vec<(String, Desired)>> {
        let mut wanted = Vec::new();
        for (name, place) in self.record.roster.iter() {
            let is_meant = pools.contains(&place.pool) || self.added.contains(name);
            let Some(pool) = self.lab.pool(&place.pool).filter(|_| is_meant) else { continue };
            let desired = desired(self.lab, pool, place.index, &self.record.host)
                .map_err(|words| Error::message(Code::MachineTooSmall, words))?;
            wanted.push((self.record.roster.node(name).to_owned(), desired));
        }
        Ok(wanted)
    }

    /// Shows kubelets another size: the mounted files are rewritten in place, the flags changed, the kubelets started again.
    fn resize(&self, workers: &[(&String, &Desired)]) -> Result<()> {
        let mut pools = BTreeSet::new();
        for (node, desired) in workers {
            let name = self.record.roster.container(node).unwrap_or(node);
            if let Some(place) = self.record.roster.place(name)
                && pools.insert(&place.pool)
            {
                self.session.write_machine(self.lab, self.pool(&place.pool)?, &self.record)?;
            }
            let text = self.session.runtime.exec(name, &["cat", FLAGS_FILE])?;
            let sizing = &desired.sizing;
            let flags = [("max-pods", sizing.max_pods.to_string()), ("system-reserved", sizing.system_reserved())];
            let text = kubelet::with_flags(&text, &flags).ok_or_else(|| {
                Error::message(Code::ToolFailed, format!("could not understand `{FLAGS_FILE}` of node `{node}`"))
            })?;
            self.session.copy_text(&text, name, FLAGS_FILE)?;
            self.session.runtime.exec(name, &["systemctl", "restart", "kubelet"])?;
        }
        Ok(())
    }

    /// Notes the nodes' addresses and that the cluster is whole; nothing to do where no node came or went.
    pub(super) fn complete(&mut self) -> Result<()> {
        let known = |name: &String| self.record.addresses.contains_key(name);
        if self.record.complete && self.record.roster.iter().all(|(name, _)| known(name)) {
            return Ok(());
        }
        let containers = self.session.containers()?;
        let addresses = containers.into_iter().filter(|container| !container.address.is_empty());
        let addresses = addresses.map(|container| (container.name, container.address)).collect();
        if self.record.complete && self.record.addresses == addresses {
            return Ok(());
        }
        self.record.addresses = addresses;
        self.record.complete = true;
        self.save()
    }

    /// Adds what the kubelets' journals say about nodes that do not work.
    fn with_causes(&self, mut error: Error, nodes: &[String]) -> Error {
        let named = |node: &&String| error.to_string().contains(node.as_str());
        let cause = |node: &String| self.session.cause(self.record.roster.container(node).unwrap_or(node), node);
        let causes: Vec<String> = nodes.iter().filter(named).filter_map(cause).take(3).collect();
        if !causes.is_empty() {
            error.source = anyhow::Error::msg(format!("{:#}\n{}", error.source, causes.join("\n")));
        }
        error.source = error.source.context("the nodes are not what the lab declares");
        error.hint(format!("the kubelets' journals are in `{}`", self.session.names.folder().display()))
    }
}

/// What is still not as declared, in words; none when everything is.
fn differing(nodes: &[Node], wanted: &[(String, Desired)]) -> Option<String> {
    for (name, desired) in wanted {
        let Some(node) = nodes.iter().find(|node| node.name_any() == *name) else {
            return Some(format!("{name} is not there"));
        };
        if !klab_lab::verify::is_ready(node) {
            return Some(format!("{name} is not Ready"));
        }
        let found = check::differences(node, desired);
        if !found.is_empty() {
            let words: Vec<String> = found.iter().map(ToString::to_string).collect();
            return Some(format!("{name} differs: {}", words.join(", ")));
        }
    }
    None
}

/// Whether a worker was made from an image that its pool is to have.
fn has_image(pool: &Pool, worker: &Container, containers: &[Container]) -> bool {
    match &pool.kubernetes {
        Some(wanted) => {
            NodeImage::named(&worker.image).kubernetes.is_none_or(|version| images::is_of(version, wanted.value))
        }
        None => containers.iter().find(|node| node.is_control_plane()).is_none_or(|node| node.image == worker.image),
    }
}
