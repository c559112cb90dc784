//! The questions: what people asked in public, as small as it can be, with the cause and the fix that the answers there agree on.

use serde_json::{Value, json};

use super::Case;

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// An object with changes merged in (RFC 7396).
pub(super) fn merged(object: Value, changes: &Value) -> Value {
    let Value::Object(changes) = changes else { return changes.clone() };
    let mut fields = object.as_object().cloned().unwrap_or_default();
    for (key, change) in changes {
        match change {
            Value::Null => drop(fields.remove(key)),
            change => drop(fields.insert(key.clone(), merged(fields.get(key).cloned().unwrap_or_default(), change))),
        }
    }
    Value::Object(fields)
}

/// A node of 4 CPUs with changes.
pub(super) fn node(name: &str, changes: Value) -> Value {
    let room = json!({ "cpu": "4", "memory": "16Gi", "pods": "110" });
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { HOST: name } }, "spec": {},
        "status": { "capacity": room, "allocatable": room, "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    merged(node, &changes)
}

pub(super) fn nodes(count: usize) -> Vec<Value> {
    (1..=count).map(|number| node(&format!("n{number}"), json!({}))).collect()
}

pub(super) fn labelled(name: &str, labels: Value) -> Value {
    node(name, json!({ "metadata": { "labels": labels } }))
}

pub(super) fn tainted(name: &str, key: &str, value: &str) -> Value {
    node(name, json!({ "spec": { "taints": [{ "key": key, "value": value, "effect": "NoSchedule" }] } }))
}

pub(super) fn sized(name: &str, room: Value) -> Value {
    node(name, json!({ "status": { "capacity": room, "allocatable": room } }))
}

/// What makes pods of one container, with changes of the pods' spec and of the object's.
pub(super) fn workload(kind: &str, name: &str, pod: Value, changes: Value) -> Value {
    let spec = merged(json!({ "containers": [{ "name": "c", "image": "nginx:1.27" }] }), &pod);
    let labels = json!({ "app": name });
    let object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": spec },
        },
    });
    merged(object, &json!({ "spec": changes }))
}

pub(super) fn deployment(name: &str, replicas: u32, pod: Value) -> Value {
    workload("Deployment", name, pod, json!({ "replicas": replicas }))
}

pub(super) fn daemon_set(name: &str, pod: Value) -> Value {
    workload("DaemonSet", name, pod, json!({}))
}

pub(super) fn stateful_set(name: &str, replicas: u32, pod: Value) -> Value {
    workload("StatefulSet", name, pod, json!({ "replicas": replicas, "serviceName": name }))
}

pub(super) fn job(name: &str, spec: Value, pod: Value) -> Value {
    let pod = merged(
        json!({ "restartPolicy": "Never", "containers": [{ "name": "c", "image": "busybox", "command": ["sleep", "6000"] }] }),
        &pod,
    );
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": { "template": { "spec": pod } },
    });
    merged(object, &json!({ "spec": spec }))
}

pub(super) fn pod(name: &str, spec: Value) -> Value {
    let spec = merged(json!({ "containers": [{ "name": "c", "image": "nginx:1.27" }] }), &spec);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } }, "spec": spec })
}

pub(super) fn requests(amounts: Value) -> Value {
    json!({ "containers": [{ "name": "c", "image": "nginx:1.27", "resources": { "requests": amounts } }] })
}

pub(super) fn cpu(amount: &str) -> Value {
    requests(json!({ "cpu": amount }))
}

/// Keeps pods of an app apart, or together, by a label of nodes.
pub(super) fn affinity(kind: &str, app: &str, key: &str) -> Value {
    json!({ "affinity": { kind: { REQUIRED: [{ "labelSelector": { "matchLabels": { "app": app } }, "topologyKey": key }] } } })
}

pub(super) fn spread(app: &str, key: &str, changes: Value) -> Value {
    let constraint = json!({
        "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } },
    });
    json!({ "topologySpreadConstraints": [merged(constraint, &changes)] })
}

fn host_port() -> Value {
    json!({ "containers": [{ "name": "c", "image": "nginx:1.27", "ports": [{ "containerPort": 80, "hostPort": 80 }] }] })
}

fn quota(hard: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "cap" }, "spec": { "hard": hard } })
}

pub(super) fn claim(name: &str, spec: Value) -> Value {
    let spec =
        merged(json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } }), &spec);
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name }, "spec": spec })
}

