//! The workers of a live cluster: added, removed, brought to what the lab says, and checked.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::check::{self, Difference};
use super::config::{self, pool_image, worker_mounts};
use super::create::end_leftover_kinds;
use super::desired::{self, Desired, desired};
use super::docker::{Container, Manner, NewWorker};
use super::images::{self, NodeImage};
use super::kubelet::{self, FLAGS_FILE, Join, KUBEADM_FILE};
use super::live::{Live, Starts, missing, unregistered};
use super::record::ClusterRecord;
use super::session::{Session, remove_file};
use super::version::KindVersion;
use crate::environment;
use crate::error::{Error, Kind, Result};
use crate::event::{About, Verb, Warning};
use crate::provider::Work;
use crate::state::home::state_error;
use klab_cluster::deadline;
use klab_cluster::server::files::write_private;
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
/// How long a container may take to boot.
const BOOT: Duration = Duration::from_mins(1);

/// A cluster at work.
pub(super) struct ClusterAtWork<'a> {
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

impl ClusterAtWork<'_> {
    fn pool(&self, name: &str) -> Result<&Pool> {
        self.lab.pool(name).ok_or_else(|| Error::message(Kind::Failed, format!("the lab has no pool `{name}`")))
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
                    work.events.about(About::Node, &node).warn(Warning::PodsStayed, words);
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

    /// Starts workers as kind does and lets them join, all at once.
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
        let definition = self.pool(pool)?;
        self.session.write_machine(self.lab, definition, &self.record)?;
        self.save()?;
        self.added.extend(names.iter().cloned());
        work.intend("add-nodes", &nodes.join(" "))?;
        let what = format!("{} to pool {pool} ({})", plural(count, "node"), nodes.join(", "));
        let activity = work.events.about(About::Pool, pool).counting(count).start(Verb::AddNodes, what.clone());
        let joining = Joining::prepare(self, pool, names.len(), containers)?;
        activity.progress("nodes boot and join");
        let failures: Vec<Error> = std::thread::scope(|scope| {
            let threads: Vec<_> = names.iter().map(|name| scope.spawn(|| joining.join(name))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()?.err()).collect()
        });
        if let Some(error) = failures.into_iter().next() {
            return Err(error);
        }
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

    fn wait_ready(&self, names: &[String], live: &Live, work: &Work<'_>) -> Result<Vec<Node>> {
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
                .map_err(|words| Error::message(Kind::Outside, words))?;
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
                Error::message(Kind::Failed, format!("could not understand `{FLAGS_FILE}` of node `{node}`"))
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

impl Session {
    /// Writes a text into a node. It passes through a file that only this user can read.
    fn copy_text(&self, text: &str, node: &str, path: &str) -> Result<()> {
        let file = self.names.folder().join(format!("{node}.copy"));
        write_private(&file, text.as_bytes()).map_err(|error| state_error(error, "write", &file))?;
        let copied = self.runtime.copy_in(&file, node, path);
        remove_file(&file)?;
        copied
    }
}

/// What new workers of a pool have in common.
struct Joining<'a> {
    session: &'a Session,
    lab: &'a Lab,
    record: &'a ClusterRecord,
    pool: &'a Pool,
    image: String,
    patience: Option<usize>,
    network: String,
    manner: Manner,
    configuration: String,
    token: String,
}

impl<'a> Joining<'a> {
    fn prepare(cluster: &'a ClusterAtWork<'_>, pool: &str, joining: usize, containers: &[Container]) -> Result<Self> {
        let session = cluster.session;
        end_leftover_kinds(session);
        let pool = cluster.pool(pool)?;
        let control_plane =
            containers.iter().find(|container| container.is_control_plane() && container.running).ok_or_else(|| {
                Error::message(
                    Kind::Outside,
                    format!("cluster {} has no control plane that runs", session.names.cluster),
                )
            })?;
        let image = worker_image(cluster.lab, pool, control_plane, cluster.kind);
        if session.runtime.image_id(&image.reference)?.is_none() {
            session.runtime.pull(&image.reference)?;
        }
        let configuration = session.runtime.exec(&control_plane.name, &["cat", KUBEADM_FILE])?;
        // kind's own token lasts a day, and a lab may be older.
        let token = session.runtime.exec(&control_plane.name, &["kubeadm", "token", "create", "--ttl", "30m"])?;
        let token = token.lines().rev().map(str::trim).find(|line| is_token(line)).ok_or_else(|| {
            Error::message(Kind::Failed, "could not understand the token that `kubeadm token create` gave")
        })?;
        Ok(Self {
            session,
            lab: cluster.lab,
            record: &cluster.record,
            pool,
            patience: cluster
                .kind
                .has_join_timeouts(image.kubernetes.map_or(0, |version| version.minor))
                .then(|| config::join_patience(joining, cluster.record.host.cpus)),
            image: image.reference,
            network: control_plane.network.clone(),
            manner: control_plane.manner.clone(),
            configuration,
            token: token.to_owned(),
        })
    }

    fn join(&self, name: &str) -> Result<()> {
        let node = self.record.roster.node(name);
        self.try_join(name).map_err(|mut error| {
            if let Some(cause) = self.session.cause(name, node) {
                error.source = error.source.context(cause);
            }
            error.source =
                error.source.context(format!("could not add node `{node}` to pool `{}`", self.pool.name.value));
            match self.session.runtime.remove(&[name.to_owned()]) {
                Ok(()) => error,
                Err(_) => error.left_behind(format!("container {name}")),
            }
        })
    }

    fn try_join(&self, name: &str) -> Result<()> {
        let session = self.session;
        let place = self.record.roster.place(name).map_or(0, |place| place.index);
        let desired = desired(self.lab, self.pool, place, &self.record.host)
            .map_err(|words| Error::message(Kind::Outside, words))?;
        let mounts = worker_mounts(self.lab, &self.pool.name.value, &session.names, &self.record.host);
        session.runtime.run_worker(&NewWorker {
            cluster: &session.names.cluster,
            name,
            node: self.record.roster.node(name),
            image: &self.image,
            network: &self.network,
            mounts: &mounts,
            manner: &self.manner,
        })?;
        let address = self.booted(name)?;
        let labels = desired.labels.into_iter().filter(|(key, _)| desired::kubelet_may_set(key)).collect();
        let taints = desired.taints.iter().map(|taint| {
            serde_json::json!({ "key": taint.key, "value": taint.value.as_deref().unwrap_or(""), "effect": taint.effect })
        });
        let configuration = kubelet::join_configuration(
            &self.configuration,
            &Join {
                token: &self.token,
                container: name,
                cluster: &session.names.cluster,
                address: &address,
                runtime: session.runtime.program(),
                labels,
                taints: taints.collect(),
                flags: vec![
                    ("max-pods", desired.sizing.max_pods.to_string()),
                    ("system-reserved", desired.sizing.system_reserved()),
                ],
                patience: self.patience,
            },
        );
        let configuration = configuration.ok_or_else(|| {
            Error::message(Kind::Failed, format!("could not understand `{KUBEADM_FILE}` of the control plane"))
        })?;
        self.wait_for_socket(name)?;
        session.copy_text(&configuration, name, KUBEADM_FILE)?;
        session.runtime.exec(name, &["kubeadm", "join", "--config", KUBEADM_FILE]).map(|_| ())
    }

    /// Waits for the node's own container runtime: where a node's log says that it boots (cgroup v1), systemd may not be
    /// up yet, and kubeadm starts the kubelet through it.
    fn wait_for_socket(&self, name: &str) -> Result<()> {
        let socket = kubelet::runtime_socket(&self.configuration);
        let until = deadline::within(BOOT);
        loop {
            match self.session.runtime.exec(name, &["test", "-S", &socket]) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > until => {
                    let message = format!("the container runtime of node `{name}` did not start (`{socket}`)");
                    return Err(Error::new(Kind::Outside, error.source.context(message)));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Waits until a container has booted so far that programs can be run in it; gives its address.
    fn booted(&self, name: &str) -> Result<String> {
        let until = deadline::within(BOOT);
        loop {
            let log = self.session.runtime.logs(name)?;
            if log.lines().any(has_booted) {
                let containers = self.session.containers()?;
                let address = containers.into_iter().find(|container| container.name == name);
                if let Some(address) = address.map(|container| container.address).filter(|address| !address.is_empty())
                {
                    return Ok(address);
                }
            }
            if Instant::now() > until {
                let message =
                    format!("the container of node `{name}` did not boot in {}", klab_lab::words::duration(BOOT));
                return Err(Error::message(Kind::Outside, message)
                    .hint("often too little inotify: `sudo sysctl fs.inotify.max_user_instances=1024`"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The image for a new worker: that of the control plane, unless its pool has a version of its own. What a newer kind would
/// take for a new cluster must not come into one that is there.
pub(super) fn worker_image(lab: &Lab, pool: &Pool, control_plane: &Container, kind: KindVersion) -> NodeImage {
    if pool.kubernetes.is_some() { pool_image(lab, pool, kind) } else { NodeImage::named(&control_plane.image) }
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

/// The lines kind waits for: systemd is up, or the image's start script has seen cgroup v1.
fn has_booted(line: &str) -> bool {
    line.contains("detected cgroup v1")
        || line.split_once("Reached target ").is_some_and(|(_, target)| target.contains("Multi-User System"))
}

/// Whether a line is a bootstrap token: six characters, a dot, sixteen.
fn is_token(line: &str) -> bool {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    line.split_once('.').is_some_and(|(id, secret)| id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_and_tokens_are_recognized() {
        assert!(has_booted("[  OK  ] Reached target multi-user.target - Multi-User System."));
        assert!(has_booted("INFO: detected cgroup v1"));
        assert!(!has_booted("[  OK  ] Reached target basic.target - Basic System."));
        assert!(is_token("abcdef.0123456789abcdef"));
        assert!(!is_token("W0821 10:00:00.000000 warning.of something"));
    }
}
