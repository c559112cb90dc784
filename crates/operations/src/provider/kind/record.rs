//! What klab writes down of a cluster on kind: what was asked for, who is of which pool, what is loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::machine::Host;
use super::names::Names;
use super::roster::Roster;
use crate::error::Result;
use crate::state::home::state_error;
use klab_lab::plan::{Declared, wanted_version};
use klab_lab::spec::Lab;
use klab_server::files::{create_private_folder, write_private};

/// The record of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ClusterRecord {
    /// The cluster as kind knows it.
    pub(super) cluster: String,
    /// The container runtime's program.
    pub(super) runtime: String,
    /// What only a new cluster can change.
    pub(super) settings: Settings,
    /// The machine as it was when the cluster was made: decides how sizes are shown.
    pub(super) host: Host,
    /// Which worker is of which pool.
    pub(super) roster: Roster,
    /// What was declared for each pool when it was last changed.
    pub(super) declared: BTreeMap<String, Declared>,
    /// Whether the cluster was made to its end and checked.
    pub(super) complete: bool,
    /// Images loaded into nodes: node, then image name and id.
    #[serde(default)]
    pub(super) loaded: BTreeMap<String, BTreeMap<String, String>>,
    /// Add-ons that klab put into the cluster.
    #[serde(default)]
    pub(super) addons: BTreeSet<String>,
    /// Addresses of the nodes, to start them in an order that gives each its own again.
    #[serde(default)]
    pub(super) addresses: BTreeMap<String, String>,
}

/// What cannot change on a live cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    control_planes: u32,
    kubernetes: Option<String>,
    image: Option<String>,
    ports: Vec<String>,
    mounts: Vec<String>,
    registry_mirrors: BTreeMap<String, String>,
    feature_gates: BTreeMap<String, bool>,
    #[serde(default)]
    runtime_config: BTreeMap<String, bool>,
    #[serde(default)]
    kubeadm_patches: Vec<String>,
    pod_subnet: Option<String>,
    service_subnet: Option<String>,
    api_server_address: Option<String>,
    api_server_port: Option<u16>,
    #[serde(default)]
    scheduler: Option<serde_json::Value>,
}

impl Settings {
    /// What a lab asks for.
    pub(super) fn of(lab: &Lab) -> Self {
        let kind = &lab.kind;
        Self {
            control_planes: kind.control_planes,
            // An image of the author's own decides the version.
            kubernetes: if kind.image.is_some() { None } else { wanted_version(lab, None) },
            image: kind.image.clone(),
            ports: kind
                .ports
                .iter()
                .map(|port| {
                    let address = port.address.as_ref().map_or(String::new(), |address| format!("{address}:"));
                    format!("{address}{}→{}/{}", port.host, port.container, port.protocol.to_lowercase())
                })
                .collect(),
            mounts: kind
                .mounts
                .iter()
                .map(|mount| {
                    let mode = if mount.read_only { " (read-only)" } else { "" };
                    format!("{}→{}{mode}", mount.host, mount.container)
                })
                .collect(),
            registry_mirrors: kind.registry_mirrors.clone(),
            feature_gates: kind.feature_gates.clone(),
            runtime_config: kind.runtime_config.clone(),
            kubeadm_patches: kind.kubeadm_patches.clone(),
            pod_subnet: kind.pod_subnet.clone(),
            service_subnet: kind.service_subnet.clone(),
            api_server_address: kind.api_server_address.clone(),
            api_server_port: kind.api_server_port,
            scheduler: lab.scheduler.as_ref().map(|scheduler| scheduler.value.configuration.clone()),
        }
    }

