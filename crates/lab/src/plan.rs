//! Pure: what must be done to the cluster so that it is the lab's: `(Lab, Observed) -> actions`.

mod action;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::action::{Action, scale_text};
use crate::names::SIZE_LABEL;
use crate::spec::{Lab, Pool, VmSize};
use klab_scheduler::autoscaler::{self, Profile};

/// A lab's cluster as the provider sees it in the world, never as a state file remembers it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Whether there is a cluster of this lab.
    pub exists: bool,
    /// Whether its machines are stopped, so that its API cannot be asked until they are started again.
    pub stopped: bool,
    /// Its pools, by name.
    pub pools: BTreeMap<String, ObservedPool>,
    /// Kubernetes version of its control plane, `1.34.2`, where the provider can change it; else none.
    pub kubernetes: Option<String>,
    /// Settings of the cluster autoscaler that are not its defaults, by name, where the provider has one; else none.
    pub autoscaler: BTreeMap<String, String>,
    /// Whether size, zones and number of pods change on the nodes there are, without making new ones.
    pub changes_in_place: bool,
}

/// A pool as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObservedPool {
    /// What klab last declared for it.
    pub declared: Declared,
    /// Its nodes.
    pub nodes: Vec<ObservedNode>,
    /// Kubernetes version of its nodes, `1.34.2`, where the provider can change it; else none.
    pub kubernetes: Option<String>,
    /// Node image of its nodes, in full, where they have one: the oldest.
    pub node_image: Option<String>,
    /// Kubernetes version and node image that it can be rolled back to, and since when, where the provider tells it.
    pub rollback: Option<(String, String, String)>,
    /// Whether the last change of it failed, so that it may not be what it says it is.
    pub failed: bool,
    /// Whether an upgrade of it is under way, which goes on by itself.
    pub upgrading: bool,
    /// Whether somebody else made it in the lab's cluster: it is neither replaced nor removed, unless it is named.
    pub foreign: bool,
}

impl ObservedPool {
    /// The nodes of each size, as they say it themselves.
    pub fn sizes(&self) -> BTreeMap<String, u32> {
        let mut sizes = BTreeMap::new();
        for size in self.nodes.iter().filter_map(|node| node.labels.get(SIZE_LABEL)) {
            let name = VmSize::find(size).map_or(size, |known| &known.name);
            *sizes.entry(name.clone()).or_default() += 1;
        }
        sizes
    }
}

impl Observed {
    /// Takes a pool for the lab's own, also one that others made; says whether there is one of that name.
    pub fn take(&mut self, pool: &str) -> bool {
        self.pools.get_mut(pool).map(|pool| pool.foreign = false).is_some()
    }
}

impl ObservedPool {
    /// Whether an upgrade of it was aborted in its final soak: it can go on, and back.
    pub fn is_aborted(&self) -> bool {
        self.failed && self.rollback.is_some()
    }
}

/// A node as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObservedNode {
    /// `metadata.name`.
    pub name: String,
    /// All its labels.
    pub labels: BTreeMap<String, String>,
    /// All its taints.
    pub taints: Vec<Taint>,
}

/// What a pool's nodes are made of; every field but mode, labels, taints and autoscaler can only change by making new nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    /// `system` or `user`.
    pub mode: String,
    /// VM size, or what stands in its place; empty where its nodes say it, each for itself.
    pub size: String,
    /// Whether its nodes are single virtual machines, of one size or several.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_machines: bool,
    /// Availability zones.
    pub zones: Vec<u8>,
    /// Greatest number of pods on a node.
    pub max_pods: u32,
    /// The author's labels.
    pub labels: BTreeMap<String, String>,
    /// The author's taints, `key=value:Effect`.
    pub taints: BTreeSet<String>,
    /// `linux` or `windows`.
    #[serde(default = "linux")]
    pub os: String,
    /// Whether it is spare capacity that can be taken away.
    #[serde(default)]
    pub spot: bool,
    /// Fewest and most nodes, where the cluster autoscaler decides.
    #[serde(default)]
    pub autoscale: Option<(u32, u32)>,
    /// Most machines that the cloud has for it, where klab stands for the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Devices of a node, where klab publishes them: class, number and attributes of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Value>,
}

fn linux() -> String {
    "linux".to_owned()
}

impl Declared {
    /// What the lab file declares for a pool.
    pub fn of(pool: &Pool) -> Self {
        Self {
            mode: pool.mode.as_str().to_owned(),
            size: if pool.is_virtual_machines() { String::new() } else { size_name(pool) },
            virtual_machines: pool.is_virtual_machines(),
            zones: pool.zones.clone(),
            max_pods: pool.max_pods,
            labels: pool.labels.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect(),
            taints: pool.taints.iter().map(|taint| taint_text(&taint.value)).collect(),
            os: pool.os.as_str().to_owned(),
            spot: pool.spot.is_some(),
            autoscale: pool.autoscale.as_ref().map(|bounds| (bounds.min, bounds.max)),
            capacity: pool.capacity.as_ref().map(|capacity| capacity.value),
            devices: pool.devices.iter().map(|devices| json!(devices.value)).collect(),
        }
    }
}

