//! Whether the nodes of the cluster are what the lab file declares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::ListParams;
use kube::{Client, ResourceExt};

use super::restore::{Restoration, same_taint};
use crate::client::{connect, objects, runtime};
use crate::error::{Code, Context, Error, Result};
use crate::event::Verb;
use crate::provider::Work;
use klab_lab::names::{AKS_POOL_LABEL, POOL_LABEL};
use klab_lab::nodes::is_of;
use klab_lab::plan::{is_system_taint, is_version, taint_text, wanted_version};
use klab_lab::spec::{Lab, Pool};
use klab_lab::verify::is_ready;
use klab_lab::words::plural;

/// Every difference between the lab's pools and the cluster's nodes, in words; empty when there is none.
///
/// Labels and taints that AKS sets itself are no difference. Nodes of no pool of the lab are not looked at.
pub fn drift(lab: &Lab, nodes: &[Node]) -> Vec<String> {
    let mut by_pool: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in nodes {
        if let Some(pool) = pool_of(node) {
            by_pool.entry(pool).or_default().push(node);
        }
    }
    let pools = lab.pools.iter().filter(|pool| !pool.deferred);
    pools
        .flat_map(|pool| pool_drift(lab, pool, by_pool.get(pool.name.value.as_str()).map_or(&[], Vec::as_slice)))
        .collect()
}

fn pool_drift(lab: &Lab, pool: &Pool, nodes: &[&Node]) -> Vec<String> {
    let name = &pool.name.value;
    let ready = nodes.iter().filter(|node| is_ready(node)).count();
    let wanted = pool.nodes.value as usize;
    let mut drift = Vec::new();
    match pool.autoscale.as_ref().map(|bounds| (bounds.min as usize, bounds.max as usize)) {
        Some((min, max)) if !(min..=max).contains(&ready) => {
            drift.push(format!("pool {name}: {} ready, between {min} and {max} declared", plural(ready, "node")));
        }
        None if ready != wanted => {
            drift.push(format!("pool {name}: {} ready, {wanted} declared", plural(ready, "node")));
        }
        _ => {}
    }
    for part in pool.parts().iter().filter(|part| part.is_virtual_machines()) {
        let there = nodes.iter().filter(|node| is_of(part, node)).count();
        if there != part.nodes.value as usize {
            let (wanted, size) = (part.nodes.value, part.size.as_ref().map_or("", |size| size.as_str()));
            drift.push(format!("pool {name}: {} of size {size}, {wanted} declared", plural(there, "node")));
        }
    }
    let lacks_nodes = !drift.is_empty();
    // One sentence for all nodes that differ in the same way.
    let mut same: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in nodes {
        let not_ready = Some(format!("not ready: {}", why_not_ready(node))).filter(|_| lacks_nodes && !is_ready(node));
        for difference in not_ready.into_iter().chain(node_drift(lab, pool, node)) {
            same.entry(difference).or_default().push(node.name_any());
        }
    }
    drift.extend(same.into_iter().map(|(difference, names)| {
        let which =
            if names.len() == nodes.len() { format!("all {}", plural(names.len(), "node")) } else { names.join(", ") };
        format!("pool {name}: {difference} ({which})")
    }));
    drift
}

/// What the kubelet says, or the node controller for it.
fn why_not_ready(node: &Node) -> String {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "Ready").map_or_else(
        || "its kubelet has not reported yet".to_owned(),
        |ready| [&ready.reason, &ready.message].into_iter().flatten().cloned().collect::<Vec<_>>().join(": "),
    )
}

fn node_drift(lab: &Lab, pool: &Pool, node: &Node) -> Vec<String> {
    let mut drift = Vec::new();
    for (key, wanted) in &pool.labels {
        let wanted = &wanted.value;
        match node.labels().get(key) {
            None => drift.push(format!("label {key}={wanted} is missing")),
            Some(value) if value != wanted => drift.push(format!("label {key} is {value}, {wanted} declared")),
            Some(_) => {}
        }
    }
    let live: Vec<&Taint> = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten())
        .filter(|taint| !is_system_taint(taint))
        .collect();
    for taint in &pool.taints {
        if !live.iter().any(|live| same_taint(live, &taint.value)) {
            drift.push(format!("taint {} is missing", taint_text(&taint.value)));
        }
    }
    for taint in live {
        if !pool.taints.iter().any(|wanted| same_taint(taint, &wanted.value)) {
            drift.push(format!("taint {} is not declared", taint_text(taint)));
        }
    }
    if !pool.zones.is_empty() {
        let zone = node.labels().get("topology.kubernetes.io/zone").map_or("", String::as_str);
        let number = zone.rsplit('-').next().and_then(|zone| zone.parse::<u8>().ok());
        if !number.is_some_and(|zone| pool.zones.contains(&zone)) {
            drift.push(format!(
                "zone is {}, one of {:?} declared",
                if zone.is_empty() { "none" } else { zone },
                pool.zones
            ));
        }
    }
    let version = node
        .status
        .as_ref()
        .and_then(|status| status.node_info.as_ref())
        .map(|info| info.kubelet_version.trim_start_matches('v'));
    if let (Some(live), Some(wanted)) = (version, wanted_version(lab, Some(pool)))
        && !is_version(live, &wanted)
    {
        drift.push(format!("Kubernetes is {live}, {wanted} declared"));
    }
    drift
}

