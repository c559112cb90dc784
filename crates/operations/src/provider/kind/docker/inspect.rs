//! What container runtimes say about themselves and their containers, read into what klab needs of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::described::{Container, Info, Manner, ROLE_LABEL};

pub(super) fn docker_info(text: &str) -> Option<Info> {
    let info: Value = serde_json::from_str(text).ok()?;
    let options = info["SecurityOptions"].as_array().cloned().unwrap_or_default();
    Some(Info {
        cpus: u32::try_from(info["NCPU"].as_u64()?).ok()?.max(1),
        memory: info["MemTotal"].as_u64()?,
        cgroup_v2: info["CgroupVersion"].as_str() != Some("1"),
        rootless: options.iter().any(|option| option.as_str().is_some_and(|text| text.contains("rootless"))),
        root: PathBuf::from(info["DockerRootDir"].as_str().unwrap_or("/var/lib/docker")),
        system: info["OperatingSystem"].as_str().unwrap_or_default().to_owned(),
    })
}

pub(super) fn podman_info(text: &str) -> Option<Info> {
    let info: Value = serde_json::from_str(text).ok()?;
    let host = &info["host"];
    Some(Info {
        cpus: u32::try_from(host["cpus"].as_u64()?).ok()?.max(1),
        memory: host["memTotal"].as_u64()?,
        cgroup_v2: host["cgroupVersion"].as_str() != Some("v1"),
        rootless: host["security"]["rootless"].as_bool().unwrap_or(false),
        root: PathBuf::from(info["store"]["graphRoot"].as_str().unwrap_or("/var/lib/containers/storage")),
        system: host["distribution"]["distribution"].as_str().unwrap_or_default().to_owned(),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    name: String,
    state: InspectedState,
    config: InspectedConfig,
    #[serde(default)]
    mounts: Vec<InspectedMount>,
    #[serde(default)]
    network_settings: InspectedNetworks,
    #[serde(default)]
    host_config: InspectedHost,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct InspectedHost {
    #[serde(default)]
    userns_mode: String,
    #[serde(default)]
    devices: Option<Vec<InspectedDevice>>,
    #[serde(default)]
    binds: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedDevice {
    #[serde(default)]
    path_on_host: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedState {
    #[serde(default)]
    running: bool,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    status: String,
    #[serde(default)]
    started_at: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedConfig {
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    env: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedMount {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    source: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct InspectedNetworks {
    #[serde(default)]
    networks: Option<BTreeMap<String, InspectedNetwork>>,
}

#[derive(Deserialize)]
struct InspectedNetwork {
    #[serde(rename = "IPAddress", default)]
    address: String,
}

/// What kind mounts where layers of images need it, and what it passes on for rootless runtimes.
pub(super) const DEVICE_MAPPER: &str = "/dev/mapper:/dev/mapper";
const FUSE: &str = "/dev/fuse";

/// Variables that kind sets for nodes, which a worker that is added later needs too.
const NODE_VARIABLES: [&str; 8] = [
    "HTTP_PROXY=",
    "HTTPS_PROXY=",
    "NO_PROXY=",
    "http_proxy=",
    "https_proxy=",
    "no_proxy=",
    "KIND_DNS_SEARCH=",
    "KIND_EXPERIMENTAL_CONTAINERD_SNAPSHOTTER=",
];

pub(super) fn parse_containers(text: &str) -> Option<Vec<Container>> {
    let inspected: Vec<Inspected> = serde_json::from_str(text).ok()?;
    let mut containers: Vec<Container> = inspected.into_iter().map(container).collect();
    containers.sort_by_key(|container| (container.name.len(), container.name.clone()));
    Some(containers)
}

fn container(inspected: Inspected) -> Container {
    let labels = inspected.config.labels.unwrap_or_default();
    let (volumes, binds): (Vec<_>, Vec<_>) = inspected.mounts.into_iter().partition(|mount| mount.r#type == "volume");
    let (network, address) = inspected
        .network_settings
        .networks
        .unwrap_or_default()
        .into_iter()
        .next()
        .map_or_else(|| ("kind".to_owned(), String::new()), |(name, network)| (name, network.address));
    let wanted = |variable: &String| NODE_VARIABLES.iter().any(|name| variable.starts_with(name));
    let host = inspected.host_config;
    let devices = host.devices.unwrap_or_default().into_iter().map(|device| device.path_on_host);
    let manner = Manner {
        variables: inspected.config.env.unwrap_or_default().into_iter().filter(wanted).collect(),
        host_users: host.userns_mode == "host",
        devices: devices.filter(|device| device == FUSE).collect(),
        device_mapper: host.binds.unwrap_or_default().iter().any(|bind| bind.starts_with(DEVICE_MAPPER)),
    };
    let name = inspected.name.trim_start_matches('/').to_owned();
    let hostname = inspected.config.hostname;
    Container {
        hostname: if hostname.is_empty() { name.clone() } else { hostname },
        name,
        role: labels.get(ROLE_LABEL).cloned().unwrap_or_default(),
        running: inspected.state.running && !inspected.state.paused,
        frozen: inspected.state.paused,
        going: inspected.state.status == "removing",
        // A container that never ran has the year 1.
        started: inspected.state.started_at.parse().ok().filter(|time: &Timestamp| *time > Timestamp::UNIX_EPOCH),
        image: inspected.config.image,
        mounted: binds.into_iter().map(|mount| PathBuf::from(mount.source)).collect(),
        volumes: volumes.into_iter().map(|mount| mount.name).collect(),
        network,
        address,
        manner,
    }
}