/// The VM size, or CPU and memory where the author gave those; of single virtual machines the sizes and how many of each.
pub fn size_name(pool: &Pool) -> String {
    if pool.is_virtual_machines() {
        let sizes = pool.sizes().into_iter().map(|(size, nodes)| format!("{nodes} × {size}"));
        return sizes.collect::<Vec<_>>().join(", ");
    }
    match &pool.size {
        Some(size) => size.value.clone(),
        None => format!("{}m CPU, {} MiB", pool.machine.cpu_millis, pool.machine.memory >> 20),
    }
}

/// `key=value:Effect`, or `key:Effect` without a value, as kubectl writes taints.
pub fn taint_text(taint: &Taint) -> String {
    klab_scheduler::taint::Taint::from(taint).to_string()
}

/// Whether a taint is the system's own: controllers put it on and take it off again.
pub fn is_system_taint(taint: &Taint) -> bool {
    taint.key.starts_with("node.kubernetes.io/")
        || taint.key.starts_with("node.cloudprovider.kubernetes.io/")
        || taint.key.starts_with("kubernetes.azure.com/")
        || taint.key.starts_with("node.cilium.io/")
        || autoscaler::TAINTS.contains(&&*taint.key)
        || taint.key.starts_with("node-role.kubernetes.io/")
}

/// What must be done so that the cluster is the lab's, in order: first what adds room, then what takes it away.
pub fn plan(lab: &Lab, observed: &Observed) -> Vec<Action> {
    let mut actions = Vec::new();
    if !lab.provider.profile().makes_nodes {
        // What is there is somebody else's, and stays as it is.
        return actions;
    }
    if !observed.exists {
        actions.push(Action::CreateCluster);
    }
    if let (Some(live), Some(wanted)) = (&observed.kubernetes, wanted_version(lab, None))
        && !is_version(live, &wanted)
    {
        actions.push(Action::UpgradeCluster { from: live.clone(), to: wanted });
    }
    let changes = autoscaler_changes(lab, observed);
    if !changes.is_empty() {
        actions.push(Action::SetAutoscaler { changes });
    }
    let wanted: Vec<&Pool> = lab.pools.iter().filter(|pool| !pool.deferred).collect();
    for pool in &wanted {
        match observed.pools.get(&*pool.name.value) {
            None => actions.push(Action::AddPool {
                pool: pool.name.value.clone(),
                nodes: pool.nodes.value,
                size: size_name(pool),
                zones: pool.zones.clone(),
            }),
            Some(live) => actions.extend(pool_actions(lab, pool, live, observed.changes_in_place)),
        }
    }
    for (name, live) in &observed.pools {
        if !live.foreign && !wanted.iter().any(|pool| pool.name.value == *name) {
            actions.push(Action::RemovePool { pool: name.clone(), nodes: count(live.nodes.len()) });
        }
    }
    actions
}

/// What is to change about the autoscaler's settings, in words: `scan-interval=30s`, `no expander=priority`.
fn autoscaler_changes(lab: &Lab, observed: &Observed) -> Vec<String> {
    if !lab.provider.profile().has_autoscaler {
        return Vec::new();
    }
    let wanted = lab.autoscaler_settings();
    let differs = |(name, value): &(&String, &String)| !is_same(name, observed.autoscaler.get(*name), value);
    let set = wanted.iter().filter(differs).map(|(name, value)| format!("{name}={value}"));
    let gone = observed.autoscaler.iter().filter(|(name, _)| !wanted.contains_key(*name));
    set.chain(gone.map(|(name, value)| format!("no {name}={value}"))).collect()
}

/// Whether a setting that is not there, or written otherwise, means the same.
fn is_same(name: &str, have: Option<&String>, wanted: &str) -> bool {
    let read = |value: &str| {
        let mut profile = Profile::default();
        profile.set(name, value).is_ok().then_some(profile)
    };
    match have {
        Some(have) => have == wanted || (read(have).is_some() && read(have) == read(wanted)),
        None => read(wanted) == Some(Profile::default()),
    }
}

/// The Kubernetes version the lab asks for: of a pool, else of the cluster.
pub fn wanted_version(lab: &Lab, pool: Option<&Pool>) -> Option<String> {
    let own = pool.and_then(|pool| pool.kubernetes.as_ref());
    let cluster = (lab.provider.profile().own_version)(lab).or(lab.kubernetes.as_ref());
    own.or(cluster).map(|version| version.value.to_string())
}