fn volume(name: &str, spec: Value) -> Value {
    let spec = merged(
        json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/x" } }),
        &spec,
    );
    json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name }, "spec": spec })
}

pub(super) fn class(name: &str, mode: &str, changes: Value) -> Value {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
        "provisioner": "disk.csi.azure.com", "volumeBindingMode": mode,
    });
    merged(class, &changes)
}

fn only_in(key: &str, value: &str) -> Value {
    json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
        { "key": key, "operator": "In", "values": [value] }] }] } } })
}

pub(super) fn mounting(claim: &str) -> Value {
    json!({ "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": claim } }] })
}

pub(super) fn budget(app: &str, spec: Value) -> Value {
    let spec = merged(json!({ "selector": { "matchLabels": { "app": app } } }), &spec);
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": app }, "spec": spec })
}

pub(super) fn new_image(kind: &str, name: &str) -> String {
    let patch =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "nginx:1.28" }] } } } });
    format!("kubectl patch {kind}/{name} -p '{patch}'")
}

pub(super) fn created(object: &Value) -> String {
    format!("echo '{object}' | kubectl create -f -")
}

pub(super) fn all() -> Vec<Case> {
    [not_made(), of_nodes(), of_room(), between_pods(), of_volumes(), rollouts(), in_trouble()]
        .into_iter()
        .flatten()
        .collect()
}

