//! What the API server does to a new pod before the scheduler sees it, as far as it changes placement.

// upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go Admit (v1.36)
// upstream: plugin/pkg/admission/priority/admission.go admitPod (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodAffinityTerm, PodSpec, ResourceRequirements, Toleration};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::error::ObjectError;
use super::resources::{container_limits, container_requests, is_huge_pages, is_pod_level_resource};
use super::selector::Labels;

/// Completes a new pod: default requests, host ports, protocols, selectors from `matchLabelKeys`, and the tolerations
/// for nodes that are not ready. Doing it again changes nothing, except that label keys are merged only once by the API
/// server: call it for new pods, not for pods read back.
pub fn admit(pod: &mut Pod) -> Result<(), ObjectError> {
    default_resources(pod)?;
    if let Some(spec) = pod.spec.as_mut() {
        default_ports(spec);
        let none = Labels::new();
        merge_label_keys(spec, pod.metadata.labels.as_ref().unwrap_or(&none));
        tolerate_unready_nodes(spec);
    }
    Ok(())
}

/// Limits become requests where there are none; pod-level amounts are filled in.
pub fn default_resources(pod: &mut Pod) -> Result<(), ObjectError> {
    let Some(spec) = pod.spec.as_mut() else { return Ok(()) };
    for container in containers(spec) {
        if let Some(resources) = container.resources.as_mut() {
            requests_from_limits(resources);
        }
    }
    default_pod_resources(pod)
}

/// Fills in the pod-level amounts of a pod that gives some of them: huge pages are limited as the containers' are together,
/// and what containers request together is requested, else the limit.
// upstream: pkg/apis/core/v1/defaults.go defaultHugePagePodLimits, defaultPodRequests (v1.36)
pub fn default_pod_resources(pod: &mut Pod) -> Result<(), ObjectError> {
    let given = |list: Option<&BTreeMap<String, ApiQuantity>>| list.is_some_and(|list| !list.is_empty());
    let resources = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    if !resources.is_some_and(|it| given(it.limits.as_ref()) || given(it.requests.as_ref())) {
        return Ok(());
    }
    let (requested, limited) = (container_requests(pod)?, container_limits(pod)?);
    let Some(resources) = pod.spec.as_mut().and_then(|spec| spec.resources.as_mut()) else { return Ok(()) };
    let requests = resources.requests.get_or_insert_with(BTreeMap::new);
    let limits = resources.limits.get_or_insert_with(BTreeMap::new);
    for (name, amount) in limited.into_iter().filter(|(name, _)| is_huge_pages(name) && !requests.contains_key(name)) {
        limits.entry(name).or_insert_with(|| ApiQuantity::from(amount));
    }
    if !limits.is_empty() {
        let overcommits = |name: &str| is_pod_level_resource(name) && !is_huge_pages(name);
        for (name, amount) in requested.into_iter().filter(|(name, _)| overcommits(name)) {
            requests.entry(name).or_insert_with(|| ApiQuantity::from(amount));
        }
        for (name, amount) in limits.iter().filter(|(name, _)| is_pod_level_resource(name)) {
            requests.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }
    resources.requests = resources.requests.take().filter(|list| !list.is_empty());
    resources.limits = resources.limits.take().filter(|list| !list.is_empty());
    Ok(())
}

fn requests_from_limits(resources: &mut ResourceRequirements) {
    let Some(limits) = resources.limits.as_ref().filter(|limits| !limits.is_empty()) else { return };
    let requests = resources.requests.get_or_insert_with(BTreeMap::new);
    for (name, amount) in limits {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
}

fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten())
}

