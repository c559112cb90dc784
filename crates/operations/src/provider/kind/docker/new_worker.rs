//! A worker to be started, and the command line that starts it as kind does.

use super::described::{CLUSTER_LABEL, Flavour, Manner, ROLE_LABEL};
use super::inspect::DEVICE_MAPPER;
use klab_lab::spec::Mount;

/// A worker that is to be started.
#[derive(Debug, Clone, Copy)]
pub struct NewWorker<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The node's name, which becomes its host name: kind's network agent takes the one for the other.
    pub node: &'a str,
    /// The node image.
    pub image: &'a str,
    /// The network of the cluster's other nodes.
    pub network: &'a str,
    /// What is mounted into it.
    pub mounts: &'a [Mount],
    /// What the cluster's other nodes have because of the machine.
    pub manner: &'a Manner,
}

impl NewWorker<'_> {
    /// The arguments of `run`, as kind's own providers give them. `volume` is what Podman has under `/var`.
    pub(super) fn arguments(&self, flavour: Flavour, volume: Option<&str>) -> Vec<String> {
        let mut arguments: Vec<String> = ["run", "--name", self.name, "--hostname", self.node]
            .into_iter()
            .map(str::to_owned)
            .chain(["--label".to_owned(), format!("{ROLE_LABEL}=worker"), "--privileged".to_owned()])
            .collect();
        let mut push = |items: &[&str]| arguments.extend(items.iter().map(|item| (*item).to_owned()));
        if flavour != Flavour::Podman {
            push(&["--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"]);
        }
        push(&["--tmpfs", "/tmp", "--tmpfs", "/run"]);
        match volume.filter(|_| flavour == Flavour::Podman) {
            Some(volume) => push(&["--volume", &format!("{volume}:/var:suid,exec,dev")]),
            None => push(&["--volume", "/var"]),
        }
        push(&["--volume", "/lib/modules:/lib/modules:ro"]);
        push(&["--detach", "--tty", "--net", self.network]);
        push(&["--label", &format!("{CLUSTER_LABEL}={}", self.cluster)]);
        match flavour {
            // Started again after the machine was, but not when it was stopped on purpose.
            Flavour::Docker => push(&["--restart=on-failure:1", "--init=false", "--cgroupns=private"]),
            Flavour::Podman => push(&["-e", "container=podman", "--cgroupns=private"]),
            Flavour::Nerdctl => push(&["--restart=on-failure:1", "--init=false"]),
        }
        if self.manner.host_users {
            push(&["--userns=host"]);
        }
        if self.manner.device_mapper {
            push(&["--volume", DEVICE_MAPPER]);
        }
        for device in &self.manner.devices {
            push(&["--device", device]);
        }
        for variable in &self.manner.variables {
            push(&["-e", variable]);
        }
        for mount in self.mounts {
            let mode = if mount.read_only { ":ro" } else { "" };
            push(&[&format!("--volume={}:{}{mode}", mount.host, mount.container)]);
        }
        push(&[self.image]);
        arguments
    }
}