/// Pods that the API server refuses, or that nothing asks for.
#[expect(clippy::too_many_lines, reason = "a row for each question")]
fn not_made() -> Vec<Case> {
    let restricted = "kubectl label namespace default pod-security.kubernetes.io/enforce=restricted";
    let range = |limits: Value| json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "range" }, "spec": { "limits": [limits] } });
    let policy = |name: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": name },
            "spec": {
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }] },
                "validations": [{ "expression": "has(object.metadata.labels.team)", "message": "pods need a team" }],
            },
        })
    };
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": "b" },
        "spec": { "policyName": "teams", "validationActions": ["Deny"] },
    });
    vec![
        Case::of(
            "a quota counts memory that nobody states",
            nodes(1),
            vec![quota(json!({ "requests.memory": "1Gi" })), deployment("shop", 2, json!({}))],
            "deployment/shop",
        )
        .says("failed quota: cap: must specify requests.memory for: c", "state `requests.memory` in deployment/shop"),
        Case::of(
            "a quota counts limits of a job",
            nodes(1),
            vec![quota(json!({ "limits.cpu": "1" })), job("once", json!({}), json!({}))],
            "job/once",
        )
        .says("must specify limits.cpu for: c", "make a LimitRange that gives `limits.cpu`"),
        Case::of(
            "a quota of two pods",
            nodes(1),
            vec![quota(json!({ "pods": "2" })), deployment("shop", 3, json!({}))],
            "deployment/shop",
        )
        .says("1 of 3 pods not made: exceeded quota: cap", "raise `pods` from 2 to 3 of the quota cap"),
        Case::of(
            "a quota for a StatefulSet",
            nodes(1),
            vec![quota(json!({ "requests.cpu": "1" })), stateful_set("db", 2, cpu("700m"))],
            "sts/db",
        )
        .says("exceeded quota: cap", "raise `requests.cpu` from 1 to 1400m"),
        Case::of(
            "a rollout under a full quota",
            nodes(2),
            vec![quota(json!({ "pods": "2" })), deployment("shop", 2, json!({}))],
            "deployment/shop",
        )
        .then(new_image("deployment", "shop"))
        .says("exceeded quota: cap", "`maxSurge: 0`"),
        Case::of(
            "a LimitRange with a maximum",
            nodes(1),
            vec![
                range(json!({ "type": "Container", "max": { "cpu": "500m" } })),
                deployment(
                    "big",
                    1,
                    json!({ "containers": [{ "name": "c", "image": "nginx", "resources": { "limits": { "cpu": "1" } } }] }),
                ),
            ],
            "deployment/big",
        )
        .says("maximum cpu usage per Container is 500m", "`limits.cpu` 500m"),
        Case::of(
            "a LimitRange with a minimum",
            nodes(1),
            vec![
                range(json!({ "type": "Container", "min": { "memory": "128Mi" } })),
                deployment("small", 1, requests(json!({ "memory": "64Mi" }))),
            ],
            "deployment/small",
        )
        .says("minimum memory usage per Container is 128Mi", "`requests.memory` 128Mi"),
        Case::of("a ServiceAccount that is missing", nodes(1), vec![deployment("bot", 1, json!({ "serviceAccountName": "robot" }))], "deploy/bot")
            .says("serviceaccount \"robot\" not found", "kubectl create serviceaccount robot"),
        Case::of("a PriorityClass that is missing", nodes(1), vec![deployment("hot", 1, json!({ "priorityClassName": "urgent" }))], "deploy/hot")
            .says("no PriorityClass with name urgent was found", "kubectl create priorityclass urgent --value=1000"),
        Case::of(
            "a slip in a PriorityClass",
            nodes(1),
            vec![
                json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "high" }, "value": 100 }),
                deployment("hot", 1, json!({ "priorityClassName": "hihg" })),
            ],
            "deploy/hot",
        )
        .says("no PriorityClass with name hihg", "write `high` for `hihg`"),
        Case::of("a standard of Pod Security", nodes(1), vec![], "deploy/shop")
            .then(restricted)
            // An image that does not run as root.
            .then(created(&deployment("shop", 1, json!({ "containers": [{ "name": "c", "image": "registry.k8s.io/pause:3.10" }] }))))
            .says("violates PodSecurity \"restricted", "keep to the standard `restricted`"),
        Case::of("a DaemonSet on the host's network", nodes(1), vec![], "ds/agent")
            .then("kubectl label namespace default pod-security.kubernetes.io/enforce=baseline")
            .then(created(&daemon_set("agent", json!({ "hostNetwork": true, "hostPID": true }))))
            .says("host namespaces", "keep to the standard `baseline`"),
        Case::of("a policy", nodes(1), vec![policy("teams"), binding, deployment("shop", 1, json!({}))], "deploy/shop")
            .says("pods need a team", "as the policy teams asks"),
        Case::of("a suspended job", nodes(1), vec![job("later", json!({ "suspend": true }), json!({}))], "job/later")
            .says("it is suspended", "kubectl patch job/later -p '{\"spec\":{\"suspend\":false}}'"),
        Case::of("a deployment at zero", nodes(1), vec![deployment("web", 0, json!({}))], "deployment/web")
            .says("scaled to 0", "kubectl scale deployment/web --replicas=1"),
        Case::of(
            "a paused rollout",
            nodes(1),
            vec![workload("Deployment", "web", json!({}), json!({ "replicas": 2, "paused": true }))],
            "deployment/web",
        )
        .says("paused", "kubectl rollout resume deployment/web"),
        Case::of(
            "a DaemonSet without an eligible node",
            vec![
                node("plain", json!({})),
                node(
                    "odd",
                    json!({ "metadata": { "labels": { "agentpool": "odd" } }, "spec": { "taints": [
                        { "key": "kind", "value": "odd", "effect": "NoSchedule" }] } }),
                ),
            ],
            vec![daemon_set("plugin", json!({ "nodeSelector": { "agentpool": "odd" } }))],
            "ds/plugin",
        )
        .says("taint kind=odd:NoSchedule is not tolerated", "add a toleration of the taint kind=odd:NoSchedule"),
        Case::of(
            "a DaemonSet with a slip in its selector",
            vec![labelled("a", json!({ "disk": "ssd" })), labelled("b", json!({ "disk": "ssd" }))],
            vec![daemon_set("plugin", json!({ "nodeSelector": { "disk": "sdd" } }))],
            "ds/plugin",
        )
        .says("wants no node", "write `ssd` for `sdd`"),
    ]
}