    /// What differs from what is wanted now, in words.
    pub(super) fn differences(&self, wanted: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, old: String, new: String| {
            if old != new {
                differences.push(format!("{what} {old} becomes {new}"));
            }
        };
        let or = |text: &Option<String>, default: &str| text.clone().unwrap_or_else(|| default.to_owned());
        let map = |entries: Vec<String>| if entries.is_empty() { "none".to_owned() } else { entries.join(", ") };
        compare("number of control planes", self.control_planes.to_string(), wanted.control_planes.to_string());
        compare("Kubernetes", or(&self.kubernetes, "of kind's choice"), or(&wanted.kubernetes, "of kind's choice"));
        compare("node image", or(&self.image, "of the version"), or(&wanted.image, "of the version"));
        let scheduler =
            |its: &Self| its.scheduler.as_ref().map_or_else(|| "of kind's choice".to_owned(), ToString::to_string);
        compare("scheduler", scheduler(self), scheduler(wanted));
        compare("ports", map(self.ports.clone()), map(wanted.ports.clone()));
        compare("mounts", map(self.mounts.clone()), map(wanted.mounts.clone()));
        let mirrors = |settings: &Self| {
            map(settings.registry_mirrors.iter().map(|(registry, mirror)| format!("{registry}→{mirror}")).collect())
        };
        compare("registry mirrors", mirrors(self), mirrors(wanted));
        let switches = |of: &BTreeMap<String, bool>| map(of.iter().map(|(name, on)| format!("{name}={on}")).collect());
        compare("feature gates", switches(&self.feature_gates), switches(&wanted.feature_gates));
        compare("runtime configuration", switches(&self.runtime_config), switches(&wanted.runtime_config));
        compare("patches of kubeadm", map(self.kubeadm_patches.clone()), map(wanted.kubeadm_patches.clone()));
        compare("pods' network", or(&self.pod_subnet, "kind's"), or(&wanted.pod_subnet, "kind's"));
        compare("services' network", or(&self.service_subnet, "kind's"), or(&wanted.service_subnet, "kind's"));
        let address = |settings: &Self| or(&settings.api_server_address, "127.0.0.1");
        compare("address of the API server", address(self), address(wanted));
        let port = |settings: &Self| settings.api_server_port.map_or("any".to_owned(), |port| port.to_string());
        compare("port of the API server", port(self), port(wanted));
        differences
    }
}

impl ClusterRecord {
    /// The record of a cluster that is about to be made.
    pub(super) fn new(names: &Names, lab: &Lab, runtime: &str, host: Host) -> Self {
        let pools = lab.pools.iter().filter(|pool| !pool.deferred);
        Self {
            cluster: names.cluster.clone(),
            runtime: runtime.to_owned(),
            settings: Settings::of(lab),
            host,
            roster: Roster::of_new_cluster(names, lab),
            declared: pools.map(|pool| (pool.name.value.clone(), Declared::of(pool))).collect(),
            complete: false,
            loaded: BTreeMap::new(),
            addons: BTreeSet::new(),
            addresses: BTreeMap::new(),
        }
    }

    /// Reads the record; none where there is none, or none that can be understood: the world is then asked alone.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        match std::fs::read(path) {
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(state_error(error, "read", path)),
        }
    }

    /// Writes the record.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let failed = |error| state_error(error, "write", path);
        if let Some(folder) = path.parent() {
            create_private_folder(folder).map_err(failed)?;
        }
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other).map_err(failed)?;
        write_private(path, &text).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            control_planes: 1,
            kubernetes: Some("1.36".to_owned()),
            image: None,
            ports: vec!["30000→30000/tcp".to_owned()],
            mounts: Vec::new(),
            registry_mirrors: BTreeMap::new(),
            feature_gates: BTreeMap::new(),
            runtime_config: BTreeMap::new(),
            kubeadm_patches: Vec::new(),
            pod_subnet: None,
            service_subnet: None,
            api_server_address: None,
            api_server_port: None,
            scheduler: None,
        }
    }

    #[test]
    fn only_what_differs_is_named() {
        assert_eq!(settings().differences(&settings()), Vec::<String>::new());
        let wanted = Settings {
            control_planes: 3,
            ports: Vec::new(),
            feature_gates: BTreeMap::from([("A".to_owned(), true)]),
            ..settings()
        };
        assert_eq!(
            settings().differences(&wanted),
            [
                "number of control planes 1 becomes 3",
                "ports 30000→30000/tcp becomes none",
                "feature gates none becomes A=true"
            ]
        );
    }

    #[test]
    fn record_that_cannot_be_understood_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kind/cluster.json");
        assert_eq!(ClusterRecord::read(&path).unwrap(), None);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "{ torn").unwrap();
        assert_eq!(ClusterRecord::read(&path).unwrap(), None);
    }
}
