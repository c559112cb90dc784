//! kind: clusters made of containers, and removed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::docker::{conflict, docker};
use super::kubelet::join;
use super::state::{Container, Ended, State, failed};
use super::{Caller, KIND_TOKEN, value};

pub(super) fn kind(state: &State, caller: &Caller, arguments: &[&str]) -> Ended {
    if let ["version"] = arguments {
        return Ok(format!(
            "kind v{} go1.26.1 linux/amd64\n",
            state.take_fault("kind-version").unwrap_or("0.33.0".into())
        ));
    }
    let name = value(arguments, "--name").unwrap_or("kind");
    if docker(state, &["info"]).is_err() {
        return error(
            "failed to get docker info: command \"docker info --format '{{json .}}'\" failed with error: exit status 1\n\
             Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        );
    }
    match arguments {
        ["create", "cluster", ..] => create(state, caller, name, arguments),
        ["delete", "cluster", ..] => {
            drop(state.creation_ends());
            let nodes: Vec<String> = of_cluster(state, name).into_iter().map(|container| container.name).collect();
            let mut call = vec!["rm", "-f", "-v"];
            call.extend(nodes.iter().map(String::as_str));
            docker(state, &call)?;
            // kind takes its entries out of the kubeconfig and leaves the file.
            if let Some(path) = value(arguments, "--kubeconfig").filter(|path| Path::new(path).exists()) {
                fs::write(path, "apiVersion: v1\nkind: Config\n").unwrap();
            }
            Ok(String::new())
        }
        ["get", "kubeconfig", ..] => match of_cluster(state, name).iter().find(|node| node.role == "control-plane") {
            Some(_) => Ok(state.start_api(name).kubeconfig),
            None => error(&format!("could not locate any control plane nodes for cluster named '{name}'.")),
        },
        ["load", "image-archive", file, ..] => {
            let image = fs::read_to_string(file).unwrap();
            for node in value(arguments, "--nodes").unwrap().split(',') {
                let Some(mut container) = state.container(node) else {
                    return error(&format!("unknown node: \"{node}\""));
                };
                *container.loaded.entry(image.trim().to_owned()).or_default() += 1;
                state.save(&container);
            }
            Ok(String::new())
        }
        other => panic!("kind {other:?} is not played"),
    }
}

fn error(words: &str) -> Ended {
    failed(format!("ERROR: {words}\n"))
}

fn of_cluster(state: &State, cluster: &str) -> Vec<Container> {
    state.containers().into_iter().filter(|container| container.cluster == cluster).collect()
}

/// kind's configuration, as strictly as kind decodes it, as far as klab uses it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    kind: String,
    api_version: String,
    name: String,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    networking: BTreeMap<String, Value>,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    feature_gates: BTreeMap<String, bool>,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    runtime_config: BTreeMap<String, String>,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    kubeadm_config_patches: Vec<String>,
    nodes: Vec<ConfigNode>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigNode {
    role: String,
    image: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    #[expect(dead_code, reason = "decoded as kind does")]
    extra_port_mappings: Vec<Value>,
    #[serde(default)]
    extra_mounts: Vec<ConfigMount>,
    #[serde(default)]
    kubeadm_config_patches: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigMount {
    host_path: String,
    container_path: String,
    #[expect(dead_code, reason = "decoded as kind does")]
    read_only: bool,
}

#[expect(clippy::too_many_lines, reason = "a row for each request")]
fn create(state: &State, caller: &Caller, cluster: &str, arguments: &[&str]) -> Ended {
    let _creating = state.creation_ends();
    let kubeconfig = PathBuf::from(value(arguments, "--kubeconfig").expect("klab never uses the user's kubeconfig"));
    assert!(arguments.contains(&"--retain"), "klab reads journals before it removes what failed");
    let text = fs::read_to_string(value(arguments, "--config").unwrap()).unwrap();
    let config: Config = match serde_saphyr::from_str(&text) {
        Ok(config) => config,
        Err(problem) => return error(&format!("failed to create cluster: unable to decode config: yaml: {problem}")),
    };
    assert_eq!((config.kind.as_str(), config.api_version.as_str()), ("Cluster", "kind.x-k8s.io/v1alpha4"));
    assert_eq!(config.name, cluster);
    if !of_cluster(state, cluster).is_empty() {
        return error(&format!(
            "failed to create cluster: node(s) already exist for a cluster with the name \"{cluster}\""
        ));
    }
    let images = state.images();
    if let Some(node) = config.nodes.iter().find(|node| !images.contains_key(&node.image)) {
        return error(&format!("failed to create cluster: failed to pull image \"{}\": no such host", node.image));
    }
    if let Some(port) = state.take_fault("port-in-use") {
        return error(&format!(
            "failed to create cluster: command \"docker run --name {cluster}-control-plane\" failed with error: exit status 125\n\
             Command Output: failed to bind host port 0.0.0.0:{port}: bind: address already in use"
        ));
    }
    let absent = state.take_fault("missing-worker");
    let mut numbers = BTreeMap::new();
    let mut nodes = Vec::new();
    for node in &config.nodes {
        let number = numbers.entry(node.role.clone()).or_insert(0);
        *number += 1;
        let number = if *number == 1 { String::new() } else { number.to_string() };
        let name = format!("{cluster}-{}{number}", node.role);
        if absent.as_deref() == Some(&name) {
            continue;
        }
        let mut container = state.new_container(cluster, &name, &node.role, &node.image);
        container.mounts =
            node.extra_mounts.iter().map(|mount| (mount.container_path.clone(), mount.host_path.clone())).collect();
        assert!(container.mounts.values().all(|path| Path::new(path).exists()), "{:?}", container.mounts);
        nodes.push((container, node));
    }
    fs::write(state.folder.join("network-kind"), "").unwrap();
    if state.take_fault("klab-killed").is_some() {
        // klab is killed after its kind has asked for containers: they appear a moment later all the same.
        for (container, _) in &nodes {
            state.write_json(&format!("late/{}.json", container.name), container);
        }
        caller.signal(Signal::KILL);
        return error("killed with the klab that called it");
    }
    state.late_ones_appear();
    for (container, _) in &nodes {
        if state.container(&container.name).is_some() {
            return error(&format!(
                "failed to create cluster: command \"docker run --name {}\" failed with error: exit status 125\n{}",
                container.name,
                conflict(&container.name)
            ));
        }
        state.save(container);
        if state.take_fault("kind-killed").is_some() {
            return Err((137, String::new()));
        }
    }
    if let Some(name) = state.take_fault("late-container") {
        return late(state, &name, cluster);
    }
    let kubeconfig_text = state.start_api(cluster).kubeconfig;
    let is_alone = nodes.len() == 1;
    for (mut container, node) in nodes {
        let patch = node.kubeadm_config_patches.iter().map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let patch = patch.into_iter().find(|patch| patch["kind"] == "JoinConfiguration").unwrap_or_default();
        let mut arguments = patch["nodeRegistration"]["kubeletExtraArgs"].as_object().cloned().unwrap_or_default();
        arguments.insert("node-ip".to_owned(), container.address.clone().into());
        container.labels = node.labels.clone();
        container.taints = patch["nodeRegistration"]["taints"].as_array().cloned().unwrap_or_default();
        // kind takes the taint, and the label against load balancers, from a control plane that is the only node.
        if node.role == "control-plane" && is_alone {
            container.labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
        } else if node.role == "control-plane" {
            container.labels.insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
            container.taints.push(json!({ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }));
        }
        container.files.insert("/kind/kubeadm.conf".to_owned(), kubeadm_configuration(cluster, &container));
        if let Some(name) = state.take_fault("join-failure") {
            container.journal = format!(
                "Nov 21 10:00:00 {name} kubelet[1]: E1121 10:00:00.000000 1 run.go:72] \"command failed\" \
                 err=\"failed to parse kubelet flag: unknown flag: --max-podz\"\n"
            );
            state.save(&container);
            let log: Vec<String> = (0..100).map(|line| format!("I1121 log line {line}")).collect();
            return error(&format!(
                "failed to create cluster: failed to join node with kubeadm: command \"docker exec --privileged {name} kubeadm \
                 join\" failed with error: exit status 1\nCommand Output: {}",
                log.join("\n")
            ));
        }
        let flags = arguments.iter().map(|(name, value)| format!("--{name}={}", value.as_str().unwrap()));
        join(state, &mut container, &flags.collect::<Vec<_>>())?;
        state.save(&container);
    }
    fs::write(&kubeconfig, kubeconfig_text).unwrap();
    Ok(String::new())
}

/// A failed create whose last `docker run` is still under way when kind has cleaned up.
fn late(state: &State, name: &str, cluster: &str) -> Ended {
    let container = state.new_container(cluster, name, "worker", "kindest/node:v1");
    state.write_json(&format!("late/{name}.json"), &container);
    // The first is that which finds what else is there.
    state.looks.store(3, Ordering::Relaxed);
    error("failed to create cluster: command \"docker run --name lb\" failed with error: exit status 125")
}

fn kubeadm_configuration(cluster: &str, container: &Container) -> String {
    format!(
        "# config generated by kind\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: \"{cluster}\"\n---\n\
         apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration:\n  criSocket: \"unix:///run/containerd/containerd.sock\"\n  \
         kubeletExtraArgs:\n  - name: node-ip\n    value: \"{}\"\ndiscovery:\n  bootstrapToken:\n    apiServerEndpoint: \
         \"{cluster}-control-plane:6443\"\n    token: \"{KIND_TOKEN}\"\n    unsafeSkipCAVerification: true\nskipPhases:\n  - \"preflight\"\n---\n\
         apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
        container.address
    )
}