fn default_ports(spec: &mut PodSpec) {
    let host_network = spec.host_network.unwrap_or(false);
    for port in containers(spec).flat_map(|container| container.ports.iter_mut().flatten()) {
        port.protocol.get_or_insert_with(|| "TCP".to_owned());
        if host_network && port.host_port.unwrap_or(0) == 0 {
            port.host_port = Some(port.container_port);
        }
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` become conditions of the selector, with the pod's own values.
fn merge_label_keys(spec: &mut PodSpec, labels: &Labels) {
    for constraint in spec.topology_spread_constraints.iter_mut().flatten() {
        merge(constraint.label_selector.as_mut(), constraint.match_label_keys.as_deref(), "In", labels);
    }
    for term in affinity_terms(spec) {
        merge(term.label_selector.as_mut(), term.match_label_keys.as_deref(), "In", labels);
        merge(term.label_selector.as_mut(), term.mismatch_label_keys.as_deref(), "NotIn", labels);
    }
}

fn affinity_terms(spec: &mut PodSpec) -> impl Iterator<Item = &mut PodAffinityTerm> {
    let affinity = spec.affinity.as_mut();
    let (with, apart) =
        affinity.map_or((None, None), |affinity| (affinity.pod_affinity.as_mut(), affinity.pod_anti_affinity.as_mut()));
    let with = with.into_iter().flat_map(|affinity| {
        let required = affinity.required_during_scheduling_ignored_during_execution.iter_mut().flatten();
        let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter_mut().flatten();
        required.chain(preferred.map(|term| &mut term.pod_affinity_term))
    });
    let apart = apart.into_iter().flat_map(|affinity| {
        let required = affinity.required_during_scheduling_ignored_during_execution.iter_mut().flatten();
        let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter_mut().flatten();
        required.chain(preferred.map(|term| &mut term.pod_affinity_term))
    });
    with.chain(apart)
}

/// Adds the conditions that keys stand for to a selector that does not have them.
pub(crate) fn merge(selector: Option<&mut LabelSelector>, keys: Option<&[String]>, operator: &str, labels: &Labels) {
    let Some(selector) = selector else { return };
    for key in keys.into_iter().flatten() {
        let Some(value) = labels.get(key) else { continue };
        let requirement = LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![value.clone()]),
        };
        let expressions = selector.match_expressions.get_or_insert_with(Vec::new);
        if !expressions.contains(&requirement) {
            expressions.push(requirement);
        }
    }
}

/// How long a pod stays on a node that is not ready or not reachable, in seconds.
const TOLERATION_SECONDS: i64 = 300;

fn tolerate_unready_nodes(spec: &mut PodSpec) {
    let tolerations = spec.tolerations.get_or_insert_with(Vec::new);
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let present = tolerations.iter().any(|toleration| {
            let matches = |value: &Option<String>, wanted| value.as_deref().unwrap_or("") == wanted;
            (matches(&toleration.key, key) || matches(&toleration.key, ""))
                && (matches(&toleration.effect, "NoExecute") || matches(&toleration.effect, ""))
        });
        if !present {
            tolerations.push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some("NoExecute".to_owned()),
                toleration_seconds: Some(TOLERATION_SECONDS),
                value: None,
            });
        }
    }
}

/// What a pod gets from its PriorityClass: priority and preemption policy.
pub fn apply_priority_class(pod: &mut Pod, class: &PriorityClass) {
    let Some(spec) = pod.spec.as_mut() else { return };
    spec.priority_class_name.clone_from(&class.metadata.name);
    spec.priority = class.value.or(Some(0));
    if let Some(policy) = class.preemption_policy.as_ref() {
        spec.preemption_policy = Some(policy.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn admitted(spec: Value, labels: Value) -> Value {
        let object = json!({"metadata": {"name": "p", "labels": labels}, "spec": spec});
        let mut pod: Pod = serde_json::from_value(object).unwrap();
        admit(&mut pod).unwrap();
        let once = pod.clone();
        admit(&mut pod).unwrap();
        assert_eq!(pod, once, "admitting twice changes nothing");
        serde_json::to_value(pod).unwrap()["spec"].take()
    }

    #[test]
    fn limits_become_requests_container_by_container() {
        let limits = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
        let spec = admitted(json!({"containers": [{"name": "c", "resources": limits}]}), json!({}));
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    }

    #[test]
    fn pod_level_requests_come_from_the_containers_else_from_the_limits() {
        let spec = json!({
            "resources": {"limits": {"cpu": "2", "memory": "2Gi"}},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "300m"}}},
                {"name": "b", "resources": {"requests": {"cpu": "0.4"}}}],
        });
        let spec = admitted(spec, json!({}));
        assert_eq!(spec["resources"]["requests"], json!({"cpu": "700m", "memory": "2Gi"}));
    }

    #[test]
    fn pod_level_amounts_are_filled_in_where_any_are_given() {
        let container = |requests: Value, limits: Value| json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
        let plain = container(json!({"memory": "1Gi"}), json!({}));
        let huge = container(json!({"cpu": "1"}), json!({"hugepages-2Mi": "4Mi"}));
        for (resources, container, wanted) in [
            // A limit is the request where no container requests anything.
            (json!({"limits": {"memory": "9Gi", "cpu": "2"}}), &plain, json!({"cpu": "2", "memory": "1Gi"})),
            (json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}), &plain, json!({"cpu": "1", "memory": "1Gi"})),
            // Without a limit the containers' requests count as they are.
            (json!({"requests": {"cpu": "1"}}), &plain, json!({"cpu": "1"})),
            (
                json!({"requests": {"memory": "1Gi"}}),
                &huge,
                json!({"cpu": "1", "hugepages-2Mi": "4Mi", "memory": "1Gi"}),
            ),
            (json!({}), &huge, Value::Null),
        ] {
            let spec = admitted(json!({"resources": resources.clone(), "containers": [container]}), json!({}));
            assert_eq!(spec["resources"]["requests"], wanted, "{resources}");
        }
    }

    #[test]
    fn host_network_takes_the_container_ports() {
        let container =
            json!({"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]});
        let spec = admitted(json!({"hostNetwork": true, "containers": [container]}), json!({}));
        let ports = json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
            {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]);
        assert_eq!(spec["containers"][0]["ports"], ports);
    }

    #[test]
    fn label_keys_join_the_selector_unless_the_pod_lacks_them() {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["hash", "missing"]});
        let term = json!({"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["hash"]});
        let spec = json!({"containers": [], "topologySpreadConstraints": [constraint],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
        let spec = admitted(spec, json!({"app": "web", "hash": "1"}));
        let expression = |operator: &str| json!([{"key": "hash", "operator": operator, "values": ["1"]}]);
        let spread = &spec["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"];
        assert_eq!(*spread, expression("In"));
        let term = &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(term["labelSelector"]["matchExpressions"], expression("NotIn"));
    }

    #[test]
    fn nodes_that_are_not_ready_are_tolerated_for_a_while_unless_the_pod_says_otherwise() {
        let spec = admitted(json!({"containers": []}), json!({}));
        let keys: Vec<_> = spec["tolerations"].as_array().unwrap().iter().map(|t| t["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
        assert_eq!(spec["tolerations"][0]["tolerationSeconds"], 300);
        let all = json!([{"operator": "Exists"}]);
        assert_eq!(admitted(json!({"containers": [], "tolerations": all}), json!({}))["tolerations"], all);
    }

    #[test]
    fn classes_give_priority() {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": []}})).unwrap();
        let priority = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
        apply_priority_class(&mut pod, &serde_json::from_value(priority).unwrap());
        let spec = serde_json::to_value(&pod).unwrap()["spec"].take();
        assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&json!(1000), &json!("Never")));
    }
}
