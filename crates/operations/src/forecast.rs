//! Pure: where a lab's pods will go once `up` is done: `(Lab, manifests, snapshot) -> Prediction`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use serde_json::Value;

use crate::provider::sim::{addons, flavour};
use crate::render::Manifest;
use klab_cluster::system;
use klab_lab::names::POOL_LABEL;
use klab_lab::nodes;
use klab_lab::plan::is_system_taint;
use klab_lab::spec::{Lab, Pool};
use klab_lab::verify::{Context, PredictedWorkload, Prediction, Snapshot, predict};
use klab_scheduler::TieBreak;
use klab_scheduler::typed::Typed;

/// Where the lab's pods will go: in the cluster that is there with its pools as the lab file says, or, without one, in
/// a new cluster, where the system's own pods come first and take their room.
pub fn forecast(lab: &Lab, manifests: &[Manifest], present: Option<&Snapshot>) -> Prediction {
    let system: &[Value] = if present.is_some() { &[] } else { system::objects(flavour(lab)) };
    let addons = if present.is_some() { Vec::new() } else { addons(lab) };
    let of_system = system.len() + addons.len();
    let manifests = manifests.iter().map(|manifest| &manifest.object);
    let objects: Vec<&Value> = system.iter().chain(&addons).chain(manifests).collect();
    let snapshot = match present {
        // Nodes of others stay as they are.
        Some(present) if !lab.provider.profile().makes_nodes => present.clone(),
        present => with_pools(lab, present.cloned().unwrap_or_default()),
    };
    let context = Context::of(lab);
    let mut prediction = predict(&snapshot, &context, &objects, TieBreak::Seeded(lab.sim.seed.unwrap_or_default()));
    let of_lab = |workload: &PredictedWorkload| {
        objects[of_system..].iter().any(|object| {
            object["kind"] == workload.kind.as_str() && object["metadata"]["name"] == workload.name.as_str()
        })
    };
    prediction.workloads.retain(of_lab);
    prediction
}

/// The cluster once its pools are as the lab file says: nodes that go take their pods with them, nodes that come are
/// empty, nodes that stay get the file's labels and taints. Nodes of no pool, such as kind's control plane, stay.
fn with_pools(lab: &Lab, snapshot: Snapshot) -> Snapshot {
    let mut nodes_of: BTreeMap<String, Vec<Arc<Node>>> = BTreeMap::new();
    let mut nodes = Vec::new();
    for node in snapshot.nodes {
        match node.labels().get(POOL_LABEL) {
            Some(pool) => nodes_of.entry(pool.clone()).or_default().push(node),
            None => nodes.push(node),
        }
    }
    for pool in lab.pools.iter().filter(|pool| !pool.deferred) {
        let present = nodes_of.remove(pool.name.as_str()).unwrap_or_default();
        nodes.extend(nodes_of_pool(lab, pool, present));
    }
    let names: BTreeSet<String> = nodes.iter().map(|node| node.name_any()).collect();
    let stays = |pod: &Arc<Pod>| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        node.is_none_or(|node| names.contains(node))
    };
    let pods = snapshot.pods.into_iter().filter(stays).collect();
    Snapshot { nodes, pods, ..snapshot }
}

fn nodes_of_pool(lab: &Lab, pool: &Pool, mut present: Vec<Arc<Node>>) -> Vec<Arc<Node>> {
    // The autoscaler decides between its bounds; what is there is its decision.
    let wanted = match &pool.autoscale {
        Some(bounds) if !present.is_empty() => {
            u32::try_from(present.len()).unwrap_or(u32::MAX).clamp(bounds.min, bounds.max)
        }
        _ => pool.nodes.value,
    };
    let planned = |part: &Pool, number| Node::from_value(&nodes::node(lab, part, number)).ok().map(Arc::new);
    // Those of the highest number go first, on every provider.
    present.sort_by_key(|node| (node.name_any().len(), node.name_any()));
    let (present, _) = nodes::kept(pool, present, wanted);
    let lacking = nodes::lacking(pool, &present);
    let pattern = planned(pool, 0);
    let mut nodes: Vec<Arc<Node>> = present
        .into_iter()
        .map(|node| pattern.as_ref().map_or_else(|| Arc::clone(&node), |pattern| relabelled(pool, &node, pattern)))
        .collect();
    let taken: BTreeSet<String> = nodes.iter().map(|node| node.name_any()).collect();
    let free = (0..).filter(|number| !taken.contains(&nodes::node_name(lab, pool, *number)));
    let missing = (wanted as usize).saturating_sub(nodes.len());
    let fresh = lacking.zip(free).take(missing);
    nodes.extend(fresh.filter_map(|(part, number)| planned(&part, number)));
    nodes
}