/// Rules about nodes.
fn of_nodes() -> Vec<Case> {
    let selecting = |key: &str, value: &str| deployment("w", 1, json!({ "nodeSelector": { key: value } }));
    let named = |name: &str| {
        json!({ "affinity": { "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "disk", "operator": "In", "values": [name] }] }] } } } })
    };
    vec![
        Case::of("a selector of another case", vec![labelled("n1", json!({ "gpu": "true" }))], vec![selecting("gpu", "True")], "deployment/w")
            .says("label gpu is true", "write `true` for `True`"),
        Case::of(
            "a value that another node has, which is tainted",
            vec![
                labelled("a", json!({ "pool": "pool-a" })),
                node(
                    "b",
                    json!({ "metadata": { "labels": { "pool": "pool-b" } }, "spec": { "taints": [{ "key": "t", "effect": "NoSchedule" }] } }),
                ),
            ],
            vec![selecting("pool", "pool-b")],
            "deployment/w",
        )
        .says("taint t:NoSchedule is not tolerated", "add a toleration of the taint t:NoSchedule"),
        Case::of("a label that no node has", nodes(2), vec![selecting("disk", "tape")], "deployment/w")
            .says("no label disk", "kubectl label nodes n1 disk=tape"),
        Case::of("another architecture", vec![labelled("n1", json!({ "kubernetes.io/arch": "amd64" }))], vec![selecting("kubernetes.io/arch", "arm64")], "deployment/w")
            .says("label kubernetes.io/arch is amd64, nodeSelector asks for arm64", "remove `kubernetes.io/arch` from the node selector"),
        Case::of("a slip in the node affinity", vec![labelled("n1", json!({ "disk": "ssd" }))], vec![deployment("w", 1, named("sdd"))], "deployment/w")
            .says("the required node affinity asks for disk=sdd", "write `ssd` for `sdd` in the node affinity"),
        Case::of("a taint", vec![tainted("n1", "dedicated", "gpu")], vec![deployment("w", 1, json!({}))], "deployment/w")
            .says("taint dedicated=gpu:NoSchedule is not tolerated", "add a toleration of the taint dedicated=gpu:NoSchedule"),
        Case::of(
            "a toleration of another value",
            vec![tainted("n1", "dedicated", "gpu")],
            vec![deployment("w", 1, json!({ "tolerations": [{ "key": "dedicated", "operator": "Equal", "value": "gpus", "effect": "NoSchedule" }] }))],
            "deployment/w",
        )
        .says("is not tolerated", "write the toleration `dedicated=gpu:NoSchedule` for `dedicated=gpus:NoSchedule`"),
        Case::of(
            "a control plane alone",
            vec![tainted("cp", "node-role.kubernetes.io/control-plane", "")],
            vec![deployment("w", 1, json!({}))],
            "deployment/w",
        )
        .says("node-role.kubernetes.io/control-plane", "add a toleration of the taint node-role.kubernetes.io/control-plane:NoSchedule"),
        Case::of("a cordoned node", nodes(1), vec![], "deployment/w")
            .then("kubectl cordon n1")
            .then(created(&deployment("w", 1, json!({}))))
            .says("cordoned", "kubectl uncordon n1"),
        Case::of("a gate", nodes(1), vec![pod("held", json!({ "schedulingGates": [{ "name": "example.com/hold" }] }))], "pod/held")
            .says("gates: example.com/hold", "remove the scheduling gates example.com/hold"),
        Case::of("another scheduler", nodes(1), vec![pod("mine", json!({ "schedulerName": "mine" }))], "mine")
            .says("it waits for the scheduler `mine`", ""),
        Case::of("a node that is not there", nodes(1), vec![pod("lost", json!({ "nodeName": "node01" }))], "lost")
            .says("there is no such node", ""),
    ]
}

/// Requests, and what nodes have.
fn of_room() -> Vec<Case> {
    let one = || sized("n1", json!({ "cpu": "1", "memory": "4Gi", "pods": "110" }));
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "vm" }, "handler": "vm",
        "overhead": { "podFixed": { "cpu": "500m" } },
    });
    vec![
        Case::of("more than a node has", nodes(1), vec![deployment("w", 1, cpu("6"))], "deployment/w")
            .says("6 cpu requested, more than the 4 a node has", "lower `requests.cpu` of `deployment/w` from 6 to `4`"),
        Case::of(
            "an init container that asks for too much",
            vec![one()],
            vec![deployment(
                "w",
                1,
                json!({
                    "initContainers": [{ "name": "prep", "image": "busybox", "command": ["true"], "resources": { "requests": { "cpu": "2" } } }],
                    "containers": [{ "name": "c", "image": "nginx:1.27", "resources": { "requests": { "cpu": "100m" } } }],
                }),
            )],
            "deployment/w",
        )
        .says("2 by the init container prep", "lower `requests.cpu` of the init container `prep` of `deployment/w` from 2 to `1`"),
        Case::of(
            "an overhead",
            vec![merged(one(), &json!({ "status": { "runtimeHandlers": [{ "name": "vm" }] } }))],
            vec![class, deployment("w", 1, merged(cpu("600m"), &json!({ "runtimeClassName": "vm" })))],
            "deployment/w",
        )
        .says("0.5 added by the RuntimeClass", "lower `requests.cpu` of `deployment/w` from 0.6 to `500m`"),
        Case::of(
            "the greater of two containers",
            vec![one()],
            vec![deployment("w", 1, json!({ "containers": [
                { "name": "a", "image": "nginx:1.27", "resources": { "requests": { "cpu": "200m" } } },
                { "name": "b", "image": "nginx:1.27", "resources": { "requests": { "cpu": "1" } } }] }))],
            "deployment/w",
        )
        .says("1.2 cpu requested", "lower `requests.cpu` of the container `b` of `deployment/w` from 1 to `800m`"),
        Case::of("too little memory", vec![one()], vec![deployment("w", 1, requests(json!({ "memory": "5Gi" })))], "deployment/w")
            .says("5Gi memory requested, more than the 4Gi a node has", "lower `requests.memory` of `deployment/w` from 5Gi to `4Gi`"),
        Case::of(
            "another workload that takes the room",
            vec![one()],
            vec![deployment("first", 2, cpu("400m")), deployment("w", 1, cpu("400m"))],
            "deployment/w",
        )
        .says("0.4 cpu requested, 0.2 of 1 free", "lower `requests.cpu`"),
        Case::of("no GPU anywhere", nodes(1), vec![deployment("w", 1, json!({ "containers": [
            { "name": "c", "image": "nginx:1.27", "resources": { "limits": { "nvidia.com/gpu": "1" } } }] }))], "deployment/w")
            .says("1 nvidia.com/gpu requested, the node has none", ""),
        Case::of(
            "as many pods as a node may have",
            vec![sized("n1", json!({ "cpu": "4", "memory": "16Gi", "pods": "2" }))],
            vec![deployment("first", 2, json!({})), deployment("w", 1, json!({}))],
            "deployment/w",
        )
        .says("it holds 2 pods, its maximum", "add 1 node like n1"),
        Case::of(
            "a DaemonSet on a full node",
            vec![one()],
            vec![deployment("first", 1, cpu("900m"))],
            "ds/agent",
        )
        .then(created(&daemon_set("agent", cpu("500m"))))
        .says("0.5 cpu requested, 0.1 of 1 free", "the priority class system-node-critical"),
    ]
}

