//! Pure: what a live node has, compared with what it is to be, and the patch that mends what the API can mend.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::desired::Desired;
use klab_cluster::clock::later;
use klab_lab::names::DECLARED_ANNOTATION;
use klab_lab::plan::{Declared, is_system_taint, taint_text};
use klab_scheduler::quantity::Quantity;

/// One thing in which a node is not what it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    /// A label or annotation.
    Metadata(String),
    /// A taint.
    Taint(String),
    /// An extended resource.
    Extended(String),
    /// Capacity or allocatable, which its kubelet decides.
    Size(String),
}

impl Difference {
    /// Whether a change through the API mends it.
    pub(super) fn is_mended_by_api(&self) -> bool {
        !matches!(self, Self::Size(_))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata(words) | Self::Taint(words) | Self::Extended(words) | Self::Size(words) => {
                formatter.write_str(words)
            }
        }
    }
}

/// Whether its kubelet has posted the node's status since a moment. Its times are whole seconds.
pub(super) fn has_reported_since(node: &Node, moment: Timestamp) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|one| one.type_ == "Ready"));
    let heartbeat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref());
    heartbeat.is_some_and(|time| later(time.0, SignedDuration::from_secs(1)) > moment)
}

/// Why a node is not Ready, in its kubelet's words.
pub(super) fn readiness(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|one| one.type_ == "Ready"));
    match ready {
        Some(condition) => condition.message.clone().unwrap_or_else(|| "not Ready".to_owned()),
        None => "not Ready yet".to_owned(),
    }
}

/// The node's taints but for those of the system.
pub(super) fn own_taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    taints.into_iter().filter(|taint| !is_own(taint)).collect()
}

/// The spot taint is one that klab puts on here, as no cloud does.
fn is_own(taint: &Taint) -> bool {
    is_system_taint(taint) && !taint.key.starts_with("kubernetes.azure.com/")
}

fn amount(list: Option<&BTreeMap<String, ApiQuantity>>, resource: &str) -> Option<Quantity> {
    list?.get(resource).and_then(|quantity| Quantity::parse(&quantity.0).ok())
}

/// What keeps other pods, and load balancers, from a control plane.
const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";
const NO_BALANCER_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// The patch that gives a control plane its taint and its label back; none where it has the taint.
pub(super) fn control_plane_patch(node: &Node) -> Option<Value> {
    let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    if taints.iter().any(|taint| taint.key == CONTROL_PLANE_TAINT) {
        return None;
    }
    taints.push(Taint {
        key: CONTROL_PLANE_TAINT.to_owned(),
        value: None,
        effect: "NoSchedule".to_owned(),
        time_added: None,
    });
    Some(json!({ "metadata": { "labels": { NO_BALANCER_LABEL: "" } }, "spec": { "taints": taints } }))
}

/// Everything in which a node is not what it is to be.
pub(super) fn differences(node: &Node, desired: &Desired) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (key, value) in &desired.labels {
        match node.labels().get(key) {
            Some(has) if has == value => {}
            Some(has) => differences.push(Difference::Metadata(format!("label {key} is {has}, not {value}"))),
            None => differences.push(Difference::Metadata(format!("no label {key}={value}"))),
        }
    }
    for (key, value) in &desired.annotations {
        if node.annotations().get(key) != Some(value) {
            differences.push(Difference::Metadata(format!("annotation {key} differs")));
        }
    }
    let words = |taints: &[Taint]| taints.iter().map(taint_text).collect::<Vec<_>>();
    let (has, wanted) = (words(&own_taints(node)), words(&desired.taints));
    for taint in wanted.iter().filter(|taint| !has.contains(taint)) {
        differences.push(Difference::Taint(format!("no taint {taint}")));
    }
    for taint in has.iter().filter(|taint| !wanted.contains(taint)) {
        differences.push(Difference::Taint(format!("taint {taint}, which is not declared")));
    }
    let status = node.status.as_ref();
    let capacity = status.and_then(|status| status.capacity.as_ref());
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    for (resource, count) in &desired.extended {
        let has = amount(allocatable, resource).map_or(0, Quantity::units);
        if u64::try_from(has).ok() != Some(*count) {
            differences.push(Difference::Extended(format!("{resource} is {has}, not {count}")));
        }
    }
    size_differences(capacity, allocatable, desired, &mut differences);
    differences
}

type Resources<'a> = Option<&'a BTreeMap<String, ApiQuantity>>;