/// How long nodes may take to be as declared after their pools changed.
const SETTLING: Duration = Duration::from_mins(3);
/// How long when nothing changed.
const AT_REST: Duration = Duration::from_secs(3);

/// Looks at the nodes until they are as declared, and takes back what others put on them; what differs in the end is an
/// error after a change, else a warning.
///
/// # Errors
/// When the cluster does not answer, or its nodes are not as declared after a change.
pub(super) fn check(kubeconfig: &Path, lab: &Lab, changed: bool, work: &mut Work<'_>) -> Result<()> {
    let runtime = runtime()?;
    let activity = work.events.start(Verb::CheckNodes, "the nodes");
    let started = Instant::now();
    let mut back = TakenBack::default();
    let found = runtime.block_on(async {
        let client = connect(kubeconfig).await?;
        loop {
            let nodes = objects::list::<Node>(&client, None, &ListParams::default()).await;
            let nodes = nodes.code(Code::NoAnswer, || "could not read the cluster's nodes".to_owned())?;
            let drift = drift(lab, &nodes);
            let limit = if changed { SETTLING } else { AT_REST };
            if drift.is_empty() || started.elapsed() > limit {
                return Ok::<_, Error>((nodes.len(), drift));
            }
            activity.progress(format!("the nodes: {}", drift[0]));
            back.take(lab, &nodes, &client, work).await?;
            tokio::time::sleep((started.elapsed() / 10).clamp(Duration::from_millis(20), Duration::from_secs(3))).await;
        }
    });
    let (count, drift) = found?;
    if !back.nodes.is_empty() {
        let changes: Vec<String> = back.changes.into_iter().collect();
        let nodes = plural(back.nodes.len(), "node");
        work.events
            .counting(back.nodes.len())
            .note(Verb::ResetNodes, format!("{nodes} to what the pools declare: {}", changes.join(", ")));
    }
    let refused = back.refused.map_or(String::new(), |words| format!("\nthe cluster refused to change it: {words}"));
    if !drift.is_empty() && changed {
        let message = format!("the nodes are not as declared:\n{}{refused}", drift.join("\n"));
        return Err(Error::message(Code::NodesDrift, message));
    }
    for difference in &drift {
        work.events.warn(Code::NodesDrifted, format!("drift: {difference}{refused}"));
    }
    if drift.is_empty() {
        activity
            .counting(count)
            .finish(format!("{}: counts, labels, taints, zones and versions as declared", plural(count, "node")));
    }
    Ok(())
}

/// What was taken back so far.
#[derive(Default)]
struct TakenBack {
    nodes: BTreeSet<String>,
    changes: BTreeSet<String>,
    /// The words of the last refusal.
    refused: Option<String>,
}

impl TakenBack {
    async fn take(&mut self, lab: &Lab, nodes: &[Node], client: &Client, work: &mut Work<'_>) -> Result<()> {
        for node in nodes {
            let pool = pool_of(node).and_then(|pool| lab.pool(pool)).filter(|pool| !pool.deferred);
            let Some(restoration) = pool.and_then(|pool| Restoration::of(pool, node)) else { continue };
            work.intend("reset-node", restoration.node())?;
            match restoration.perform(client).await {
                Ok(()) => {
                    self.nodes.insert(restoration.node().to_owned());
                    self.changes.extend(restoration.changes);
                    self.refused = None;
                }
                // Somebody else changed the node in between, or it is gone: the next look shows.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => self.refused = Some(error.to_string()),
            }
        }
        Ok(())
    }
}

