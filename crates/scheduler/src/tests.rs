//! Properties that hold for every cluster: no overcommitment, true reasons, and answers that depend neither on the
//! order of things nor on what was asked before.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::hash::mix;
use super::*;

/// A source of small choices; proptest gives the seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for index in (1..list.len()).rev() {
            list.swap(index, self.below(index as u64 + 1) as usize);
        }
    }
}

const APPS: [&str; 3] = ["web", "db", "api"];
const KEYS: [&str; 3] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"];

fn node(dice: &mut Dice, name: &str) -> Value {
    let mut labels = json!({"kubernetes.io/hostname": name});
    for (key, values) in
        [("topology.kubernetes.io/zone", ["a", "b", "c"]), ("rack", ["r1", "r2", "r3"]), ("disk", ["ssd", "hdd", "5"])]
    {
        if !dice.one_in(4) {
            labels[key] = json!(dice.pick(&values));
        }
    }
    let mut taints = Vec::new();
    for (key, effect) in [("dedicated", "NoSchedule"), ("spot", "PreferNoSchedule"), ("maintenance", "NoExecute")] {
        if dice.one_in(5) {
            taints.push(json!({"key": key, "value": "x", "effect": effect}));
        }
    }
    // One size everywhere: of different sizes the one reported first counts, which is a matter of order.
    let mut images = Vec::new();
    if dice.one_in(2) {
        images.push(json!({"names": ["reg.example/web:1"], "sizeBytes": 700_000_000}));
    }
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": dice.one_in(12)},
        "status": {
            "allocatable": {
                "cpu": dice.pick(&["1", "2", "4"]), "memory": dice.pick(&["2Gi", "4Gi"]),
                "pods": dice.pick(&["2", "4", "10"]), "example.com/gpu": dice.pick(&["0", "1", "2"]),
            },
            "images": images,
        },
    })
}

fn selector(dice: &mut Dice) -> Value {
    match dice.below(5) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [dice.pick(&APPS)]}]}),
        2 => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        _ => json!({"matchLabels": {"app": dice.pick(&APPS)}}),
    }
}

fn term(dice: &mut Dice) -> Value {
    let mut term = json!({"topologyKey": dice.pick(&KEYS), "labelSelector": selector(dice)});
    match dice.below(5) {
        0 => term["namespaces"] = json!(["default", "other"]),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"team": dice.pick(&["red", "blue"])}}),
        2 => term["namespaceSelector"] = json!({}),
        _ => {}
    }
    term
}