fn size_differences(
    capacity: Resources<'_>,
    allocatable: Resources<'_>,
    desired: &Desired,
    into: &mut Vec<Difference>,
) {
    let sizing = &desired.sizing;
    let mut compare = |what: &str, has: Option<i64>, wanted: u64, unit: &str| {
        if has.and_then(|has| u64::try_from(has).ok()) != Some(wanted) {
            let has = has.map_or_else(|| "nothing".to_owned(), |has| format!("{has}{unit}"));
            into.push(Difference::Size(format!("{what} is {has}, not {wanted}{unit}")));
        }
    };
    if sizing.files {
        compare("CPU capacity", amount(capacity, "cpu").map(Quantity::millis), u64::from(sizing.cpus) * 1000, "m");
        compare("memory capacity", amount(capacity, "memory").map(Quantity::units), sizing.memory, " bytes");
    }
    compare("allocatable CPU", amount(allocatable, "cpu").map(Quantity::millis), sizing.allocatable_cpu_millis, "m");
    // Huge pages that this machine sets aside are not the pods'.
    let huge: i64 = capacity
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("hugepages-"))
        .filter_map(|(_, quantity)| Quantity::parse(&quantity.0).ok())
        .map(Quantity::units)
        .sum();
    let memory = amount(allocatable, "memory").map(|memory| memory.units() + huge);
    compare("allocatable memory", memory, sizing.allocatable_memory, " bytes");
    compare("number of pods", amount(allocatable, "pods").map(Quantity::units), u64::from(sizing.max_pods), "");
}

/// The patch of metadata and taints that makes a node what it is to be; labels and annotations that were declared before
/// and are not any more are taken off.
pub(super) fn patch(node: &Node, desired: &Desired) -> Value {
    let before: Declared = node
        .annotations()
        .get(DECLARED_ANNOTATION)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let mut labels: Map<String, Value> = before
        .labels
        .keys()
        .filter(|key| node.labels().contains_key(*key))
        .map(|key| (key.clone(), Value::Null))
        .collect();
    labels.extend(desired.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    let annotations: Map<String, Value> =
        desired.annotations.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let mut taints = desired.taints.clone();
    taints
        .extend(node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).filter(|taint| is_own(taint)).cloned());
    json!({
        "metadata": { "labels": labels, "annotations": annotations },
        "spec": { "taints": taints },
    })
}

/// The patch of a node's status that gives it its extended resources and takes off those it is not to have any more.
pub(super) fn status_patch(node: &Node, desired: &Desired) -> Option<Value> {
    let capacity = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let native = |name: &str| !name.contains('/');
    let mut resources: Map<String, Value> = capacity
        .into_iter()
        .flatten()
        .filter(|(name, _)| !native(name) && !desired.extended.contains_key(*name))
        .map(|(name, _)| (name.clone(), Value::Null))
        .collect();
    resources.extend(desired.extended.iter().map(|(name, count)| (name.clone(), count.to_string().into())));
    (!resources.is_empty()).then(|| json!({ "status": { "capacity": resources, "allocatable": resources } }))
}

#[cfg(test)]
mod tests {
    use super::super::machine::Sizing;
    use super::*;

    fn desired() -> Desired {
        Desired {
            labels: BTreeMap::from([("agentpool".to_owned(), "extra".to_owned())]),
            annotations: BTreeMap::from([(DECLARED_ANNOTATION.to_owned(), "{}".to_owned())]),
            taints: vec![Taint {
                key: "dedicated".to_owned(),
                value: Some("special".to_owned()),
                effect: "NoSchedule".to_owned(),
                time_added: None,
            }],
            sizing: Sizing {
                cpus: 2,
                memory: 8 << 30,
                allocatable_cpu_millis: 1900,
                allocatable_memory: (6 << 30) - (100 << 20),
                max_pods: 250,
                files: true,
            },
            extended: BTreeMap::from([("nvidia.com/gpu".to_owned(), 1)]),
        }
    }

    fn node(change: impl FnOnce(&mut Value)) -> Node {
        let mut node = json!({
            "metadata": {
                "name": "klab-x-worker",
                "labels": { "agentpool": "extra", "kubernetes.io/hostname": "klab-x-worker" },
                "annotations": { DECLARED_ANNOTATION: "{}" },
            },
            "spec": { "taints": [
                { "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" },
                { "key": "dedicated", "value": "special", "effect": "NoSchedule" },
            ] },
            "status": {
                "capacity": { "cpu": "2", "memory": "8388608Ki", "pods": "250", "nvidia.com/gpu": "1", "hugepages-2Mi": "0" },
                "allocatable": { "cpu": "1900m", "memory": "6189056Ki", "pods": "250", "nvidia.com/gpu": "1" },
                "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null }],
            },
        });
        change(&mut node);
        serde_json::from_value(node).unwrap()
    }

