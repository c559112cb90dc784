//! Properties over random clusters: every suggestion, made for real on a copy of the objects, places the pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::edit::Edit;
use super::new_node::new_node;
use super::question::Question;
use super::reasons::{Refusal, group};
use super::suggest::{Remedy, suggest, unbound};
use crate::verify::tests::fixture::{Cluster, from, of_revision, running, unschedulable};
use crate::verify::view::{PodView, View};
use crate::verify::{Context, Snapshot, model};
use klab_scheduler::{Outcome, PluginName, Reason, TieBreak};

/// Random parts of a pod: requests in hundredths of a CPU, and rules.
fn pod_spec() -> impl Strategy<Value = Value> {
    let selector = prop_oneof![
        3 => Just(Value::Null),
        1 => Just(json!({"disk": "ssd"})),
        1 => Just(json!({"disk": "sdd"})),
        1 => Just(json!({"disk": "hdd", "zone": "a"})),
    ];
    let tolerations = prop_oneof![
        2 => Just(Value::Null),
        1 => Just(json!([{"key": "dedicated", "operator": "Exists"}])),
    ];
    let apart = prop_oneof![3 => Just("none"), 1 => Just("apart"), 1 => Just("together"), 1 => Just("affinity")];
    let spread = prop_oneof![3 => Just(Value::Null), 1 => Just(json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}}]))];
    let port = prop_oneof![3 => Just(Value::Null), 1 => Just(json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]))];
    (1_u32..300, selector, tolerations, apart, spread, port).prop_map(
        |(hundredths, selector, tolerations, apart, spread, port)| {
            let term = json!([{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]);
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            let affinity = match apart {
                "apart" => json!({"podAntiAffinity": {required: term}}),
                "together" => json!({"podAffinity": {required: [{"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "kubernetes.io/hostname"}]}}),
                "affinity" => json!({"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}}}),
                _ => Value::Null,
            };
            json!({
                "containers": [{"name": "main", "image": "nginx", "ports": port, "resources": {"requests": {"cpu": format!("{hundredths}0m"), "memory": "64Mi"}}}],
                "nodeSelector": selector, "tolerations": tolerations, "affinity": affinity,
                "topologySpreadConstraints": spread,
            })
        },
    )
}

fn node() -> impl Strategy<Value = (bool, Value)> {
    let labels = prop_oneof![Just(json!({})), Just(json!({"disk": "ssd"})), Just(json!({"disk": "hdd"}))];
    let taints = prop_oneof![
        3 => Just(Value::Null),
        1 => Just(json!([{"key": "dedicated", "value": "special", "effect": "NoSchedule"}])),
        1 => Just(json!([{"key": "old", "effect": "NoExecute"}, {"key": "soft", "effect": "PreferNoSchedule"}])),
    ];
    (any::<bool>(), labels, taints, prop_oneof![4 => Just(Value::Null), 1 => Just(json!(true))]).prop_map(
        |(extra, labels, taints, cordoned)| {
            (extra, json!({"metadata": {"labels": labels}, "spec": {"taints": taints, "unschedulable": cordoned}}))
        },
    )
}

prop_compose! {
    /// A cluster of some nodes with pods of `other` and `web` on them, and some Pending pods of `web`.
    pub(crate) fn clusters()(
        nodes in prop::collection::vec(node(), 0..6),
        placed in prop::collection::vec((pod_spec(), 0_usize..6, any::<bool>()), 0..8),
        spec in pod_spec(),
        waiting in 1_usize..4,
    ) -> Cluster {
        let mut cluster = Cluster::default().deployment("web", 3).deployment("other", 3);
        let mut names = Vec::new();
        for (number, (extra, changes)) in (0_u32..).zip(&nodes) {
            let pool = if *extra { "extra" } else { "main" };
            names.push(format!("{pool}-{number}"));
            cluster = cluster.node(pool, number, changes.clone());
        }
        for (spec, node, is_web) in placed {
            if let Some(node) = names.get(node) {
                let mut pod = running(node);
                json_patch::merge(&mut pod["spec"], &spec);
                pod["spec"]["nodeName"] = json!(node);
                cluster = cluster.pod(if is_web { "web" } else { "other" }, &pod);
            }
        }
        for _ in 0..waiting {
            let mut pod = unschedulable("0 nodes are available");
            pod["spec"] = spec.clone();
            cluster = cluster.pod("web", &pod);
        }
        cluster
    }
}

/// Makes the changes of a remedy on a copy of the objects.
fn make(snapshot: &Snapshot, remedy: &Remedy, pods: &[&PodView<'_>]) -> (Snapshot, Vec<Pod>) {
    let mut changed = snapshot.clone();
    let mut wanted: Vec<Pod> = pods.iter().map(|pod| unbound(pod.pod)).collect();
    for edit in &remedy.edits {
        match edit {
            Edit::Label { nodes, key, value, .. } => for_nodes(&mut changed, nodes, |node| {
                node["metadata"]["labels"][key] = json!(value);
            }),
            Edit::Untaint { nodes, taints, .. } => for_nodes(&mut changed, nodes, |node| {
                let keys: Vec<&str> = taints.iter().map(|taint| taint.key.as_str()).collect();
                let present = node["spec"]["taints"].as_array_mut().unwrap();
                present.retain(|taint| !keys.contains(&taint["key"].as_str().unwrap()));
            }),
            Edit::Uncordon(nodes) => for_nodes(&mut changed, nodes, |node| {
                node["spec"]["unschedulable"] = Value::Null;
                let present = node["spec"]["taints"].as_array_mut().unwrap();
                present.retain(|taint| taint["key"] != "node.kubernetes.io/unschedulable");
            }),
            Edit::AddNodes { pool, template, zones } => {
                for number in 0..remedy.steps {
                    changed.nodes.push(Arc::new(new_node(template, pool, number, zones)));
                }
            }
            Edit::Storage(change) => {
                let name = |meta: &ObjectMeta| (meta.namespace.clone(), meta.name.clone());
                let new: Vec<_> = change.claims.iter().map(|claim| name(&claim.metadata)).collect();
                changed.persistent_volume_claims.retain(|claim| !new.contains(&name(&claim.metadata)));
                changed.persistent_volume_claims.extend(change.claims.iter().cloned());
                let new: Vec<_> = change.volumes.iter().map(|volume| name(&volume.metadata)).collect();
                changed.persistent_volumes.retain(|volume| !new.contains(&name(&volume.metadata)));
                changed.persistent_volumes.extend(change.volumes.iter().cloned());
                changed.nodes.extend(change.nodes.iter().cloned());
            }
            Edit::ScaleDown { victims, .. } | Edit::OldFirst { victims, .. } => {
                let gone: Vec<_> = victims[..remedy.steps].iter().map(|pod| pod.metadata.name.clone()).collect();
                changed.pods.retain(|pod| !gone.contains(&pod.metadata.name));
            }
            of_pod => {
                for pod in &mut wanted {
                    assert!(of_pod.apply_to_pod(pod));
                }
            }
        }
    }
    (changed, wanted)
}

fn for_nodes(snapshot: &mut Snapshot, names: &[String], change: impl Fn(&mut Value)) {
    for node in &mut snapshot.nodes {
        if names.contains(node.metadata.name.as_ref().unwrap()) {
            let mut value = serde_json::to_value(&**node).unwrap();
            change(&mut value);
            *node = serde_json::from_value::<k8s_openapi::api::core::v1::Node>(value).unwrap().into();
        }
    }
}

prop_compose! {
    /// A rollout whose old pods run, and whose new ones wait.
    fn rollouts()(nodes in 1_u32..4, spec in pod_spec(), old in 1_usize..4, waiting in 1_usize..3) -> Cluster {
        let mut cluster = Cluster::default().pool("main", nodes).deployment("web", 3).replica_set("web", 2);
        for number in 0..old {
            let mut pod = of_revision("web", 1, running(&format!("main-{}", number as u32 % nodes)));
            json_patch::merge(&mut pod["spec"], &spec);
            cluster = cluster.pod("web", &pod);
        }
        for _ in 0..waiting {
            let mut pod = of_revision("web", 2, unschedulable("0 nodes are available"));
            pod["spec"] = spec.clone();
            cluster = cluster.pod("web", &pod);
        }
        cluster
    }
}

prop_compose! {
    /// A pod that waits for its claim, and what there is of classes and volumes.
    fn with_claims()(
        zones in prop::collection::vec(prop_oneof![Just("a"), Just("b")], 1..4),
        class in prop_oneof![Just(Value::Null), Just(json!("fast")), Just(json!("fst")), Just(json!("manual"))],
        has_class in any::<bool>(),
        late in any::<bool>(),
        allowed in prop_oneof![Just(Value::Null), Just(json!("a")), Just(json!("c"))],
        volume in prop_oneof![Just(Value::Null), Just(json!("Available")), Just(json!("Released"))],
        of_zone in prop_oneof![Just(Value::Null), Just(json!("a")), Just(json!("c"))],
        size in prop_oneof![Just("1Gi"), Just("5Gi")],
        is_there in prop_oneof![4 => Just(true), 1 => Just(false)],
    ) -> Cluster {
        let key = "topology.kubernetes.io/zone";
        let mut cluster = Cluster::default();
        for (number, zone) in (0..).zip(&zones) {
            cluster = cluster.node("main", number, json!({"metadata": {"labels": {key: zone}}}));
        }
        if has_class {
            let topologies = allowed.as_str().map(|zone| json!([{"matchLabelExpressions": [{"key": key, "values": [zone]}]}]));
            cluster.snapshot.storage_classes.push(from(json!({
                "metadata": {"name": "fast"}, "provisioner": "p", "allowedTopologies": topologies,
                "volumeBindingMode": if late { "WaitForFirstConsumer" } else { "Immediate" },
            })));
        }
        if !volume.is_null() {
            let affinity = of_zone.as_str().map(|zone| json!({"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}]}}));
            cluster.snapshot.persistent_volumes.push(from(json!({
                "metadata": {"name": "disk"}, "status": {"phase": volume},
                "spec": {
                    "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "nodeAffinity": affinity,
                    "claimRef": (volume == "Released").then(|| json!({"namespace": "default", "name": "gone"})),
                },
            })));
        }
        if is_there {
            cluster.snapshot.persistent_volume_claims.push(from(json!({
                "metadata": {"name": "data", "namespace": "default"}, "status": {"phase": "Pending"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}},
            })));
        }
        let mut pod = unschedulable("0 nodes are available");
        pod["spec"] = json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]});
        cluster.pod("app", &pod)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_suggestion_places_the_pods(cluster in prop_oneof![2 => clusters(), 1 => rollouts(), 1 => with_claims()]) {
        let snapshot = &cluster.snapshot;
        let context = Context::default();
        let view = View::new(snapshot, &context);
        let pods: Vec<&PodView<'_>> = view.pods.iter().filter(|pod| pod.node.is_none()).collect();
        let mut cluster = model::cluster(&view, TieBreak::default());
        let verdicts = cluster.evaluate_all(pods[0].pod).unwrap();
        let refused = verdicts.iter().filter(|(_, reasons)| !reasons.is_empty());
        let refusals: Vec<Refusal<'_>> = group(refused.map(|(node, reasons)| (&**node, &**reasons)), |name| view.pool_of(name));
        let question = Question { view: &view, pods: &pods, refusals: &refusals, wanted: &|_| true, settles: &|_, _| true };
        let remedies = suggest(&question, &mut cluster);
        // Asking leaves the model as it was.
        let texts = |verdicts: &std::collections::BTreeMap<Arc<str>, Vec<Reason>>| -> Vec<String> {
            verdicts.iter().map(|(node, reasons)| format!("{node} {}", reasons.iter().map(ToString::to_string).collect::<String>())).collect()
        };
        prop_assert_eq!(texts(&verdicts), texts(&cluster.evaluate_all(pods[0].pod).unwrap()));
        for remedy in &remedies {
            let (changed, wanted) = make(snapshot, remedy, &pods);
            let mut fresh = model::cluster(&View::new(&changed, &context), TieBreak::default());
            // Nodes are no worse for the pods that run there.
            for pod in view.pods.iter().filter(|pod| pod.node.is_some()) {
                let Some(node) = fresh.node_of(pod.namespace, pod.name) else { continue };
                let before = cluster.evaluate(&unbound(pod.pod), &node).unwrap().unwrap();
                let after = fresh.evaluate(&unbound(pod.pod), &node).unwrap().unwrap();
                let of_node = |reasons: &[Reason]| {
                    let plugins = reasons.iter().map(Reason::plugin);
                    plugins.filter(|plugin| matches!(plugin, PluginName::TaintToleration | PluginName::NodeAffinity)).count()
                };
                prop_assert!(of_node(&after) <= of_node(&before), "{}: {before:?} {after:?}", remedy.suggestion.text);
            }
            for pod in &wanted {
                let decision = fresh.schedule(pod).unwrap();
                let Outcome::Scheduled { node } = decision.outcome else {
                    return Err(TestCaseError::fail(format!("{}: {}", remedy.suggestion.text, decision.message)));
                };
                fresh.bind(pod, &node).unwrap();
            }
        }
    }
}
