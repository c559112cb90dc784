//! More questions: nodes that are silent, drains, pods apart and together, priorities, containers that do not start.

use serde_json::{Value, json};

use super::Case;
use super::cases::{
    HOST, REQUIRED, ZONE, affinity, budget, cpu, created, daemon_set, deployment, job, labelled, merged, new_image,
    node, nodes, pod, requests, sized, spread, stateful_set, tainted, workload,
};

pub(super) fn all() -> Vec<Case> {
    [silent_nodes(), drains(), apart(), by_priority(), starting()].into_iter().flatten().collect()
}

fn one() -> Value {
    sized("n1", json!({ "cpu": "1", "memory": "4Gi", "pods": "110" }))
}

/// The kubelet of a node stops.
fn stopped(case: Case, node: &str) -> Case {
    case.then(format!("kubectl annotate node {node} klab.dev/heartbeat=stopped")).then("advance 120")
}

fn silent_nodes() -> Vec<Case> {
    let pinned = || deployment("w", 1, json!({ "nodeName": "n1" }));
    vec![
        stopped(Case::of("a new pod pinned by name to a dead node", nodes(2), vec![], "deployment/w"), "n1")
            .then(created(&pinned()))
            .says("its node n1 is NotReady: nothing there starts it", "start the node n1 again"),
        stopped(Case::of("a pod pinned by name, whose node dies", nodes(2), vec![pinned()], "deployment/w"), "n1")
            .says("its node n1 is NotReady: nothing there says whether it runs, and it is evicted in", "start the node n1 again"),
        stopped(Case::of("a pod pinned by name, long after its node died", nodes(2), vec![pinned()], "deployment/w"), "n1").then("advance 420")
            .says("let the scheduler choose the node", "start the node n1 again").unproven(),
        stopped(Case::of("a pod of a node that has just died", nodes(2), vec![deployment("w", 1, json!({ "nodeSelector": { HOST: "n1" } }))], "deployment/w"), "n1")
            .says("and it is evicted in", "start the node n1 again").unproven(),
        stopped(Case::of("a pod of a dead node that tolerates it for ever", nodes(2), vec![
            deployment("w", 1, json!({ "nodeSelector": { HOST: "n1" }, "tolerations": [{ "operator": "Exists" }] }))], "deployment/w"), "n1").then("advance 600")
            .says("it tolerates that for ever, so it is never evicted", "start the node n1 again").unproven(),
        stopped(Case::of("all nodes are silent", nodes(1), vec![], "deployment/w"), "n1").then(created(&deployment("w", 1, json!({}))))
            .says("taint node.kubernetes.io/unreachable:NoSchedule is not tolerated", "start the node n1 again"),
        Case::of("a DaemonSet pod of a dead node", nodes(2), vec![daemon_set("agent", json!({}))], "ds/agent")
            .then("kubectl annotate node n1 klab.dev/heartbeat=stopped").then("advance 420")
            .says("pods of a DaemonSet are never evicted for that", "start the node n1 again"),
        Case::of("a pinned pod that does not fit", vec![one()], vec![pod("filler", cpu("600m")), deployment("w", 1, merged(cpu("600m"), &json!({ "nodeName": "n1" })))], "deployment/w")
            .says("n1 refused it (OutOfcpu)", "take `nodeName` out of deployment/w").unproven(),
        Case::of("a node that its cloud has not made ready", vec![tainted("n1", "node.cloudprovider.kubernetes.io/uninitialized", "true")], vec![deployment("w", 1, json!({}))], "deployment/w")
            .says("node.cloudprovider.kubernetes.io/uninitialized", "let the cloud controller manager set up n1").unproven(),
        Case::of("a toleration of the former control-plane taint", vec![tainted("cp", "node-role.kubernetes.io/control-plane", "")], vec![
            deployment("w", 1, json!({ "tolerations": [{ "key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule" }] }))], "deployment/w")
            .says("taint node-role.kubernetes.io/control-plane:NoSchedule is not tolerated", "add a toleration of the taint node-role.kubernetes.io/control-plane"),
        Case::of("a toleration of another effect", vec![node("n1", json!({ "spec": { "taints": [{ "key": "d", "value": "gpu", "effect": "NoExecute" }] } }))], vec![
            deployment("w", 1, json!({ "tolerations": [{ "key": "d", "operator": "Equal", "value": "gpu", "effect": "NoSchedule" }] }))], "deployment/w")
            .says("taint d=gpu:NoExecute is not tolerated", "write the toleration `d=gpu:NoExecute`"),
        Case::of("a former label of the system", vec![labelled("n1", json!({ "kubernetes.io/os": "linux" }))], vec![
            deployment("w", 1, json!({ "nodeSelector": { "beta.kubernetes.io/os": "linux" } }))], "deployment/w")
            .says("no label beta.kubernetes.io/os", "label n1 `beta.kubernetes.io/os=linux`"),
        Case::of("node affinity by number", vec![labelled("n1", json!({ "gen": "3" }))], vec![
            deployment("w", 1, json!({ "affinity": { "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "gen", "operator": "Gt", "values": ["4"] }] }] } } } }))], "deployment/w")
            .says("the required node affinity asks for gen>4", "remove the required node affinity"),
        Case::of("node affinity that excludes all", vec![labelled("n1", json!({ "disk": "ssd" }))], vec![
            deployment("w", 1, json!({ "affinity": { "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "disk", "operator": "NotIn", "values": ["ssd"] }] }] } } } }))], "deployment/w")
            .says("the required node affinity asks for disk!=ssd", "remove the required node affinity"),
        Case::of("a DaemonSet that is not on the control plane", vec![tainted("cp", "node-role.kubernetes.io/control-plane", ""), node("w1", json!({}))], vec![daemon_set("agent", json!({}))], "ds/agent")
            .says("makes no pod for 1 node", "add a toleration of the taint node-role.kubernetes.io/control-plane"),
    ]
}

fn drains() -> Vec<Case> {
    let two = || {
        let mut two = budget("api", json!({ "minAvailable": 1 }));
        two["metadata"]["name"] = json!("other");
        two
    };
    let unready = || json!({ "containers": [{ "name": "c", "image": "nginx:1.27", "readinessProbe": { "tcpSocket": { "port": 81 }, "periodSeconds": 1 } }] });
    vec![
        Case::of(
            "two budgets that block a drain",
            nodes(2),
            vec![deployment("api", 2, json!({})), budget("api", json!({ "minAvailable": 1 })), two()],
            "deployment/api",
        )
        .then("kubectl cordon n1")
        .says("the budgets api and other both cover it", "keep one of the two budgets")
        .unproven(),
        Case::of(
            "a budget of one pod",
            nodes(2),
            vec![deployment("api", 1, json!({})), budget("api", json!({ "minAvailable": 1 }))],
            "deployment/api",
        )
        .then("kubectl cordon n1 n2")
        .says("the budget api allows no disruption (needs 1 of 1 pod", "set `minAvailable` to 0 in the budget api")
        .unproven(),
        Case::of(
            "a budget and pods that are not ready",
            nodes(1),
            vec![deployment("api", 2, unready()), budget("api", json!({ "minAvailable": 1 }))],
            "deployment/api",
        )
        .then("kubectl cordon n1")
        .says("the budget api allows no disruption (needs 1 of 2 pods, 0 healthy)", "correct the readiness probe")
        .unproven(),
        Case::of(
            "a bare pod on a cordoned node",
            nodes(2),
            vec![pod("bare", json!({ "nodeSelector": { HOST: "n1" } }))],
            "bare",
        )
        .then("kubectl cordon n1")
        .says(
            "stays on n1, which is cordoned: that keeps new pods away and moves none",
            "kubectl drain n1 --ignore-daemonsets --delete-emptydir-data --force",
        )
        .unproven(),
    ]
}

fn apart() -> Vec<Case> {
    let zoned = |name: &str, zone: &str| labelled(name, json!({ ZONE: zone }));
    vec![
        Case::of("a spread over a cordoned node", nodes(3), vec![], "deployment/even")
            .then("kubectl cordon n3")
            .then(created(&deployment("even", 5, spread("even", HOST, json!({})))))
            .says("the emptiest hostname, n3, has 0", "uncordon n3"),
        Case::of(
            "two workloads that wait for each other",
            nodes(1),
            vec![
                deployment("a", 1, affinity("podAffinity", "b", HOST)),
                deployment("b", 1, affinity("podAffinity", "a", HOST)),
            ],
            "deployment/a",
        )
        .says("no pod with app=b is on the same node", "remove the required pod affinity"),
        Case::of(
            "a pod affinity in another namespace",
            nodes(2),
            vec![
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }),
                merged(pod("cache", json!({})), &json!({ "metadata": { "namespace": "other" } })),
                deployment("web", 1, affinity("podAffinity", "cache", HOST)),
            ],
            "deployment/web",
        )
        .says(
            "there is one in namespace other, and the pod affinity looks into default alone",
            "let the pod affinity of `deployment/web` look into namespace other",
        ),
        Case::of(
            "anti-affinity of somebody else",
            nodes(1),
            vec![deployment("lonely", 1, affinity("podAntiAffinity", "web", HOST))],
            "deployment/web",
        )
        .then(created(&deployment("web", 1, json!({}))))
        .says("the anti-affinity of default/lonely", "add 1 node like n1")
        .unproven(),
        Case::of(
            "anti-affinity by zone",
            vec![zoned("a1", "a"), zoned("a2", "a")],
            vec![deployment("solo", 2, affinity("podAntiAffinity", "solo", ZONE))],
            "deployment/solo",
        )
        .says("another pod is in the same zone", "add a node in another domain of topology.kubernetes.io/zone"),
    ]
}

fn by_priority() -> Vec<Case> {
    let class = |name: &str, value: i32, policy: &str| json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": value, "preemptionPolicy": policy });
    vec![
        Case::of("a priority that never preempts", vec![one()], vec![class("high", 1000, "Never"), deployment("low", 1, cpu("800m"))], "deployment/hot")
            .then(created(&deployment("hot", 1, merged(cpu("500m"), &json!({ "priorityClassName": "high" })))))
            .says("its priority class high never preempts", "add 1 node like n1").unproven(),
        Case::of("a victim that takes its time", vec![one()], vec![class("high", 1000, "PreemptLowerPriority"), deployment("low", 1, merged(cpu("800m"), &json!({ "terminationGracePeriodSeconds": 3600, "containers": [{ "name": "c", "image": "busybox", "command": ["sh", "-c", "trap '' TERM; sleep 100000"], "resources": { "requests": { "cpu": "800m" } } }] })))], "deployment/hot")
            .then(created(&deployment("hot", 1, merged(cpu("500m"), &json!({ "priorityClassName": "high" })))))
            .says("n1 is kept for it while the pods it preempted go", "wait until low-").unproven(),
        Case::of("ephemeral storage", vec![sized("n1", json!({ "cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "10Gi" }))], vec![deployment("w", 1, requests(json!({ "ephemeral-storage": "20Gi" })))], "deployment/w")
            .says("20Gi ephemeral-storage requested, more than the 10Gi a node has", "lower `requests.ephemeral-storage`"),
        Case::of("huge pages", nodes(1), vec![deployment("w", 1, json!({ "containers": [{ "name": "c", "image": "nginx:1.27", "resources": { "limits": { "hugepages-2Mi": "100Mi", "memory": "1Gi" } } }] }))], "deployment/w")
            .says("100Mi hugepages-2Mi requested, the node has none", "add a node that has hugepages-2Mi"),
        Case::of("a fragmented cluster", (1..=2).map(|n| sized(&format!("n{n}"), json!({ "cpu": "1", "memory": "4Gi", "pods": "110" }))).collect(), vec![deployment("small", 2, merged(cpu("500m"), &affinity("podAntiAffinity", "small", HOST)))], "deployment/big")
            .then(created(&deployment("big", 1, cpu("800m"))))
            .says("0.8 cpu requested, 0.5 of 1 free", "lower `requests.cpu` of `deployment/big` from 0.8 to `500m`").unproven(),
        Case::of("a job that failed", nodes(1), vec![job("once", json!({ "backoffLimit": 0 }), json!({ "containers": [{ "name": "c", "image": "busybox", "command": ["false"] }] }))], "job/once")
            .says("container c ended with exit code 1 (Error)", "see what container c said before it ended").unproven(),
    ]
}

fn starting() -> Vec<Case> {
    let map = json!({ "containers": [{ "name": "c", "image": "nginx:1.27", "envFrom": [{ "configMapRef": { "name": "settings" } }] }] });
    let secret = json!({
        "volumes": [{ "name": "s", "secret": { "secretName": "cert" } }],
        "containers": [{ "name": "c", "image": "nginx:1.27", "volumeMounts": [{ "name": "s", "mountPath": "/s" }] }],
    });
    vec![
        Case::of("a bad image", nodes(1), vec![deployment("web", 1, json!({ "containers": [{ "name": "c", "image": "nginx:does-not-exist" }] }))], "deployment/web")
            .says("the image nginx:does-not-exist of container c cannot be pulled", "correct the image of container c of deployment/web").unproven(),
        Case::of("a parallel StatefulSet after a bad image", nodes(1), vec![workload("StatefulSet", "db", json!({}), json!({ "replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel" }))], "sts/db")
            .then("kubectl patch statefulset/db -p '{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"nginx:does-not-exist\"}]}}}}'")
            .says("the image nginx:does-not-exist of container c cannot be pulled", "kubectl rollout undo statefulset/db").unproven(),
        Case::of("an ordered StatefulSet after a bad image was corrected", nodes(1), vec![stateful_set("db", 2, json!({ "containers": [{ "name": "c", "image": "nginx:does-not-exist" }] }))], "sts/db")
            .then(new_image("statefulset", "db"))
            .says("is of an earlier template, and statefulset/db waits until it is ready", "kubectl delete pod db-0"),
        Case::of("a ConfigMap that is missing", nodes(1), vec![deployment("web", 1, map)], "deployment/web")
            .says("there is no ConfigMap settings in namespace default", "kubectl create configmap settings"),
        Case::of("a Secret that is missing", nodes(1), vec![deployment("web", 1, secret)], "deployment/web")
            .says("there is no Secret cert in namespace default", "kubectl create secret generic cert"),
        Case::of("a container that ends again and again", nodes(1), vec![deployment("web", 1, json!({ "containers": [{ "name": "c", "image": "busybox", "command": ["false"] }] }))], "deployment/web")
            .says("container c ends again and again with exit code 1 (Error)", "kubectl logs web-").unproven(),
        Case::of("an init container that waits for a Service", nodes(1), vec![deployment("web", 1, json!({ "initContainers": [{ "name": "wait", "image": "busybox:1.36", "command": ["sh", "-c", "until nslookup store; do sleep 2; done"] }] }))], "deployment/web")
            .says("its init container wait runs", "see what wait waits for").unproven(),
        Case::of("a finalizer that stays", nodes(1), vec![merged(pod("web", json!({})), &json!({ "metadata": { "finalizers": ["example.com/hold"] } }))], "web").then("kubectl delete pod web").then("advance 60")
            .says("example.com/hold", "take the finalizers off web").unproven(),
        Case::of("an HTTP probe of a path that is not there", nodes(1), vec![deployment("web", 1, json!({ "containers": [{ "name": "c", "image": "nginx:1.27", "readinessProbe": { "httpGet": { "path": "/healthz", "port": 80 }, "periodSeconds": 1 } }] }))], "deployment/web")
            .says("the readiness probe (GET :80/healthz) of container c fails", "correct the readiness probe of container `c`").unproven(),
    ]
}