    fn words(node: &Node) -> Vec<String> {
        differences(node, &desired()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn node_as_wanted_has_no_difference() {
        let node = node(|_| {});
        assert_eq!(words(&node), Vec::<String>::new());
        assert!(klab_lab::verify::is_ready(&node));
    }

    #[test]
    fn what_a_kubelet_said_before_its_node_was_stopped_does_not_count() {
        let started = "2026-08-21T10:00:05.7Z".parse().unwrap();
        for (heartbeat, expected) in [
            (json!("2026-08-21T10:00:04Z"), false),
            (json!("2026-08-21T10:00:05Z"), true),
            (json!("2026-08-21T10:00:09Z"), true),
            (Value::Null, false),
        ] {
            let node = node(|node| node["status"]["conditions"][0]["lastHeartbeatTime"] = heartbeat.clone());
            assert_eq!(has_reported_since(&node, started), expected, "{heartbeat}");
        }
    }

    #[test]
    fn every_difference_is_found_and_it_is_known_what_mends_it() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str, bool); 8] = [
            (
                |node| node["metadata"]["labels"]["agentpool"] = "other".into(),
                "label agentpool is other, not extra",
                true,
            ),
            (|node| node["metadata"]["labels"] = json!({}), "no label agentpool=extra", true),
            (|node| node["spec"]["taints"] = json!([]), "no taint dedicated=special:NoSchedule", true),
            (
                |node| {
                    node["spec"]["taints"].as_array_mut().unwrap().push(json!({ "key": "x", "effect": "NoExecute" }));
                },
                "taint x:NoExecute, which is not declared",
                true,
            ),
            (|node| node["status"]["allocatable"]["nvidia.com/gpu"] = "0".into(), "nvidia.com/gpu is 0, not 1", true),
            (|node| node["status"]["capacity"]["cpu"] = "4".into(), "CPU capacity is 4000m, not 2000m", false),
            (|node| node["status"]["allocatable"]["pods"] = "110".into(), "number of pods is 110, not 250", false),
            (
                |node| node["status"]["allocatable"]["memory"] = "8388608Ki".into(),
                "allocatable memory is 8589934592 bytes, not 6337593344 bytes",
                false,
            ),
        ];
        for (change, expected, mended) in cases {
            let found = differences(&node(change), &desired());
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
            assert_eq!(found[0].is_mended_by_api(), mended, "{expected}");
        }
    }

    #[test]
    fn huge_pages_of_the_machine_are_not_missed() {
        let node = node(|node| {
            node["status"]["capacity"]["hugepages-2Mi"] = "64Mi".into();
            node["status"]["allocatable"]["memory"] = "6123520Ki".into();
        });
        assert_eq!(words(&node), Vec::<String>::new());
    }

    #[test]
    fn patch_takes_off_what_is_declared_no_more_and_leaves_the_systems_taints() {
        let declared = Declared { labels: BTreeMap::from([("old".to_owned(), "x".to_owned())]), ..Declared::default() };
        let node = node(|node| {
            node["metadata"]["labels"]["old"] = "x".into();
            node["metadata"]["annotations"][DECLARED_ANNOTATION] = serde_json::to_string(&declared).unwrap().into();
        });
        let patch = patch(&node, &desired());
        assert_eq!(patch["metadata"]["labels"], json!({ "old": null, "agentpool": "extra" }));
        let keys: Vec<_> = patch["spec"]["taints"].as_array().unwrap().iter().map(|taint| &taint["key"]).collect();
        assert_eq!(keys, ["dedicated", "node.kubernetes.io/not-ready"]);
    }

    #[test]
    fn status_patch_removes_extended_resources_that_are_gone() {
        let node = node(|node| node["status"]["capacity"]["example.com/old"] = "2".into());
        assert_eq!(
            status_patch(&node, &desired()).unwrap()["status"]["capacity"],
            json!({ "example.com/old": null, "nvidia.com/gpu": "1" })
        );
        let plain = Desired { extended: BTreeMap::new(), ..desired() };
        let bare = super::tests::node(|node| node["status"]["capacity"] = json!({ "cpu": "2" }));
        assert_eq!(status_patch(&bare, &plain), None);
    }
}