fn pod(dice: &mut Dice, name: &str) -> Value {
    let mut requests = json!({"cpu": dice.pick(&["100m", "250m", "700m", "1500m"])});
    if dice.one_in(2) {
        requests["memory"] = json!(dice.pick(&["64Mi", "1Gi", "3Gi"]));
    }
    if dice.one_in(6) {
        requests["example.com/gpu"] = json!("1");
    }
    let mut container =
        json!({"name": "c", "image": dice.pick(&["reg.example/web:1", "db"]), "resources": {"requests": requests}});
    if dice.one_in(6) {
        container["ports"] = json!([{"containerPort": 80, "hostPort": dice.pick(&[80, 81])}]);
    }
    let mut spec = json!({"containers": [container], "priority": dice.pick(&[0, 0, 10, 100])});
    if dice.one_in(3) {
        spec["tolerations"] = json!([{"key": dice.pick(&["dedicated", "spot", "maintenance"]), "operator": "Exists"}]);
    }
    if dice.one_in(6) {
        spec["nodeSelector"] = json!({"disk": dice.pick(&["ssd", "hdd"])});
    }
    let mut affinity = json!({});
    if dice.one_in(6) {
        affinity["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]},
            {"matchExpressions": [{"key": "disk", "operator": "Gt", "values": ["3"]}]},
        ]}});
    }
    if dice.one_in(6) {
        affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([{"weight": 1 + dice.below(9),
            "preference": {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}}]);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if dice.one_in(4) {
            affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term(dice)]);
        }
        if dice.one_in(4) {
            affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"weight": 1 + dice.below(99), "podAffinityTerm": term(dice)}]);
        }
    }
    spec["affinity"] = affinity;
    let mut constraints = Vec::new();
    while dice.one_in(3) {
        let mut constraint = json!({
            "maxSkew": 1 + dice.below(2), "topologyKey": dice.pick(&KEYS),
            "whenUnsatisfiable": dice.pick(&["DoNotSchedule", "ScheduleAnyway"]), "labelSelector": selector(dice),
        });
        if constraint["whenUnsatisfiable"] == "DoNotSchedule" && dice.one_in(4) {
            constraint["minDomains"] = json!(2 + dice.below(2));
        }
        if dice.one_in(4) {
            constraint["nodeTaintsPolicy"] = json!("Honor");
        }
        constraints.push(constraint);
    }
    spec["topologySpreadConstraints"] = json!(constraints);
    let mut labels = json!({"app": dice.pick(&APPS)});
    if dice.one_in(2) {
        labels["tier"] = json!("x");
    }
    let mut meta = json!({"name": name, "namespace": dice.pick(&["default", "default", "other"]), "labels": labels});
    if dice.one_in(4) {
        meta["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}]);
    }
    json!({"metadata": meta, "spec": spec})
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// A cluster that a lab goes through, with the objects it consists of.
struct World {
    dice: Dice,
    cluster: Cluster,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<(String, String), Pod>,
    named: usize,
}

fn key(pod: &Pod) -> (String, String) {
    (pod.metadata.namespace.clone().unwrap(), pod.metadata.name.clone().unwrap())
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            dice: Dice(seed),
            cluster: Cluster::new(TieBreak::Seeded(seed)),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            named: 0,
        };
        world.cluster.set_namespace(&read(&json!({"metadata": {"name": "other", "labels": {"team": "red"}}})));
        let replica_set = json!({"metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        world.cluster.set_replica_set(&read(&replica_set)).unwrap();
        for number in 0..=world.dice.below(7) {
            world.set_node(&format!("n{number}"));
        }
        world
    }

    fn set_node(&mut self, name: &str) {
        let node: Node = read(&node(&mut self.dice, name));
        self.cluster.set_node(&node).unwrap();
        self.nodes.insert(name.to_owned(), node);
    }

    fn new_pod(&mut self) -> Pod {
        self.named += 1;
        let mut pod: Pod = read(&pod(&mut self.dice, &format!("p{}", self.named)));
        admission::admit(&mut pod).unwrap();
        pod
    }

    fn store(&mut self, pod: Pod) {
        self.cluster.set_pod(&pod).unwrap();
        self.pods.insert(key(&pod), pod);
    }

    fn remove_pod(&mut self, namespace: &str, name: &str) {
        self.cluster.remove_pod(namespace, name);
        self.pods.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Carries out what a decision says.
    fn perform(&mut self, mut pod: Pod, decision: &Decision) {
        match &decision.outcome {
            Outcome::Scheduled { node } => {
                pod.spec.as_mut().unwrap().node_name = Some(node.to_string());
                self.store(pod);
            }
            Outcome::Preempting(preemption) => {
                for victim in &preemption.victims {
                    self.remove_pod(&victim.namespace, &victim.name);
                }
                pod.status.get_or_insert_default().nominated_node_name = Some(preemption.nominated.to_string());
                self.store(pod);
            }
            _ => {}
        }
    }

    /// Something happens besides scheduling.
    fn disturb(&mut self) {
        match self.dice.below(8) {
            0 => {
                let name = format!("n{}", self.dice.below(8));
                self.set_node(&name);
            }
            1 => {
                let name = format!("n{}", self.dice.below(8));
                self.cluster.remove_node(&name);
                self.nodes.remove(&name);
            }
            2 | 3 => {
                let keys: Vec<_> = self.pods.keys().cloned().collect();
                if !keys.is_empty() {
                    let (namespace, name) = self.dice.pick(&keys);
                    self.remove_pod(&namespace, &name);
                }
            }
            4 => {
                let team = self.dice.pick(&["red", "blue"]);
                let namespace = json!({"metadata": {"name": "other", "labels": {"team": team}}});
                self.cluster.set_namespace(&read(&namespace));
            }
            5 => {
                let service = json!({"metadata": {"name": "s", "namespace": "default"},
                    "spec": {"selector": {"app": self.dice.pick(&APPS)}}});
                self.cluster.set_service(&read(&service));
            }
            6 => {
                let keys: Vec<_> = self.pods.keys().cloned().collect();
                if !keys.is_empty() {
                    let mut pod = self.pods[&self.dice.pick(&keys)].clone();
                    pod.metadata
                        .labels
                        .get_or_insert_default()
                        .insert("app".to_owned(), self.dice.pick(&APPS).to_owned());
                    self.store(pod);
                }
            }
            _ => {
                let keys: Vec<_> = self.pods.keys().cloned().collect();
                if !keys.is_empty() {
                    let mut pod = self.pods[&self.dice.pick(&keys)].clone();
                    pod.metadata.deletion_timestamp = Some(read(&json!("2026-01-01T00:00:00Z")));
                    self.store(pod);
                }
            }
        }
    }

    /// The same cluster put together again, in another order.
    fn rebuilt(&mut self) -> Cluster {
        let mut cluster = self.cluster.clone();
        for name in self.nodes.keys() {
            cluster.remove_node(name);
        }
        for (namespace, name) in self.pods.keys() {
            cluster.remove_pod(namespace, name);
        }
        let mut nodes: Vec<_> = self.nodes.values().collect();
        let mut pods: Vec<_> = self.pods.values().collect();
        self.dice.shuffle(&mut nodes);
        self.dice.shuffle(&mut pods);
        for pod in pods {
            cluster.set_pod(pod).unwrap();
        }
        for node in nodes {
            cluster.set_node(node).unwrap();
        }
        cluster
    }
}

fn assert_not_overcommitted(cluster: &Cluster) -> Result<(), TestCaseError> {
    for name in cluster.node_names() {
        let usage = cluster.usage(&name).unwrap();
        for resource in ["cpu", "memory", "example.com/gpu"] {
            let (used, all) = (usage.requested.get(resource), usage.allocatable.get(resource));
            prop_assert!(used <= all, "{name}: {used} of {all} {resource}");
        }
        prop_assert!(usage.pods <= usage.allowed_pods, "{name}: {} of {} pods", usage.pods, usage.allowed_pods);
    }
    Ok(())
}

/// Takes the cause of a reason away, and nothing else.
fn remedy(reason: &Reason, pod: &mut Pod, node: &mut Node, cluster: &mut Cluster) {
    let spec = pod.spec.as_mut().unwrap();
    let node_spec = node.spec.get_or_insert_default();
    let allocatable = node.status.get_or_insert_default().allocatable.get_or_insert_default();
    match reason {
        Reason::Unschedulable => node_spec.unschedulable = Some(false),
        Reason::UntoleratedTaints { taints } => {
            for taint in taints {
                let toleration = json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
                spec.tolerations.get_or_insert_default().push(read(&toleration));
            }
        }
        Reason::NodeSelector { key, wanted, .. } => {
            node.metadata.labels.get_or_insert_default().insert(key.clone(), wanted.clone());
        }
        Reason::NodeAffinity { .. } => {
            spec.affinity
                .as_mut()
                .unwrap()
                .node_affinity
                .as_mut()
                .unwrap()
                .required_during_scheduling_ignored_during_execution = None;
        }
        Reason::HostPort { .. } => {
            for container in &mut spec.containers {
                container.ports = None;
            }
        }
        Reason::TooManyPods { pods, .. } => {
            allocatable.insert("pods".to_owned(), quantity::Quantity::from_units(pods + 1).into());
        }
        Reason::Insufficient { resource, allocatable: all, .. } => {
            let missing = reason.shortage().unwrap();
            let enough = quantity::Quantity::of_resource(resource, *all) + missing;
            allocatable.insert(resource.clone(), enough.into());
        }
        Reason::SpreadMissingLabel { constraint, .. } | Reason::Spread { constraint, .. } => {
            spec.topology_spread_constraints.as_mut().unwrap()[*constraint].when_unsatisfiable =
                "ScheduleAnyway".to_owned();
        }
        Reason::PodAffinity { term, .. } => {
            let affinity = spec.affinity.as_mut().unwrap().pod_affinity.as_mut().unwrap();
            affinity.required_during_scheduling_ignored_during_execution.as_mut().unwrap().remove(*term);
        }
        Reason::PodAntiAffinity { term, .. } => {
            let affinity = spec.affinity.as_mut().unwrap().pod_anti_affinity.as_mut().unwrap();
            affinity.required_during_scheduling_ignored_during_execution.as_mut().unwrap().remove(*term);
        }
        Reason::ExistingAntiAffinity { pod, .. } => {
            let pod = pod.as_ref().unwrap();
            assert!(cluster.remove_pod(&pod.namespace, &pod.name).is_some(), "{pod} is not there");
        }
        other => panic!("unexpected reason {other:?}"),
    }
}

/// Few cases keep the suite quick; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases: 64, ..config } }
}

proptest! {
    #![proptest_config(config())]

    /// Nodes never hold more than they offer, the fast path decides as the full one, and neither depends on what was
    /// asked before or on the order in which the cluster came about.
    #[test]
    fn decisions_are_sound_and_repeatable(seed in any::<u64>(), steps in 1..40_usize) {
        let mut world = World::new(seed);
        let mut disturbed = false;
        for _ in 0..steps {
            if world.dice.one_in(3) {
                // Shrinking a node can overcommit it; scheduling cannot.
                world.disturb();
                disturbed = true;
            }
            let pod = world.new_pod();
            let decision = world.cluster.schedule(&pod).unwrap();
            let attempt = world.cluster.attempt(&pod).unwrap();
            prop_assert_eq!(&decision, &attempt.decision, "fast and full path");
            let mut fresh = world.cluster.clone();
            prop_assert_eq!(&fresh.schedule(&pod).unwrap(), &decision, "warm and cold caches");
            let mut rebuilt = world.rebuilt();
            prop_assert_eq!(&rebuilt.attempt(&pod).unwrap(), &attempt, "another order");
            prop_assert_eq!(&rebuilt.schedule(&pod).unwrap(), &decision, "another order, fast path");
            world.perform(pod, &decision);
            if !disturbed {
                assert_not_overcommitted(&world.cluster)?;
            }
        }
    }

    /// Every reason is true: with its cause taken away it is gone, and with all causes taken away the node is admitted.
    #[test]
    fn reasons_are_true(seed in any::<u64>(), steps in 1..25_usize) {
        let mut world = World::new(seed);
        for _ in 0..steps {
            let pod = world.new_pod();
            let decision = world.cluster.schedule(&pod).unwrap();
            if decision.outcome.node().is_some() {
                world.perform(pod, &decision);
                continue;
            }
            for (name, mut node) in world.nodes.clone() {
                let mut cluster = world.cluster.clone();
                let mut pod = pod.clone();
                for _ in 0..100 {
                    let reasons = cluster.evaluate(&pod, &name).unwrap().unwrap();
                    let Some(reason) = reasons.first() else { break };
                    if let Reason::Insufficient { resource, .. } = reason {
                        let mut less = node.clone();
                        let mut other = cluster.clone();
                        remedy(reason, &mut pod.clone(), &mut less, &mut other);
                        let amounts = less.status.as_mut().unwrap().allocatable.as_mut().unwrap();
                        let enough = quantity::Quantity::try_from(&amounts[resource]).unwrap().base_units(resource);
                        amounts.insert(resource.clone(), quantity::Quantity::of_resource(resource, enough - 1).into());
                        other.set_node(&less).unwrap();
                        let still = other.evaluate(&pod, &name).unwrap().unwrap();
                        prop_assert!(still.iter().any(|r| r.to_string() == reason.to_string()), "{reason:?} is too much");
                    }
                    remedy(reason, &mut pod, &mut node, &mut cluster);
                    cluster.set_node(&node).unwrap();
                    let left = cluster.evaluate(&pod, &name).unwrap().unwrap();
                    prop_assert!(!left.contains(reason), "{reason:?} is still there");
                }
                let attempt = cluster.attempt(&pod).unwrap();
                prop_assert!(attempt.feasible().any(|feasible| **feasible == *name), "{name} is not admitted");
            }
        }
    }

    /// The verdict is that of the first filter that has reasons at all, and all its reasons are among those of
    /// `evaluate`, which asks every filter by itself.
    #[test]
    fn verdicts_and_evaluations_agree(seed in any::<u64>(), steps in 1..25_usize) {
        let mut world = World::new(seed);
        for _ in 0..steps {
            let pod = world.new_pod();
            let attempt = world.cluster.attempt(&pod).unwrap();
            let all = world.cluster.evaluate_all(&pod).unwrap();
            for verdict in &attempt.nodes {
                let reasons = &all[&verdict.node];
                prop_assert_eq!(&world.cluster.evaluate(&pod, &verdict.node).unwrap().unwrap(), reasons);
                prop_assert_eq!(verdict.rejection.is_none(), reasons.is_empty());
                if let Some(rejection) = &verdict.rejection {
                    let first = reasons.iter().map(Reason::plugin).min();
                    prop_assert_eq!(rejection.plugin, first);
                    prop_assert!(rejection.reasons.iter().all(|reason| reasons.contains(reason)));
                }
            }
            world.perform(pod, &attempt.decision);
        }
    }
}
