//! What fuzzed requests are made of: kinds with good objects, and odd pieces of everything.

use serde_json::{Value, json};

/// A kind that requests are for.
pub(crate) struct Sort {
    /// Path up to where namespaces begin.
    pub(crate) base: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) good: Value,
}

fn sort(base: &'static str, plural: &'static str, namespaced: bool, good: Value) -> Sort {
    Sort { base, plural, namespaced, good }
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn sorts() -> Vec<Sort> {
    let container = json!({"name": "main", "image": "nginx:1.27", "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}});
    let spec = json!({
        "containers": [container, {"name": "side", "image": "busybox:1.36", "command": ["sleep", "1"]}],
        "nodeSelector": {"pool": "a"}, "priorityClassName": "a",
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]}]}},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}}}],
        "volumes": [{"name": "v", "emptyDir": {}}], "schedulingGates": [{"name": "example.com/gate"}],
    });
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": spec});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let selector = json!({"matchLabels": {"app": "a"}});
    let workload = |kind: &str, more: Value| {
        let mut value = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"labels": {"app": "a"}},
            "spec": {"selector": selector, "template": template}});
        for (field, part) in more.as_object().into_iter().flatten() {
            value["spec"][field] = part.clone();
        }
        value
    };
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}});
    let custom = |plural: &str, kind: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.labs.example")},
            "spec": {"group": "labs.example", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": plural == "gadgets",
                            "properties": {"size": {"type": "integer", "minimum": 1}}}}}}}]}})
    };
    vec![
        sort(
            "/apis/scheduling.k8s.io/v1",
            "priorityclasses",
            false,
            json!({"apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass", "metadata": {}, "value": 1000, "preemptionPolicy": "Never"}),
        ),
        sort(
            "/api/v1",
            "pods",
            true,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "a"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "u", "controller": true}]},
            "spec": spec}),
        ),
        sort("/apis/apps/v1", "deployments", true, workload("Deployment", json!({"replicas": 2, "strategy": rolling}))),
        sort("/apis/apps/v1", "replicasets", true, workload("ReplicaSet", json!({"replicas": 2}))),
        sort("/apis/apps/v1", "daemonsets", true, workload("DaemonSet", json!({}))),
        sort(
            "/apis/apps/v1",
            "statefulsets",
            true,
            workload(
                "StatefulSet",
                json!({"serviceName": "a",
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}]}),
            ),
        ),
        sort(
            "/apis/batch/v1",
            "jobs",
            true,
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {},
            "spec": {"completions": 3, "parallelism": 2, "backoffLimit": 1, "template": once,
                "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}}),
        ),
        sort(
            "/apis/batch/v1",
            "cronjobs",
            true,
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {},
            "spec": {"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin", "jobTemplate": {"spec": {"template": once}}}}),
        ),
        sort(
            "/api/v1",
            "configmaps",
            true,
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"annotations": {"a": "b"}, "finalizers": ["example.com/keep"]}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "AAEC"}}),
        ),
        sort(
            "/api/v1",
            "secrets",
            true,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "stringData": {"a": "1"}}),
        ),
        sort(
            "/api/v1",
            "services",
            true,
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {},
            "spec": {"type": "NodePort", "selector": {"app": "a"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}}),
        ),
        sort(
            "/api/v1",
            "namespaces",
            false,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": {"a": "b"}}}),
        ),
        sort(
            "/api/v1",
            "nodes",
            false,
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"pool": "a"}},
            "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}], "unschedulable": false},
            "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "30"}, "conditions": [{"type": "Ready", "status": "True"}]}}),
        ),
        sort(
            "/apis/policy/v1",
            "poddisruptionbudgets",
            true,
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {}, "spec": {"minAvailable": "50%", "selector": selector}}),
        ),
        sort(
            "/api/v1",
            "resourcequotas",
            true,
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {},
            "spec": {"hard": {"pods": "6", "requests.cpu": "9", "count/configmaps": "7"}, "scopes": ["NotTerminating"]}}),
        ),
        sort(
            "/api/v1",
            "limitranges",
            true,
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"},
                "max": {"cpu": "2"}, "min": {"cpu": "10m"}, "maxLimitRequestRatio": {"cpu": "10"}}]}}),
        ),
        sort(
            "/apis/autoscaling/v2",
            "horizontalpodautoscalers",
            true,
            json!({"apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler", "metadata": {}, "spec": {"minReplicas": 1, "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}]}}),
        ),
        sort(
            "/api/v1",
            "persistentvolumeclaims",
            true,
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        sort(
            "/api/v1",
            "events",
            true,
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {}, "reason": "Tested", "message": "m",
            "type": "Normal", "count": 1, "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}}),
        ),
        sort(
            "/apis/events.k8s.io/v1",
            "events",
            true,
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {},
            "reason": "Tested", "note": "n", "type": "Normal", "action": "Test", "eventTime": "2026-06-01T08:00:00.000000Z",
            "reportingController": "test", "reportingInstance": "t", "regarding": {"kind": "Pod", "name": "a", "namespace": "default"}}),
        ),
        sort(
            "/apis/rbac.authorization.k8s.io/v1",
            "roles",
            true,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        sort(
            "/apis/authorization.k8s.io/v1",
            "selfsubjectaccessreviews",
            false,
            json!({"apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        ),
        sort("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", false, custom("widgets", "Widget")),
        sort("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", false, custom("gadgets", "Gadget")),
        sort(
            "/apis/labs.example/v1",
            "widgets",
            true,
            json!({"apiVersion": "labs.example/v1", "kind": "Widget", "metadata": {},
            "spec": {"size": 3}}),
        ),
        sort(
            "/apis/labs.example/v1",
            "gadgets",
            true,
            json!({"apiVersion": "labs.example/v1", "kind": "Gadget", "metadata": {},
            "spec": {"size": 3, "more": {"a": [1, {"b": 2}]}}}),
        ),
        sort("/apis/metrics.k8s.io/v1beta1", "pods", true, json!({})),
    ]
}

/// Bodies of subresources.
pub(super) fn subresources() -> Vec<(&'static str, Value)> {
    vec![
        (
            "status",
            json!({"status": {"phase": "Running", "replicas": 3, "conditions": [{"type": "Ready", "status": "True"}]}}),
        ),
        ("scale", json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3}})),
        ("eviction", json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}})),
        (
            "binding",
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "a"}}),
        ),
        ("log", json!(null)),
        ("exec", json!(null)),
        ("finalize", json!({"spec": {"finalizers": []}})),
        ("ephemeralcontainers", json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}})),
        ("resize", json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "200m"}}}]}})),
        (
            "token",
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}),
        ),
        ("proxy/x/y", json!(null)),
        ("nosuch", json!({})),
    ]
}

