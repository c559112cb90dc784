//! Workers on their way into a cluster: started as kind does, given the lab's images, then joined.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::config::{self, pool_image, worker_mounts};
use super::create::end_leftover_kinds;
use super::desired::{self, desired};
use super::docker::{Container, Manner, NewWorker};
use super::images::NodeImage;
use super::kubelet::{self, Join, KUBEADM_FILE};
use super::record::ClusterRecord;
use super::session::Session;
use super::version::KindVersion;
use crate::error::{Code, Error, Result};
use klab_cluster::deadline;
use klab_lab::spec::{Lab, Pool};

/// How long a container may take to boot.
const BOOT: Duration = Duration::from_mins(1);

/// How new workers of a pool are started and join.
pub(super) struct JoinManner {
    image: String,
    patience: Option<usize>,
    network: String,
    manner: Manner,
    configuration: String,
    token: String,
}

impl JoinManner {
    /// Finds it out, for the workers of a pool that join at once and the CPUs of a machine.
    pub(super) fn prepare(
        session: &Session,
        (lab, pool): (&Lab, &Pool),
        kind: KindVersion,
        (joining, cpus): (usize, u32),
        containers: &[Container],
    ) -> Result<Self> {
        end_leftover_kinds(session);
        let control_plane =
            containers.iter().find(|container| container.is_control_plane() && container.running).ok_or_else(|| {
                Error::message(
                    Code::KindBoot,
                    format!("cluster {} has no control plane that runs", session.names.cluster),
                )
            })?;
        let image = worker_image(lab, pool, control_plane, kind);
        if session.runtime.image_id(&image.reference)?.is_none() {
            session.runtime.pull(&image.reference)?;
        }
        let configuration = session.runtime.exec(&control_plane.name, &["cat", KUBEADM_FILE])?;
        // kind's own token lasts a day, and a lab may be older.
        let token = session.runtime.exec(&control_plane.name, &["kubeadm", "token", "create", "--ttl", "30m"])?;
        let token = token.lines().rev().map(str::trim).find(|line| is_token(line)).ok_or_else(|| {
            Error::message(Code::ToolFailed, "could not understand the token that `kubeadm token create` gave")
        })?;
        Ok(Self {
            patience: kind
                .has_join_timeouts(image.kubernetes.map_or(0, |version| version.minor))
                .then(|| config::join_patience(joining, cpus)),
            image: image.reference,
            network: control_plane.network.clone(),
            manner: control_plane.manner.clone(),
            configuration,
            token: token.to_owned(),
        })
    }
}

/// New workers of a pool on their way into the cluster.
pub(super) struct Joining<'a> {
    pub(super) session: &'a Session,
    pub(super) lab: &'a Lab,
    pub(super) record: &'a ClusterRecord,
    pub(super) pool: &'a Pool,
    pub(super) manner: &'a JoinManner,
}

impl Joining<'_> {
    /// Does something with all workers at once; of one with which it fails, the container goes.
    pub(super) fn with_all<T: Send>(
        &self,
        names: &[String],
        act: impl Fn(&Self, &str) -> Result<T> + Sync,
    ) -> Result<BTreeMap<String, T>> {
        let act =
            |name: &String| act(self, name).map(|made| (name.clone(), made)).map_err(|error| self.failed(name, error));
        let outcomes: Vec<Result<(String, T)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = names.iter().map(|name| scope.spawn(|| act(name))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        outcomes.into_iter().collect()
    }

    fn failed(&self, name: &str, mut error: Error) -> Error {
        let node = self.record.roster.node(name);
        if let Some(cause) = self.session.cause(name, node) {
            error.source = error.source.context(cause);
        }
        error.source = error.source.context(format!("could not add node `{node}` to pool `{}`", self.pool.name.value));
        match self.session.runtime.remove(&[name.to_owned()]) {
            Ok(()) => error,
            Err(_) => error.left_behind(format!("container {name}")),
        }
    }

    /// Starts a worker's container and waits until its container runtime runs; gives its address.
    pub(super) fn boot(&self, name: &str) -> Result<String> {
        let Self { session, lab, record, .. } = self;
        let mounts = worker_mounts(lab, &self.pool.name.value, &session.names, &record.host);
        session.runtime.run_worker(&NewWorker {
            cluster: &session.names.cluster,
            name,
            node: record.roster.node(name),
            image: &self.manner.image,
            network: &self.manner.network,
            mounts: &mounts,
            manner: &self.manner.manner,
        })?;
        let address = self.booted(name)?;
        self.wait_for_socket(name)?;
        Ok(address)
    }

    /// Lets a worker join that [`Joining::boot`] has started, at the address that it gave.
    pub(super) fn join(&self, name: &str, addresses: &BTreeMap<String, String>) -> Result<()> {
        let Self { session, lab, record, .. } = self;
        let place = record.roster.place(name).map_or(0, |place| place.index);
        let desired = desired(lab, self.pool, place, &record.host)
            .map_err(|words| Error::message(Code::MachineTooSmall, words))?;
        let labels = desired.labels.into_iter().filter(|(key, _)| desired::kubelet_may_set(key)).collect();
        let taints = desired.taints.iter().map(|taint| {
            serde_json::json!({ "key": taint.key, "value": taint.value.as_deref().unwrap_or(""), "effect": taint.effect })
        });
        let configuration = kubelet::join_configuration(
            &self.manner.configuration,
            &Join {
                token: &self.manner.token,
                container: name,
                cluster: &session.names.cluster,
                address: addresses.get(name).map_or("", String::as_str),
                runtime: session.runtime.program(),
                labels,
                taints: taints.collect(),
                flags: vec![
                    ("max-pods", desired.sizing.max_pods.to_string()),
                    ("system-reserved", desired.sizing.system_reserved()),
                ],
                patience: self.manner.patience,
            },
        );
        let configuration = configuration.ok_or_else(|| {
            Error::message(Code::ToolFailed, format!("could not understand `{KUBEADM_FILE}` of the control plane"))
        })?;
        session.copy_text(&configuration, name, KUBEADM_FILE)?;
        session.runtime.exec(name, &["kubeadm", "join", "--config", KUBEADM_FILE]).map(|_| ())
    }

    /// Waits for the node's own container runtime: where a node's log says that it boots (cgroup v1), systemd may not be
    /// up yet, and kubeadm starts the kubelet through it.
    fn wait_for_socket(&self, name: &str) -> Result<()> {
        let socket = kubelet::runtime_socket(&self.manner.configuration);
        let until = deadline::within(BOOT);
        loop {
            match self.session.runtime.exec(name, &["test", "-S", &socket]) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > until => {
                    let message = format!("the container runtime of node `{name}` did not start (`{socket}`)");
                    return Err(Error::new(Code::KindBoot, error.source.context(message)));
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
                return Err(Error::message(Code::KindBoot, message)
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