fn pool_of(node: &Node) -> Option<&str> {
    let labels = node.labels();
    labels.get(POOL_LABEL).or_else(|| labels.get(AKS_POOL_LABEL)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use klab_lab::names::SIZE_LABEL;
    use klab_lab::spec::{self, LoadOptions};

    fn lab() -> Lab {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        let text = "lab = \"live\"\nprovider = \"aks\"\nkubernetes = \"1.34\"\n[pool.sys]\n[pool.extra]\nnodes = 2\nzones = [1, 2]\n\
                    labels = { team = \"a\" }\ntaints = [\"dedicated=x:NoSchedule\"]\n[pool.burst]\nspot = true\nautoscale = { min = 0, max = 2 }\n";
        std::fs::write(&path, text).unwrap();
        spec::load(&path, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
    }

    fn node(pool: &str, number: u32, change: impl FnOnce(&mut Value)) -> Node {
        let mut node = json!({
            "metadata": { "name": format!("aks-{pool}-{number}"), "labels": { "agentpool": pool } },
            "spec": {},
            "status": {
                "conditions": [{ "type": "Ready", "status": "True" }],
                "nodeInfo": { "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                    "kubeletVersion": "v1.34.2", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "" },
            },
        });
        if pool == "extra" {
            node["metadata"]["labels"]["team"] = json!("a");
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(format!("westeurope-{}", number % 2 + 1));
            node["spec"]["taints"] = json!([{ "key": "dedicated", "value": "x", "effect": "NoSchedule" }]);
        }
        change(&mut node);
        serde_json::from_value(node).unwrap()
    }

    fn found(extra: impl FnOnce(&mut Value)) -> Vec<String> {
        drift(&lab(), &[node("sys", 0, |_| {}), node("extra", 0, |_| {}), node("extra", 1, extra)])
    }

    #[test]
    fn nodes_as_declared_have_no_drift_whatever_aks_adds() {
        assert_eq!(found(|_| {}), Vec::<String>::new());
        let spot = json!([{ "key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule" }]);
        let nodes = [
            node("sys", 0, |node| node["metadata"]["labels"]["kubernetes.azure.com/mode"] = json!("system")),
            node("extra", 0, |_| {}),
            node("extra", 1, |_| {}),
            node("burst", 0, |node| node["spec"]["taints"] = spot),
            node("somebodyelses", 0, |_| {}),
        ];
        assert_eq!(drift(&lab(), &nodes), Vec::<String>::new());
    }

    #[test]
    fn nodes_of_each_size_are_counted() {
        let text = "lab = 'live'\nprovider = 'aks'\n[pool.sys]\n[pool.mixed]\ntype = 'VirtualMachines'\n\
                    sizes = { Standard_D4s_v5 = 1, Standard_D8s_v5 = 1 }\n";
        let lab = spec::parse("lab.toml", text, &LoadOptions::default()).unwrap();
        let of = |sizes: [&str; 2]| {
            let sized = |number: usize| {
                let size = sizes[number].to_owned();
                node("mixed", number as u32, move |node| node["metadata"]["labels"][SIZE_LABEL] = json!(size))
            };
            drift(&lab, &[node("sys", 0, |_| {}), sized(0), sized(1)])
        };
        assert_eq!(of(["standard_d4s_v5", "Standard_D8s_v5"]), Vec::<String>::new());
        assert_eq!(
            of(["Standard_D4s_v5", "Standard_D4s_v5"]),
            [
                "pool mixed: 2 nodes of size Standard_D4s_v5, 1 declared",
                "pool mixed: 0 nodes of size Standard_D8s_v5, 1 declared"
            ]
        );
    }

    #[test]
    fn every_difference_is_told_with_its_node() {
        let labels = "/metadata/labels";
        let set = |pointer: &'static str, key: &'static str, value: Value| {
            move |node: &mut Value| match node.pointer_mut(pointer).unwrap() {
                Value::Array(entries) => entries[key.parse::<usize>().unwrap()] = value,
                object => object[key] = value,
            }
        };
        assert_eq!(found(set(labels, "team", json!("b"))), ["pool extra: label team is b, a declared (aks-extra-1)"]);
        assert_eq!(
            found(set(labels, "topology.kubernetes.io/zone", json!("westeurope-3"))),
            ["pool extra: zone is westeurope-3, one of [1, 2] declared (aks-extra-1)"]
        );
        assert_eq!(
            found(set("/spec", "taints", json!([]))),
            ["pool extra: taint dedicated=x:NoSchedule is missing (aks-extra-1)"]
        );
        assert_eq!(
            found(set("/status/nodeInfo", "kubeletVersion", json!("v1.33.1"))),
            ["pool extra: Kubernetes is 1.33.1, 1.34 declared (aks-extra-1)"]
        );
        let silent = json!({ "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status." });
        assert_eq!(
            found(set("/status/conditions", "0", silent)),
            [
                "pool extra: 1 node ready, 2 declared",
                "pool extra: not ready: NodeStatusUnknown: Kubelet stopped posting node status. (aks-extra-1)"
            ]
        );
        assert_eq!(
            found(set("/status", "conditions", json!([]))),
            [
                "pool extra: 1 node ready, 2 declared",
                "pool extra: not ready: its kubelet has not reported yet (aks-extra-1)"
            ]
        );
    }

    #[test]
    fn same_difference_on_all_nodes_is_told_once() {
        let missing = |node: &mut Value| node["metadata"]["labels"]["team"] = json!(null);
        let without = |number| {
            node("extra", number, |node| {
                missing(node);
                node["metadata"]["labels"].as_object_mut().unwrap().remove("team");
            })
        };
        let drift = drift(&lab(), &[node("sys", 0, |_| {}), without(0), without(1)]);
        assert_eq!(drift, ["pool extra: label team=a is missing (all 2 nodes)"]);
    }
}