/// Values that fit nowhere, or hardly.
pub(super) fn odd_values() -> Vec<Value> {
    let mut deep = json!([]);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    let mut nested = json!({});
    for _ in 0..90 {
        nested = json!({"spec": nested});
    }
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!(1.5),
        json!(""),
        json!(" "),
        json!("x".repeat(300)),
        json!("a/b/c"),
        json!("1Gi"),
        json!("-5m"),
        json!("10%"),
        json!("9999999999999999999999E"),
        json!("1e99999"),
        json!("0.0000000000000000001n"),
        json!("2026-06-01T00:00:00Z"),
        json!("9999-99-99"),
        json!("\u{0}"),
        json!("☃"),
        json!("*/0 99 * * *"),
        json!("default"),
        json!("a"),
        json!([]),
        json!({}),
        json!([null]),
        json!([[], {}]),
        json!({"$patch": "delete"}),
        json!({"$patch": "replace"}),
        json!([{"$patch": "replace"}]),
        json!({"$retainKeys": ["a"]}),
        json!({"": ""}),
        json!({"a": null}),
        deep,
        nested,
    ]
}

pub(super) const NAMES: &[&str] = &[
    "b",
    "b",
    "b",
    "c",
    "default",
    "kube-root-ca.crt",
    "A",
    "x.y",
    "%2e%2e",
    "a%20b",
    "%E2%98%83",
    "-",
    "%00",
    "a%2Fb",
];
pub(super) const NAMESPACES: &[&str] = &["kube-system", "a", "b", "none", "%20"];
pub(super) const SELECTOR_PIECES: &[&str] = &[
    "app",
    "a",
    "=",
    "==",
    "!=",
    "!",
    ",",
    " in ",
    " notin ",
    "(",
    ")",
    "(a,b)",
    "pool",
    "metadata.name",
    "spec.nodeName",
    "status.phase",
    "Running",
    "example.com/x",
    "/",
    ".",
    "-",
    "_",
    " ",
    ">",
    "<",
    "1",
    "☃",
    "\\",
    "\"",
    "type",
    "involvedObject.name",
    "=a",
    "=b",
];
pub(super) const QUERY: &[(&str, &[&str])] = &[
    ("limit", &["0", "1", "2", "-1", "99999999999999999999", "x", ""]),
    ("continue", &["", "x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "////", "bnVsbA"]),
    ("resourceVersion", &["0", "", "1", "5", "999999", "-1", "x", "18446744073709551616"]),
    ("resourceVersionMatch", &["Exact", "NotOlderThan", "x", ""]),
    ("watch", &["1", "true", "false", "0", "x"]),
    ("allowWatchBookmarks", &["true", "1", "x"]),
    ("sendInitialEvents", &["true", "false", "x"]),
    ("timeoutSeconds", &["0", "1", "-1", "9223372036854775807", "x"]),
    (
        "fieldManager",
        &[
            "a",
            "b",
            "",
            "☃",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ],
    ),
    ("fieldValidation", &["Strict", "Warn", "Ignore", "x"]),
    ("force", &["true", "false", "x"]),
    ("dryRun", &["All", "x", ""]),
    ("gracePeriodSeconds", &["0", "1", "-1", "99999999999999999999"]),
    ("propagationPolicy", &["Foreground", "Background", "Orphan", "x"]),
    ("orphanDependents", &["true", "false"]),
    ("includeObject", &["None", "Object", "Metadata", "x"]),
    ("pretty", &["true"]),
    ("container", &["main", "x"]),
    ("command", &["ls"]),
    ("tailLines", &["-1", "x"]),
];
pub(super) const ACCEPTS: &[&str] = &[
    "application/json",
    "application/json",
    "application/json",
    "application/json",
    "application/json",
    "application/json",
    "application/json",
    "application/json",
    "application/json",
    "application/json",
    "*/*",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "text/plain",
    ";;;=,",
    "",
];
pub(super) const OTHER_PATHS: &[&str] = &[
    "/",
    "/api",
    "/apis",
    "/api/v1",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/nosuch/v1",
    "/version",
    "/healthz",
    "/readyz?verbose",
    "/livez/ping",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openapi/v3/apis/apps/v1",
    "/metrics",
    "/logs",
    "/api/v1/watch/pods",
    "/apis/labs.example/v1",
    "/api/v1/namespaces/default/pods/a/proxy",
    "/api/v1/nodes/a/proxy/stats",
    "//",
    "/api//v1",
    "/api/v1/",
    "/..",
];