/// Rules between pods.
fn between_pods() -> Vec<Case> {
    let zoned = |name: &str, zone: &str| labelled(name, json!({ ZONE: zone }));
    vec![
        Case::of(
            "a spread over the control plane",
            vec![tainted("cp", "node-role.kubernetes.io/control-plane", ""), node("w1", json!({})), node("w2", json!({}))],
            vec![deployment("even", 5, spread("even", HOST, json!({})))],
            "deployment/even",
        )
        .says("the emptiest hostname, cp, has 0", "set `nodeTaintsPolicy: Honor`"),
        Case::of(
            "a spread over three zones, of which there are two",
            vec![zoned("a1", "a"), zoned("b1", "b")],
            vec![deployment("even", 3, spread("even", ZONE, json!({ "minDomains": 3 })))],
            "deployment/even",
        )
        .says("minDomains asks for 3 of zone and there are 2", "lower `minDomains` of `deployment/even` from 3 to 2"),
        Case::of(
            "a spread over a full zone",
            vec![node("a1", json!({ "metadata": { "labels": { ZONE: "a" } } })), node("b1", json!({
                "metadata": { "labels": { ZONE: "b" } }, "status": { "capacity": { "cpu": "100m" }, "allocatable": { "cpu": "100m" } } }))],
            vec![deployment("even", 3, merged(cpu("500m"), &spread("even", ZONE, json!({}))))],
            "deployment/even",
        )
        .says("the emptiest zone, b, has 0", "raise `maxSkew`"),
        Case::of(
            "a spread over a label that no node has",
            vec![zoned("a1", "a"), zoned("b1", "b")],
            vec![deployment("even", 2, spread("even", "topology.kubernetes.io/zones", json!({})))],
            "deployment/even",
        )
        .says("no label topology.kubernetes.io/zones", "write `topology.kubernetes.io/zone` for `topology.kubernetes.io/zones`"),
        Case::of(
            "a node without the label of the spread",
            vec![labelled("a", json!({ "rack": "r1" })), node("b", json!({ "spec": {} })), ],
            vec![deployment("even", 1, merged(spread("even", "rack", json!({})), &json!({ "nodeSelector": { HOST: "b" } })))],
            "deployment/even",
        )
        .says("no label rack", "kubectl label nodes b rack=r1"),
        Case::of("more pods than nodes", nodes(2), vec![deployment("solo", 3, affinity("podAntiAffinity", "solo", HOST))], "deployment/solo")
            .says("which the pod's anti-affinity forbids", "add 1 node like n1"),
        Case::of("a pod that nobody has", nodes(2), vec![deployment("web", 1, affinity("podAffinity", "cache", HOST))], "deployment/web")
            .says("no pod with app=cache is on the same node", "remove the required pod affinity"),
        Case::of("a host port", nodes(1), vec![deployment("edge", 2, host_port())], "deployment/edge")
            .says("host port 80/TCP is taken by", "remove the host port 80"),
    ]
}