/// A node that stays, with the labels and taints its pool is to have; the system's own taints are kept.
fn relabelled(pool: &Pool, node: &Node, pattern: &Node) -> Arc<Node> {
    let mut node = node.clone();
    let labels = node.metadata.labels.get_or_insert_default();
    labels.extend(pool.labels.iter().map(|(key, value)| (key.clone(), value.value.clone())));
    let spec = node.spec.get_or_insert_default();
    let mut taints: Vec<_> = spec.taints.take().into_iter().flatten().filter(is_system_taint).collect();
    let declared = pattern.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    taints.extend(declared.into_iter().filter(|taint| !is_system_taint(taint)));
    spec.taints = (!taints.is_empty()).then_some(taints);
    Arc::new(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;
    use klab_lab::spec::{LoadOptions, parse};

    const LAB: &str = r#"
        lab = "blast"
        [pool.main]
        mode = "system"
        nodes = 1
        [pool.extra]
        nodes = 2
        labels = { workload = "extra" }
        [workload.web]
        image = "nginx"
        replicas = 4
        requests = { cpu = "100m" }
        node_selector = { workload = "extra" }
        [[check]]
        workload = "web"
        running = 4
    "#;

    fn lab(text: &str) -> (Lab, Vec<Manifest>) {
        let lab = parse("lab.toml", text, &LoadOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
        let manifests = render::render(&lab).unwrap();
        (lab, manifests)
    }

    #[test]
    fn each_size_of_single_virtual_machines_takes_its_pods() {
        let text = |sizes: &str| {
            format!(
                "lab = 'x'\n[pool.main]\n[pool.mixed]\ntype = 'VirtualMachines'\nsizes = {{ {sizes} }}\n\
                 [workload.large]\nreplicas = 2\nrequests = {{ cpu = '5' }}\nnode_selector = {{ agentpool = 'mixed' }}\n\
                 [[check]]\nworkload = 'large'\nrunning = 1\npending = 1\n"
            )
        };
        let (before, manifests) = lab(&text("Standard_D4s_v5 = 2, Standard_D8s_v5 = 1"));
        let placed = |prediction: &Prediction| (pools(prediction) == [("mixed", 1)], prediction.workloads[0].pending);
        let snapshot = with_pools(&before, Snapshot::default());
        assert_eq!(placed(&forecast(&before, &manifests, None)), (true, 1));
        // One size goes, another comes: the names of nodes that stay are not given again.
        let (after, manifests) = lab(&text("Standard_D2s_v5 = 1, Standard_D4s_v5 = 1, Standard_D8s_v5 = 1"));
        let names: BTreeSet<String> =
            with_pools(&after, snapshot.clone()).nodes.iter().map(|node| node.name_any()).collect();
        assert_eq!(names.len(), 4);
        assert_eq!(placed(&forecast(&after, &manifests, Some(&snapshot))), (true, 1));
    }

    fn pools(prediction: &Prediction) -> Vec<(&str, u32)> {
        prediction.workloads[0].pools.iter().map(|(pool, pods)| (pool.as_str(), *pods)).collect()
    }

    #[test]
    fn pods_of_a_new_cluster() {
        let (lab, manifests) = lab(LAB);
        let prediction = forecast(&lab, &manifests, None);
        assert_eq!(prediction.workloads.len(), 1, "the system's own pods are not the lab's");
        assert_eq!(pools(&prediction), [("extra", 4)]);
    }

    #[test]
    fn cluster_that_is_there_is_seen_with_its_pools_as_the_file_says() {
        let (before, _) = lab(LAB);
        let present = with_pools(&before, Snapshot::default());
        assert_eq!(present.nodes.len(), 3);
        // Both pools grow, and one is tainted.
        let text = LAB
            .replace("nodes = 1", "nodes = 2")
            .replace(
                "nodes = 2\n        labels",
                "nodes = 3\n        taints = [\"dedicated=web:NoSchedule\"]\n        labels",
            )
            .replace("replicas = 4", "replicas = 4\n        tolerations = [\"dedicated=web:NoSchedule\"]");
        let (lab, manifests) = lab(&text);
        let after = with_pools(&lab, present.clone());
        let tainted = |snapshot: &Snapshot| {
            let taints = |node: &&Arc<Node>| node.spec.as_ref().is_some_and(|spec| spec.taints.is_some());
            snapshot.nodes.iter().filter(taints).count()
        };
        assert_eq!((after.nodes.len(), tainted(&after)), (5, 3));
        assert_eq!(pools(&forecast(&lab, &manifests, Some(&present))), [("extra", 4)]);
        let back = with_pools(&before, after);
        assert_eq!((back.nodes.len(), tainted(&back)), (3, 0), "nodes go, and those that stay lose the taint");
    }
}