/// Whether a version is the wanted one; `1.34` is every `1.34.x`.
pub fn is_version(live: &str, wanted: &str) -> bool {
    live.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn pool_actions(lab: &Lab, pool: &Pool, live: &ObservedPool, changes_in_place: bool) -> Vec<Action> {
    let declared = Declared::of(pool);
    let name = pool.name.value.clone();
    let mut fixed = fixed_changes(&live.declared, &declared);
    let mut changes = if changes_in_place { std::mem::take(&mut fixed) } else { Vec::new() };
    if live.declared.mode != declared.mode {
        changes.push(format!("mode {} becomes {}", live.declared.mode, declared.mode));
    }
    if let (Some(live), Some(wanted)) = (&live.kubernetes, wanted_version(lab, Some(pool)))
        && !is_version(live, &wanted)
    {
        fixed.push(format!("Kubernetes {live} becomes {wanted}"));
    }
    if !fixed.is_empty() {
        return vec![Action::ReplacePool { pool: name, nodes: pool.nodes.value, changes: fixed }];
    }
    let mut actions = Vec::new();
    changes.extend(label_and_taint_changes(live, &declared));
    if lab.provider.profile().is_embedded {
        changes.extend(device_changes(&live.declared, &declared));
    }
    if !changes.is_empty() {
        actions.push(Action::UpdatePool { pool: name.clone(), changes });
    }
    let have = count(live.nodes.len());
    let within_autoscale = declared.autoscale.is_some_and(|(min, max)| (min..=max).contains(&have));
    let sizes = size_changes(pool, live);
    if (have != pool.nodes.value || !sizes.is_empty()) && !within_autoscale {
        actions.push(Action::ScalePool { pool: name.clone(), from: have, to: pool.nodes.value, sizes });
    }
    // A change that is asked for brings everything else along that failed; only where there is none, one is made up.
    if live.failed
        && (actions.is_empty() || (actions.len() == 1 && declared.autoscale.is_some() && have != pool.nodes.value))
    {
        actions.insert(0, Action::UpdatePool { pool: name, changes: vec![FAILED_CHANGE.to_owned()] });
    }
    actions
}

/// The sizes of a pool of single virtual machines whose numbers of nodes differ: the number now, and the one that the lab asks for.
fn size_changes(pool: &Pool, live: &ObservedPool) -> BTreeMap<String, (u32, u32)> {
    if !pool.is_virtual_machines() {
        return BTreeMap::new();
    }
    let (have, wanted) = (live.sizes(), pool.sizes());
    let of = |sizes: &BTreeMap<String, u32>, size: &String| sizes.get(size).copied().unwrap_or_default();
    let both = have.keys().chain(wanted.keys()).map(|size| (size.clone(), (of(&have, size), of(&wanted, size))));
    both.filter(|(_, (from, to))| from != to).collect()
}

/// The change of a pool whose last one failed.
const FAILED_CHANGE: &str = "its last change failed and is asked for again";

/// What of nodes differs that no node can change, in words.
pub fn fixed_changes(old: &Declared, new: &Declared) -> Vec<String> {
    let mut changes = Vec::new();
    let mut compare = |what: &str, old: String, new: String| {
        if old != new {
            changes.push(format!("{what} {old} becomes {new}"));
        }
    };
    if old.virtual_machines == new.virtual_machines {
        compare("size", old.size.clone(), new.size.clone());
    } else {
        let kind = |is_single| if is_single { "VirtualMachines" } else { "VirtualMachineScaleSets" }.to_owned();
        compare("type", kind(old.virtual_machines), kind(new.virtual_machines));
    }
    compare("zones", zones_text(&old.zones), zones_text(&new.zones));
    compare("max pods", old.max_pods.to_string(), new.max_pods.to_string());
    compare("system", old.os.clone(), new.os.clone());
    compare("priority", priority_text(old.spot), priority_text(new.spot));
    changes
}

fn priority_text(spot: bool) -> String {
    if spot { "spot" } else { "regular" }.to_owned()
}

fn zones_text(zones: &[u8]) -> String {
    if zones.is_empty() {
        return "none".to_owned();
    }
    zones.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
}

/// Differences between what the pool has and what the file declares that can be mended in place, in words.
fn label_and_taint_changes(live: &ObservedPool, wanted: &Declared) -> Vec<String> {
    let mut changes = BTreeSet::new();
    if live.declared.autoscale != wanted.autoscale {
        changes.insert(match wanted.autoscale {
            Some((min, max)) => format!("autoscale between {min} and {max} nodes"),
            None => "no autoscaler".to_owned(),
        });
    }
    if live.declared.capacity != wanted.capacity {
        changes.insert(match wanted.capacity {
            Some(machines) => format!("capacity of {machines} machines"),
            None => "no limit of its capacity".to_owned(),
        });
    }
    let taints = |node: &ObservedNode| {
        node.taints.iter().filter(|taint| !is_system_taint(taint)).map(taint_text).collect::<BTreeSet<String>>()
    };
    let mut there: Vec<_> = live.nodes.iter().map(|node| (&node.labels, taints(node))).collect();
    if there.is_empty() {
        // Nodes that come later carry what was declared.
        there.push((&live.declared.labels, live.declared.taints.clone()));
    }
    for (labels, taints) in &there {
        let differs = |(key, value): &(&String, &String)| labels.get(*key) != Some(*value);
        changes.extend(wanted.labels.iter().filter(differs).map(|(key, value)| format!("label {key}={value}")));
        let declared = live.declared.labels.keys();
        let gone = declared.filter(|key| !wanted.labels.contains_key(*key) && labels.contains_key(*key));
        changes.extend(gone.map(|key| format!("no label {key}")));
        changes.extend(wanted.taints.difference(taints).map(|taint| format!("taint {taint}")));
        changes.extend(taints.difference(&wanted.taints).map(|taint| format!("no taint {taint}")));
    }
    changes.into_iter().collect()
}

/// What changes about the devices of a pool's nodes, class by class, in words.
fn device_changes(live: &Declared, wanted: &Declared) -> Vec<String> {
    // How many there are, and which: a class may have several kinds.
    let by_class = |declared: &Declared| {
        let mut classes: BTreeMap<String, (u64, Vec<Value>)> = BTreeMap::new();
        for devices in &declared.devices {
            let class = classes.entry(devices["class"].as_str().unwrap_or_default().to_owned()).or_default();
            class.0 += devices["count"].as_u64().unwrap_or_default();
            class.1.push(devices.clone());
        }
        classes
    };
    let (old, new) = (by_class(live), by_class(wanted));
    let mut changes = Vec::new();
    for (class, (count, kinds)) in &new {
        let noun = if *count == 1 { "device" } else { "devices" };
        match old.get(class) {
            None => changes.push(format!("{count} {noun} of class {class} a node")),
            Some((before, _)) if before != count => {
                changes.push(format!("{count} {noun} of class {class} a node instead of {before}"));
            }
            Some((_, before)) if before != kinds => {
                changes.push(format!("other devices of class {class}"));
            }
            Some(_) => {}
        }
    }
    changes.extend(
        old.keys().filter(|class| !new.contains_key(*class)).map(|class| format!("no devices of class {class}")),
    );
    changes
}

fn count(nodes: usize) -> u32 {
    u32::try_from(nodes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{LoadOptions, parse};

    fn lab(provider: &str, devices: &str) -> Lab {
        let text = format!("lab = 'x'\nprovider = '{provider}'\n[pool.a]\nnodes = 1\ndevices = [{devices}]\n");
        parse("x.toml", &text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn devices_of_a_pool_change_in_place_where_klab_publishes_them() {
        let four = "{ class = 'gpu.example.com', count = 4 }";
        for (provider, before, after, changes) in [
            ("sim", four, four, vec![]),
            (
                "sim",
                four,
                "{ class = 'gpu.example.com', count = 1 }",
                vec!["1 device of class gpu.example.com a node instead of 4"],
            ),
            (
                "sim",
                four,
                "{ class = 'gpu.example.com', count = 4, attributes = { memory = '40Gi' } }",
                vec!["other devices of class gpu.example.com"],
            ),
            (
                "sim",
                four,
                "{ class = 'nic.example.com', count = 2 }",
                vec!["2 devices of class nic.example.com a node", "no devices of class gpu.example.com"],
            ),
            (
                "sim",
                four,
                "{ class = 'gpu.example.com', count = 3 }, { class = 'gpu.example.com', driver = 'b.example.com', count = 2 }",
                vec!["5 devices of class gpu.example.com a node instead of 4"],
            ),
            ("kind", four, "", vec![]),
        ] {
            let (before, after) = (lab(provider, before), lab(provider, after));
            let live = ObservedPool {
                declared: Declared::of(&before.pools[0]),
                nodes: vec![ObservedNode::default()],
                ..ObservedPool::default()
            };
            let observed =
                Observed { exists: true, pools: BTreeMap::from([("a".to_owned(), live)]), ..Observed::default() };
            let planned = plan(&after, &observed);
            let update = |changes: Vec<&str>| Action::UpdatePool {
                pool: "a".to_owned(),
                changes: changes.into_iter().map(str::to_owned).collect(),
            };
            let wanted = if changes.is_empty() { Vec::new() } else { vec![update(changes)] };
            assert_eq!(planned, wanted, "{provider}");
        }
    }
}