/// Claims and volumes.
#[expect(clippy::too_many_lines, reason = "a row for each question")]
fn of_volumes() -> Vec<Case> {
    let late = "WaitForFirstConsumer";
    let app = || pod("app", mounting("disk"));
    vec![
        Case::of(
            "a class that does not exist",
            nodes(1),
            vec![class("fast", late, json!({})), claim("disk", json!({ "storageClassName": "fast-disk" })), app()],
            "app",
        )
        .says(
            "claim disk asks for the storage class fast-disk, which does not exist; there is fast",
            "make the claim disk again with the storage class fast",
        ),
        Case::of(
            "a class that does not exist, and none does",
            nodes(1),
            vec![claim("disk", json!({ "storageClassName": "fast" })), app()],
            "app",
        )
        .says("the cluster has no storage class", "make a volume for claim disk by hand"),
        Case::of(
            "no class, and no default",
            nodes(1),
            vec![class("slow", late, json!({})), claim("disk", json!({})), app()],
            "app",
        )
        .says("names no storage class, and no class is the default; there is slow", "kubectl patch storageclass slow"),
        Case::of(
            "a volume that is kept for a claim that is gone",
            nodes(1),
            vec![
                volume("old", json!({ "storageClassName": "manual", "persistentVolumeReclaimPolicy": "Retain" })),
                claim("disk", json!({ "storageClassName": "manual" })),
            ],
            "app",
        )
        .then("kubectl delete pvc disk")
        .then(created(&claim("disk", json!({ "storageClassName": "manual" }))))
        .then(created(&app()))
        .says(
            "volume old would do for claim disk, but is Released: it is kept for the claim default/disk that is gone",
            "kubectl patch pv old --type json",
        ),
        Case::of(
            "a class of another zone",
            vec![labelled("a", json!({ ZONE: "a" }))],
            vec![
                class(
                    "zonal",
                    late,
                    json!({ "allowedTopologies": [{ "matchLabelExpressions": [{ "key": ZONE, "values": ["b"] }] }] }),
                ),
                claim("disk", json!({ "storageClassName": "zonal" })),
                app(),
            ],
            "app",
        )
        .says(
            "makes volumes only where topology.kubernetes.io/zone is b, and no node is there",
            "add a node in zone b",
        ),
        Case::of(
            "a volume of another zone",
            vec![labelled("a", json!({ ZONE: "a" }))],
            vec![
                volume("disk", merged(json!({ "storageClassName": "manual" }), &only_in(ZONE, "c"))),
                claim("disk", json!({ "storageClassName": "manual" })),
                app(),
            ],
            "app",
        )
        .says("can be reached only where topology.kubernetes.io/zone=c, and no node is there", "add a node in zone c"),
        Case::of(
            "a volume of a host that is gone",
            nodes(1),
            vec![
                volume("disk", merged(json!({ "storageClassName": "manual" }), &only_in(HOST, "old"))),
                claim("disk", json!({ "storageClassName": "manual" })),
                app(),
            ],
            "app",
        )
        .says("can be reached only where kubernetes.io/hostname=old, and no node is there", "bring the node old back"),
        Case::of(
            "a claim that is missing",
            nodes(1),
            vec![
                class(
                    "std",
                    late,
                    json!({ "metadata": { "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } } }),
                ),
                app(),
            ],
            "app",
        )
        .says("there is no volume claim disk in namespace default", "make the claim disk in namespace default"),
        Case::of(
            "a volume that is too small",
            nodes(1),
            vec![
                volume("small", json!({ "storageClassName": "manual" })),
                claim(
                    "disk",
                    json!({ "storageClassName": "manual", "resources": { "requests": { "storage": "5Gi" } } }),
                ),
                app(),
            ],
            "app",
        )
        .says("volume small has 1Gi, and 5Gi is asked for", "make a volume for claim disk by hand"),
        Case::of(
            "a volume that does not allow as many writers",
            nodes(1),
            vec![
                volume("one", json!({ "storageClassName": "manual" })),
                claim("disk", json!({ "storageClassName": "manual", "accessModes": ["ReadWriteMany"] })),
                app(),
            ],
            "app",
        )
        .says("volume one does not allow ReadWriteMany", "make a volume for claim disk by hand"),
    ]
}

/// Rollouts that wait for their own old pods.
fn rollouts() -> Vec<Case> {
    let again = |nodes: Vec<Value>, kind: &str, object: Value, target: &'static str| {
        let name = target.split_once('/').map_or(target, |(_, name)| name);
        Case::of("", nodes, vec![object], target).then(new_image(kind, name))
    };
    let named = |name: &'static str, case: Case| Case { name, ..case };
    let waits = "which the rollout keeps until this one runs";
    vec![
        named(
            "a rollout with hard anti-affinity",
            again(nodes(2), "deployment", deployment("solo", 2, affinity("podAntiAffinity", "solo", HOST)), "deployment/solo")
                .says(waits, "{\"spec\":{\"strategy\":{\"rollingUpdate\":{\"maxSurge\":0,\"maxUnavailable\":1}}}}"),
        ),
        named(
            "a rollout with a host port",
            again(nodes(1), "deployment", deployment("edge", 1, host_port()), "deployment/edge").says(waits, "`maxSurge: 0`"),
        ),
        named(
            "a rollout on full nodes",
            again(nodes(1), "deployment", deployment("big", 1, cpu("3")), "deployment/big").says(waits, "`maxSurge: 0`"),
        ),
        named(
            "a DaemonSet with a host port and a surge",
            again(
                nodes(1),
                "daemonset",
                workload("DaemonSet", "agent", json!({}), json!({
                    "template": { "spec": { "hostNetwork": true, "containers": [
                        { "name": "c", "image": "nginx:1.27", "ports": [{ "containerPort": 80, "hostPort": 80 }] }] } },
                    "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
                })),
                "ds/agent",
            )
            .says("host port 80/TCP is taken by", "{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"maxSurge\":0,\"maxUnavailable\":1}}}}"),
        ),
    ]
}

/// Pods that have a node, and do not do what they are to do there.
fn in_trouble() -> Vec<Case> {
    let probing = |port: u16| {
        json!({ "containers": [{ "name": "c", "image": "nginx:1.27", "ports": [{ "containerPort": 80 }],
            "readinessProbe": { "tcpSocket": { "port": port }, "periodSeconds": 1 } }] })
    };
    vec![
        Case::of(
            "a pod of a dead node",
            nodes(2),
            vec![stateful_set("db", 1, json!({ "nodeSelector": { HOST: "n1" } }))],
            "sts/db",
        )
        .then("kubectl annotate node n1 klab.dev/heartbeat=stopped")
        .then("advance 420")
        .says("its node n", "start the node n")
        .unproven(),
        Case::of("a first pod that is not ready", nodes(1), vec![stateful_set("db", 3, probing(81))], "sts/db").says(
            "db-1 to db-2 wait until db-0 is ready",
            "let the readiness probe of container `c` of statefulset/db ask at port 80",
        ),
        Case::of("a probe at another port", nodes(1), vec![deployment("web", 1, probing(8080))], "deployment/web")
            .says("the readiness probe (TCP 8080) of container c fails", "ask at port 80"),
        Case::of(
            "a drain that a budget stops",
            nodes(2),
            vec![deployment("api", 2, json!({})), budget("api", json!({ "minAvailable": 2 }))],
            "deployment/api",
        )
        .then("kubectl cordon n1")
        .says("the budget api allows no disruption (needs 2 of 2 pods", "kubectl scale deployment/api --replicas=3")
        .unproven(),
        Case::of(
            "a budget that never allows a disruption",
            nodes(2),
            vec![deployment("api", 2, json!({})), budget("api", json!({ "maxUnavailable": 0 }))],
            "deployment/api",
        )
        .then("kubectl cordon n1")
        .says("the budget api allows no disruption", "\"maxUnavailable\":1")
        .unproven(),
    ]
}
