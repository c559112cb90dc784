//! A capture under other names: its structure stays, and what people chose as names, labels and values goes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::capture::Capture;
use crate::captured::Captured;

/// Fields whose texts are words of Kubernetes, times or versions.
const KEPT_FIELDS: &[&str] = &[
    "$patch",
    "accessModes",
    "apiVersion",
    "architecture",
    "completionMode",
    "completedIndexes",
    "conditions",
    "creationTimestamp",
    "effect",
    "finalizers",
    "hostIP",
    "kind",
    "kubeletVersion",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "operatingSystem",
    "operator",
    "os",
    "persistentVolumeClaimRetentionPolicy",
    "persistentVolumeReclaimPolicy",
    "phase",
    "podManagementPolicy",
    "preemptionPolicy",
    "protocol",
    "qosClass",
    "reclaimPolicy",
    "restartPolicy",
    "scopes",
    "startTime",
    "type",
    "unhealthyPodEvictionPolicy",
    "volumeBindingMode",
    "volumeMode",
    "whenUnsatisfiable",
];
/// Fields that hold amounts by the name of a resource.
const AMOUNTS: [&str; 7] = ["allocatable", "capacity", "hard", "limits", "podFixed", "requests", "used"];
/// Fields that hold values by the key of a label.
const LABELS: [&str; 5] = ["annotations", "labels", "matchLabels", "nodeSelector", "selector"];
/// Fields whose texts are keys of labels or taints.
const KEYS: [&str; 4] = ["key", "matchLabelKeys", "mismatchLabelKeys", "topologyKey"];
/// Prefixes of keys that Kubernetes, clouds and their tools give.
const KNOWN: [&str; 9] = [
    "kubernetes.io",
    "k8s.io",
    "klab.dev",
    "azure.com",
    "amazonaws.com",
    "google.com",
    "karpenter.sh",
    "nvidia.com",
    "amd.com",
];
/// Keys without a prefix that are theirs.
const KNOWN_KEYS: [&str; 5] =
    ["agentpool", "controller-revision-hash", "metadata.name", "pod-template-generation", "pod-template-hash"];
/// Keys whose values say what a machine is and where it is.
const KEPT_VALUES: [&str; 10] = [
    "klab.dev/captured-autoscaler-bounds",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "kubernetes.azure.com/mode",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Names that every cluster has.
const KEPT_NAMES: [&str; 7] = [
    "default",
    "default-scheduler",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "system-cluster-critical",
    "system-node-critical",
];
/// Kinds whose expressions name what they select in a language of their own: they are left out.
const LEFT_OUT: [&str; 4] = ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"];

/// Fields that refer to those.
const CLAIMS: [&str; 3] = ["claims", "resourceClaimStatuses", "resourceClaims"];

/// A capture under other names, and how many objects are left out because they name things in expressions.
pub fn redacted(capture: &Capture) -> (Capture, usize) {
    let kept = |object: &&Captured| !LEFT_OUT.contains(&object.kind.kind);
    let objects: Vec<&Captured> = capture.objects.iter().filter(kept).collect();
    let mut names = Names::default();
    for set in capture.of("StatefulSet") {
        names.sets.insert(set.name.to_string());
        let set = set.value();
        let templates = set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
        names
            .templates
            .extend(templates.filter_map(|template| template["metadata"]["name"].as_str().map(str::to_owned)));
    }
    // The first pass finds the names, the second writes others: in the same order, so that ties by name end alike.
    for object in &objects {
        names.value("", &object.value());
    }
    names.number();
    let mut redacted = Capture { version: capture.version.clone(), gaps: capture.gaps.clone(), ..Capture::default() };
    for gap in &mut redacted.gaps {
        gap.namespace = gap.namespace.as_deref().map(|name| names.name(name));
    }
    redacted.objects =
        objects.iter().map(|object| Captured::of(object.kind, &names.value("", &object.value()))).collect();
    redacted.finish();
    (redacted, capture.objects.len() - objects.len())
}

/// The names of a capture, and what each becomes.
#[derive(Default)]
struct Names {
    found: BTreeSet<String>,
    given: BTreeMap<String, String>,
    /// StatefulSets, whose pods are called after them.
    sets: BTreeSet<String>,
    /// Their claims' templates.
    templates: BTreeSet<String>,
}

impl Names {
    fn number(&mut self) {
        let width = self.found.len().to_string().len();
        let numbered = self.found.iter().enumerate();
        self.given = numbered.map(|(number, name)| (name.clone(), format!("r{number:0width$}"))).collect();
    }

    /// What a name becomes.
    fn name(&mut self, name: &str) -> String {
        let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'%');
        if name.is_empty() || is_number || matches!(name, "true" | "false") || KEPT_NAMES.contains(&name) {
            return name.to_owned();
        }
        // `web-0`, and `data-web-0`.
        if let Some((of_set, ordinal)) = name.rsplit_once('-').filter(|(_, ordinal)| ordinal.parse::<u32>().is_ok()) {
            if self.sets.contains(of_set) {
                return format!("{}-{ordinal}", self.name(of_set));
            }
            let claim = self.templates.iter().find_map(|template| {
                let set = of_set.strip_prefix(template.as_str())?.strip_prefix('-')?;
                self.sets.contains(set).then(|| (template.clone(), set.to_owned()))
            });
            if let Some((template, set)) = claim {
                return format!("{}-{}-{ordinal}", self.name(&template), self.name(&set));
            }
        }
        if let Some(given) = self.given.get(name) {
            return given.clone();
        }
        self.found.insert(name.to_owned());
        name.to_owned()
    }

    /// What a key of labels, taints or resources becomes.
    fn key(&mut self, key: &str) -> String {
        let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
        let is_known = KNOWN.iter().any(|known| prefix == *known || prefix.ends_with(&format!(".{known}")));
        if is_known || KNOWN_KEYS.contains(&key) { key.to_owned() } else { self.name(key) }
    }

    fn value(&mut self, field: &str, value: &Value) -> Value {
        match value {
            _ if KEPT_FIELDS.contains(&field) => value.clone(),
            Value::String(text) if KEYS.contains(&field) => self.key(text).into(),
            Value::String(text) => self.name(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(field, item)).collect(),
            Value::Object(fields) if is_expression(fields) => self.expression(fields),
            Value::Object(fields) => {
                let one = |(key, value): (&String, &Value)| {
                    let is_text = value.is_string();
                    match field {
                        _ if AMOUNTS.contains(&field) && is_text => {
                            let resource = if key.contains('/') { self.key(key) } else { key.clone() };
                            (resource, value.clone())
                        }
                        _ if LABELS.contains(&field) && is_text => {
                            let kept = KEPT_VALUES.contains(&key.as_str());
                            (self.key(key), if kept { value.clone() } else { self.value("", value) })
                        }
                        _ => (key.clone(), self.value(key, value)),
                    }
                };
                let kept = fields.iter().filter(|(key, _)| !CLAIMS.contains(&key.as_str()));
                Value::Object(kept.map(one).collect())
            }
            other => other.clone(),
        }
    }

    /// A requirement on labels: values of keys that say what a machine is stay.
    fn expression(&mut self, fields: &Map<String, Value>) -> Value {
        let keeps = fields["key"].as_str().is_some_and(|key| KEPT_VALUES.contains(&key));
        let one = |(key, value): (&String, &Value)| {
            let value = if keeps && matches!(key.as_str(), "values" | "value") {
                value.clone()
            } else {
                self.value(key, value)
            };
            (key.clone(), value)
        };
        Value::Object(fields.iter().map(one).collect())
    }
}

