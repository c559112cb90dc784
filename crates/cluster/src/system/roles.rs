//! The roles every cluster has, and whom they are bound to: what people are given in lessons (cluster-admin, admin, edit,
//! view) and what everybody may do. Roles of parts that are one process here are left out.

use serde_json::{Value, json};

use crate::rbac::aggregated;

const GROUP: &str = "rbac.authorization.k8s.io";
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];

/// Groups, resources, verbs.
type Rule<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str]);

/// What the role `view` gathers.
// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go viewRules (v1.36)
const VIEW: &[Rule<'_>] = &[
    (
        &[""],
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
        READ,
    ),
    (
        &[""],
        &[
            "bindings",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
        READ,
    ),
    (&[""], &["namespaces"], READ),
    (&["", "events.k8s.io"], &["events"], READ),
    (&["discovery.k8s.io"], &["endpointslices"], READ),
    (
        &["apps"],
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
        READ,
    ),
    (&["autoscaling"], &["horizontalpodautoscalers", "horizontalpodautoscalers/status"], READ),
    (&["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"], READ),
    (
        &["extensions"],
        &[
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "ingresses",
            "ingresses/status",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "replicationcontrollers/scale",
        ],
        READ,
    ),
    (&["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"], READ),
    (&["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"], READ),
    (&["resource.k8s.io"], &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"], READ),
];

/// What the role `edit` gathers, besides `view`.
// upstream: bootstrappolicy/policy.go editRules (v1.36)
const EDIT: &[Rule<'_>] = &[
    (&[""], &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"], READ),
    (&[""], &["serviceaccounts"], &["impersonate"]),
    (&[""], &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"], WRITE),
    (&[""], &["pods/eviction"], CREATE),
    (
        &[""],
        &[
            "configmaps",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
        WRITE,
    ),
    (&[""], &["serviceaccounts/token"], CREATE),
    (&["", "events.k8s.io"], &["events"], WRITE),
    (
        &["apps"],
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
        WRITE,
    ),
    (&["autoscaling"], &["horizontalpodautoscalers"], WRITE),
    (&["batch"], &["cronjobs", "jobs"], WRITE),
    (
        &["extensions"],
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "ingresses",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicationcontrollers/scale",
        ],
        WRITE,
    ),
    (&["policy"], &["poddisruptionbudgets"], WRITE),
    (&["networking.k8s.io"], &["ingresses", "networkpolicies"], WRITE),
    (&["coordination.k8s.io"], &["leases"], READ_WRITE),
    (&["resource.k8s.io"], &["resourceclaims", "resourceclaimtemplates"], WRITE),
];

/// What the role `admin` gathers, besides `edit`.
const ADMIN: &[Rule<'_>] = &[
    (&["authorization.k8s.io"], &["localsubjectaccessreviews"], CREATE),
    (&[GROUP], &["rolebindings", "roles"], READ_WRITE),
];

const BASIC_USER: &[Rule<'_>] = &[
    (&["authorization.k8s.io"], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"], CREATE),
    (&["authentication.k8s.io"], &["selfsubjectreviews"], CREATE),
];

const AUTH_DELEGATOR: &[Rule<'_>] = &[
    (&["authentication.k8s.io"], &["tokenreviews"], CREATE),
    (&["authorization.k8s.io"], &["subjectaccessreviews"], CREATE),
];

/// What nodes may do; nobody is bound to it, for the node authorizer decides with more knowledge.
// upstream: bootstrappolicy/policy.go NodeRules (v1.36)
const NODE: &[Rule<'_>] = &[
    (&["authentication.k8s.io"], &["tokenreviews"], CREATE),
    (&["authorization.k8s.io"], &["localsubjectaccessreviews", "subjectaccessreviews"], CREATE),
    (&[""], &["services"], READ),
    (&[""], &["nodes"], &["create", "get", "list", "watch"]),
    (&[""], &["nodes/status"], &["patch", "update"]),
    (&[""], &["nodes"], &["patch", "update"]),
    (&["", "events.k8s.io"], &["events"], &["create", "patch", "update"]),
    (&[""], &["pods"], READ),
    (&[""], &["pods"], &["create", "delete"]),
    (&[""], &["pods/status"], &["patch", "update"]),
    (&[""], &["pods/eviction"], CREATE),
    (&[""], &["configmaps", "secrets"], READ),
    (&[""], &["persistentvolumeclaims", "persistentvolumes"], &["get"]),
    (&[""], &["endpoints"], &["get"]),
    (&["certificates.k8s.io"], &["certificatesigningrequests"], &["create", "get", "list", "watch"]),
    (&["coordination.k8s.io"], &["leases"], &["create", "delete", "get", "patch", "update"]),
    (&["storage.k8s.io"], &["volumeattachments"], &["get"]),
    (&[""], &["serviceaccounts/token"], CREATE),
    (&[""], &["persistentvolumeclaims/status"], &["get", "patch", "update"]),
    (&["storage.k8s.io"], &["csidrivers"], READ),
    (&["storage.k8s.io"], &["csinodes"], &["create", "delete", "get", "patch", "update"]),
    (&["node.k8s.io"], &["runtimeclasses"], READ),
    (&["resource.k8s.io"], &["resourceclaims"], &["get"]),
    (&["resource.k8s.io"], &["resourceslices"], &["deletecollection"]),
    (&["certificates.k8s.io"], &["clustertrustbundles"], READ),
    (&[""], &["serviceaccounts"], &["get"]),
];

const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];
const MONITORING: &[&str] = &[
    "/flagz",
    "/healthz",
    "/healthz/*",
    "/livez",
    "/livez/*",
    "/metrics",
    "/metrics/slis",
    "/readyz",
    "/readyz/*",
    "/statusz",
];
const ISSUER: &[&str] =
    &["/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"];

/// The role, and the groups it is bound to.
// upstream: bootstrappolicy/policy.go clusterRoleBindings (v1.36)
const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["system:masters"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:monitoring", &["system:monitoring"]),
    ("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
    ("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
];

/// ClusterRoles and their bindings.
// upstream: bootstrappolicy/policy.go clusterRoles (v1.36)
pub(super) fn objects() -> Vec<Value> {
    let reads = |paths: &[&str]| json!({ "nonResourceURLs": paths, "verbs": ["get"] });
    let everything = json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }, { "nonResourceURLs": ["*"], "verbs": ["*"] },
    ]);
    let monitoring = json!([reads(MONITORING), rule(&(&[""], &["nodes/metrics"], &["get"]))]);
    let mut roles = vec![
        role("cluster-admin", "", everything),
        role("system:aggregate-to-admin", "admin", rules(ADMIN)),
        role("system:aggregate-to-edit", "edit", rules(EDIT)),
        role("system:aggregate-to-view", "view", rules(VIEW)),
        role("system:auth-delegator", "", rules(AUTH_DELEGATOR)),
        role("system:basic-user", "", rules(BASIC_USER)),
        role("system:discovery", "", json!([reads(DISCOVERY)])),
        role("system:monitoring", "", monitoring),
        role("system:node", "", rules(NODE)),
        role("system:public-info-viewer", "", json!([reads(PUBLIC)])),
        role("system:service-account-issuer-discovery", "", json!([reads(ISSUER)])),
    ];
    for (name, part_of) in [("view", "edit"), ("edit", "admin"), ("admin", "")] {
        let mut gathering = role(name, part_of, json!([]));
        let label = format!("{GROUP}/aggregate-to-{name}");
        gathering["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { label: "true" } }] });
        // The controller would gather the same as soon as it looks.
        gathering["rules"] = Value::Array(aggregated(&gathering, roles.iter().collect()));
        roles.push(gathering);
    }
    roles.extend(BINDINGS.iter().map(|(role, groups)| binding(role, groups)));
    roles
}

fn rules(rules: &[Rule<'_>]) -> Value {
    rules.iter().map(rule).collect()
}

fn rule((groups, resources, verbs): &Rule<'_>) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}

/// A ClusterRole, which another one gathers if it is a part of that.
fn role(name: &str, part_of: &str, rules: Value) -> Value {
    let mut role = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": metadata(name), "rules": rules,
    });
    if !part_of.is_empty() {
        role["metadata"]["labels"][format!("{GROUP}/aggregate-to-{part_of}")] = json!("true");
    }
    role
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let subject = |group: &&str| json!({ "apiGroup": GROUP, "kind": "Group", "name": group });
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata(role),
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
        "subjects": groups.iter().map(subject).collect::<Value>(),
    })
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    })
}