fn is_expression(fields: &Map<String, Value>) -> bool {
    fields.get("key").is_some_and(Value::is_string)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Kind;

    #[test]
    fn names_go_and_what_they_hold_together_stays() {
        let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
            "matchExpressions": [
                { "key": "acme/secret-disk", "operator": "In", "values": ["secret-ssd"] },
                { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["westeurope-1"] },
            ],
        }] } } });
        let mut capture = Capture::default();
        for object in [
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": "secret-db-0", "namespace": "secret-team", "labels": { "secret-app": "secret-db" } },
                "spec": {
                    "nodeName": "secret-node", "affinity": affinity, "restartPolicy": "Always",
                    "resourceClaims": [{ "name": "gpu", "resourceClaimName": "secret" }],
                    "containers": [{ "name": "secret", "image": "secret/db:1", "resources": {
                        "claims": [{ "name": "gpu" }],
                        "requests": { "cpu": "100m", "secret.com/card": "1", "nvidia.com/gpu": "1" },
                    } }],
                    "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "secret-data-secret-db-0" } }],
                    "tolerations": [{ "key": "secret-taint", "operator": "Equal", "value": "secret", "effect": "NoSchedule" }],
                },
            }),
            json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "secret-db", "namespace": "secret-team" },
                "spec": { "replicas": 1, "volumeClaimTemplates": [{ "metadata": { "name": "secret-data" } }] },
            }),
            json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "secret" } }),
        ] {
            capture.objects.push(Captured::of(Kind::of(&object).unwrap(), &object));
        }
        let (redacted, left_out) = redacted(&capture);
        let text = redacted.text();
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(left_out, 1);
        let [pod, set] = redacted.objects.as_slice() else { panic!("{text}") };
        let (pod, set) = (pod.value(), set.value());
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(name(&pod), format!("{}-0", name(&set)));
        let template = name(&set["spec"]["volumeClaimTemplates"][0]);
        assert_eq!(
            pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
            format!("{template}-{}", name(&pod))
        );
        assert_eq!(pod["spec"]["restartPolicy"], "Always");
        assert!(pod["spec"].get("resourceClaims").is_none(), "what it claims is left out");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"], "1");
        let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        assert_eq!(terms[0]["matchExpressions"][1]["values"][0], "westeurope-1");
    }
}
