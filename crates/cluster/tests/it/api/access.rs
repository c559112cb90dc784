//! Who may do what: roles and bindings, impersonation, escalation, anonymous requests. Expected answers are upstream's
//! (Kubernetes v1.36): `pkg/registry/rbac`, `plugin/pkg/auth/authorizer/rbac` and
//! `staging/src/k8s.io/apiserver/pkg/endpoints/{request,filters/impersonation,handlers}`; texts of refusals were recorded
//! from a real control plane (`tests/golden/auth2.jsonl.gz`).

use http::HeaderValue;
use klab_cluster::api::{Metrics, User};
use klab_cluster::system::{Flavour, bootstrap};

use super::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

type Header<'a> = (&'a str, &'a [u8]);

/// A cluster with the roles every cluster has.
fn furnished() -> Api {
    let cluster = cluster();
    bootstrap(&cluster, Flavour::Bare);
    Api::new(cluster)
}

/// A request with these headers, from `user`: status and body.
async fn ask_as(
    api: &Api,
    user: &User,
    headers: &[Header<'_>],
    (method, path): (&str, &str),
    body: &Value,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path).extension(user.clone());
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
    }
    if method == "PATCH" {
        let apply = path.contains("fieldManager=");
        request = request.header(
            "content-type",
            if apply { "application/apply-patch+yaml" } else { "application/merge-patch+json" },
        );
    }
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let response = api.answer(request.body(Full::new(Bytes::from(text))).unwrap()).await;
    let status = response.status().as_u16();
    if path.contains("watch=1") || path.contains("/watch/") {
        return (status, Value::Null);
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn impersonating(api: &Api, name: &str, request: (&str, &str), body: &Value) -> (u16, Value) {
    let mut headers = vec![("impersonate-user", name.as_bytes())];
    if name == "dora" {
        headers.push(("impersonate-group", b"devs"));
    }
    ask_as(api, &User::admin(), &headers, request, body).await
}

async fn made(api: &Api, path: &str, body: Value) {
    let (status, answer) = ask(api, "POST", path, &body).await;
    assert_eq!(status, 201, "{answer}");
}

fn rule(resources: &[&str], verbs: &[&str], names: &[&str]) -> Value {
    let group = if resources.iter().any(|one| one.contains("role")) { GROUP } else { "" };
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs, "resourceNames": names })
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({ "metadata": { "name": name }, "rules": rules })
}

fn binding(name: &str, kind: &str, role: &str, subjects: &Value) -> Value {
    json!({ "metadata": { "name": name }, "subjects": subjects,
        "roleRef": { "apiGroup": GROUP, "kind": kind, "name": role } })
}

fn user(name: &str) -> Value {
    json!([{ "kind": "User", "name": name, "apiGroup": GROUP }])
}

/// Binds a new role to a user: in a namespace, or cluster-wide where that is empty.
async fn grant(api: &Api, namespace: &str, name: &str, rules: &[Value]) {
    let (roles, bindings, kind) = if namespace.is_empty() {
        (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"), "ClusterRole")
    } else {
        let within = format!("{RBAC}/namespaces/{namespace}");
        (format!("{within}/roles"), format!("{within}/rolebindings"), "Role")
    };
    made(api, &roles, role(&format!("of-{name}"), rules)).await;
    made(api, &bindings, binding(name, kind, &format!("of-{name}"), &user(name))).await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a row for each rule")]
async fn roles_and_bindings_allow_what_upstreams_allow() {
    let api = furnished();
    api.set_metrics(Metrics::Share(0.5));
    let named = rule(&["configmaps"], &["get", "list", "watch", "delete", "deletecollection"], &["one"]);
    grant(&api, "default", "nora", &[named]).await;
    grant(&api, "default", "nick", &[rule(&["namespaces"], &["get", "list"], &[])]).await;
    grant(&api, "default", "dan", &[rule(&["pods/log", "*/status"], &["get"], &[])]).await;
    grant(&api, "", "carl", &[rule(&["nodes"], &["get", "list"], &[])]).await;
    grant(&api, "", "paul", &[json!({ "nonResourceURLs": ["/metrics*"], "verbs": ["get"] })]).await;
    let metrics = json!({ "apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["list"] });
    grant(&api, "", "mara", &[metrics]).await;
    let devs = json!([{ "kind": "Group", "name": "devs", "apiGroup": GROUP }]);
    made(&api, &format!("{RBAC}/namespaces/default/rolebindings"), binding("devs", "ClusterRole", "view", &devs)).await;
    let lost = binding("lost", "ClusterRole", "nosuch", &user("lost"));
    made(&api, &format!("{RBAC}/clusterrolebindings"), lost).await;
    for name in ["one", "two"] {
        create(api.cluster(), name, "0");
    }
    let one = "?fieldSelector=metadata.name%3Done";
    let nobody = "User \"jane\" cannot";
    let metrics_nodes = "/apis/metrics.k8s.io/v1beta1/nodes";
    let table: &[(&str, &str, &str, u16, &str)] = &[
        // Names of objects.
        ("nora", "GET", "/api/v1/namespaces/default/configmaps/one", 200, ""),
        (
            "nora",
            "GET",
            "/api/v1/namespaces/default/configmaps/two",
            403,
            "configmaps \"two\" is forbidden: User \"nora\" cannot get resource",
        ),
        ("nora", "GET", MAPS, 403, "configmaps is forbidden: User \"nora\" cannot list resource"),
        ("nora", "GET", &format!("{MAPS}{one}"), 200, ""),
        ("nora", "GET", &format!("{MAPS}{one}&watch=1"), 200, ""),
        ("nora", "GET", &format!("{MAPS}{one}%2Cmetadata.namespace%3Ddefault"), 200, ""),
        ("nora", "GET", &format!("{MAPS}?fieldSelector=metadata.name!%3Done"), 403, "cannot list"),
        ("nora", "GET", &format!("{MAPS}?fieldSelector=metadata.name%3Dtwo&watch=1"), 403, ""),
        ("nora", "GET", &format!("/api/v1/configmaps{one}"), 403, "at the cluster scope"),
        ("nora", "GET", "/api/v1/watch/namespaces/default/configmaps/one", 200, ""),
        // Upstream takes a name from the field selector of lists and watches only.
        (
            "nora",
            "DELETE",
            &format!("{MAPS}{one}"),
            403,
            "configmaps is forbidden: User \"nora\" cannot deletecollection resource",
        ),
        ("nora", "DELETE", "/api/v1/namespaces/default/configmaps/one", 200, ""),
        // A namespace is in itself.
        ("nick", "GET", "/api/v1/namespaces/default", 200, ""),
        (
            "nick",
            "GET",
            "/api/v1/namespaces/kube-system",
            403,
            "namespaces \"kube-system\" is forbidden: User \"nick\" cannot get resource \"namespaces\" in API group \"\" in the namespace \"kube-system\"",
        ),
        ("nick", "GET", "/api/v1/namespaces", 403, "at the cluster scope"),
        ("nick", "DELETE", "/api/v1/namespaces/default", 403, "cannot delete"),
        // Subresources.
        ("dan", "GET", "/api/v1/namespaces/default/pods/x/log", 404, ""),
        ("dan", "GET", "/api/v1/namespaces/default/pods/x/status", 404, ""),
        ("dan", "GET", "/api/v1/namespaces/default/pods/x", 403, ""),
        ("dan", "POST", "/api/v1/namespaces/default/pods/x/exec", 403, "cannot create resource \"pods/exec\""),
        // Cluster-wide, and groups.
        ("carl", "GET", "/api/v1/nodes", 200, ""),
        ("carl", "PATCH", "/api/v1/nodes/x", 403, "cannot patch"),
        ("dora", "GET", "/api/v1/namespaces/default/pods", 200, ""),
        ("dora", "GET", "/api/v1/namespaces/default/secrets", 403, ""),
        ("dora", "GET", "/api/v1/namespaces/kube-system/pods", 403, ""),
        (
            "lost",
            "GET",
            "/api/v1/nodes",
            403,
            "at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io \"nosuch\" not found",
        ),
        // What there is not is refused as what there is, so that nothing is learnt from it.
        ("jane", "GET", "/api/v1/nosuch", 403, nobody),
        ("jane", "GET", "/apis/nosuch.example/v1/things", 403, "things.nosuch.example is forbidden"),
        ("jane", "OPTIONS", "/api/v1/pods", 403, nobody),
        // The metrics API.
        (
            "jane",
            "GET",
            metrics_nodes,
            403,
            "nodes.metrics.k8s.io is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"metrics.k8s.io\" at the cluster scope",
        ),
        ("mara", "GET", metrics_nodes, 200, ""),
        ("mara", "GET", "/apis/metrics.k8s.io/v1beta1/pods", 403, ""),
        // Paths.
        ("jane", "GET", "/apis", 200, ""),
        ("jane", "GET", "/api/v1", 200, ""),
        ("jane", "GET", "/openapi/v3", 200, ""),
        ("jane", "GET", "/", 403, "forbidden: User \"jane\" cannot get path \"/\""),
        ("jane", "GET", "/metrics", 403, ""),
        ("jane", "GET", "/livez/ping", 403, ""),
        ("paul", "GET", "/metrics/slis", 200, ""),
        ("paul", "POST", "/metrics", 403, "cannot post path"),
        // Nobody in particular.
        ("system:anonymous", "GET", "/healthz", 200, ""),
        ("system:anonymous", "GET", "/livez", 200, ""),
        ("system:anonymous", "GET", "/readyz", 200, ""),
        ("system:anonymous", "GET", "/version", 200, ""),
        ("system:anonymous", "GET", "/api", 403, "forbidden: User \"system:anonymous\" cannot get path \"/api\""),
        ("system:anonymous", "GET", "/apis", 403, ""),
        ("system:anonymous", "GET", "/apis/apps/v1", 403, ""),
        ("system:anonymous", "GET", "/openapi/v3", 403, ""),
        ("system:anonymous", "GET", "/api/v1/nodes", 403, ""),
        (
            "system:anonymous",
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            403,
            "selfsubjectaccessreviews.authorization.k8s.io is forbidden",
        ),
        ("<b>&", "GET", "/api/v1/nodes", 403, "User \"&lt;b&gt;&amp;\""),
    ];
    for (name, method, path, wanted, words) in table {
        let (status, answer) = impersonating(&api, name, (method, path), &Value::Null).await;
        assert_eq!(status, *wanted, "{name} {method} {path}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{name} {method} {path}: {message}");
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a row for each rule")]
async fn nobody_grants_what_he_does_not_hold() {
    let api = furnished();
    let within = format!("{RBAC}/namespaces/default");
    let of_roles = rule(&["roles", "rolebindings"], &["get", "create", "update", "patch"], &[]);
    let pods = rule(&["pods"], &["get", "list"], &[]);
    grant(&api, "default", "jane", &[of_roles.clone(), pods.clone()]).await;
    let escalate = rule(&["roles"], &["escalate"], &[]);
    grant(&api, "default", "eve", &[of_roles.clone(), escalate]).await;
    let bind = rule(&["clusterroles"], &["bind"], &["view"]);
    grant(&api, "default", "ben", &[of_roles, bind]).await;
    let all_roles = rule(&["clusterroles", "clusterrolebindings"], &["*"], &[]);
    grant(&api, "", "cleo", std::slice::from_ref(&all_roles)).await;
    let only_create = rule(&["clusterroles"], &["create", "patch"], &[]);
    grant(&api, "", "cara", &[only_create, pods.clone()]).await;
    made(&api, &format!("{within}/roles"), role("reader", std::slice::from_ref(&pods))).await;
    made(&api, &format!("{within}/roles"), role("kept", &[rule(&["secrets"], &["get"], &[])])).await;
    made(&api, &format!("{within}/rolebindings"), binding("changed", "Role", "reader", &user("x"))).await;

    let all = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let with = |name: &str, rules: &Value| json!({ "metadata": { "name": name }, "rules": rules });
    let applied = |kind: &str, name: &str, rules: &Value| json!({ "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": { "name": name }, "rules": rules });
    let mine = user("jane");
    let gathering = json!({ "metadata": { "name": "gathers" }, "rules": [],
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "a": "b" } }] } });
    let roles = format!("{within}/roles");
    let bindings = format!("{within}/rolebindings");
    let own = format!("{roles}/of-jane");
    let apply = "?fieldManager=test&force=true";
    let held = "is attempting to grant RBAC permissions not currently held:\n";
    let everything = format!("{held}{{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}}");
    let secrets = format!("{held}{{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}");
    let table: Vec<(&str, &str, String, Value, u16, &str)> = vec![
        ("jane", "POST", roles.clone(), with("a", &all), 403, &everything),
        ("jane", "POST", roles.clone(), with("b", &json!([pods])), 201, ""),
        ("jane", "PUT", own.clone(), with("of-jane", &all), 403, &everything),
        ("jane", "PATCH", own.clone(), json!({ "rules": all }), 403, &everything),
        ("jane", "PATCH", format!("{own}{apply}"), applied("Role", "of-jane", &all), 403, &everything),
        ("jane", "PATCH", format!("{roles}/new{apply}"), applied("Role", "new", &all), 403, &everything),
        ("jane", "PATCH", format!("{roles}/c{apply}"), applied("Role", "c", &json!([pods])), 201, ""),
        ("jane", "PATCH", format!("{own}?dryRun=All"), json!({ "rules": all }), 403, &everything),
        // A role that grants more already: its labels are its rules' matter, its owners are not.
        ("jane", "PATCH", format!("{roles}/kept"), json!({ "metadata": { "labels": { "a": "b" } } }), 403, &secrets),
        ("jane", "PATCH", format!("{roles}/kept"), json!({ "metadata": { "finalizers": ["a.example/b"] } }), 200, ""),
        ("jane", "PATCH", format!("{roles}/kept"), json!({ "rules": [] }), 200, ""),
        // Bindings.
        ("jane", "POST", bindings.clone(), binding("d", "Role", "reader", &mine), 201, ""),
        ("jane", "POST", bindings.clone(), binding("e", "ClusterRole", "cluster-admin", &mine), 403, &everything),
        ("jane", "POST", bindings.clone(), binding("f", "ClusterRole", "view", &mine), 403, held),
        (
            "jane",
            "POST",
            bindings.clone(),
            binding("g", "Role", "nosuch", &mine),
            404,
            "role.rbac.authorization.k8s.io \"nosuch\" not found",
        ),
        ("jane", "PATCH", format!("{bindings}/changed"), json!({ "subjects": mine }), 200, ""),
        ("ben", "POST", bindings.clone(), binding("h", "ClusterRole", "view", &mine), 201, ""),
        ("ben", "POST", bindings.clone(), binding("i", "ClusterRole", "edit", &mine), 403, held),
        ("ben", "PATCH", format!("{bindings}/changed"), json!({ "subjects": user("ben") }), 403, held),
        // The verb `escalate`.
        ("eve", "POST", roles.clone(), with("j", &all), 201, ""),
        ("eve", "POST", bindings, binding("k", "Role", "reader", &mine), 403, held),
        // ClusterRoles: only what is held cluster-wide counts.
        ("jane", "POST", format!("{RBAC}/clusterroles"), with("l", &json!([pods])), 403, "cannot create"),
        ("cara", "POST", format!("{RBAC}/clusterroles"), with("m", &json!([pods])), 201, ""),
        ("cara", "POST", format!("{RBAC}/clusterroles"), with("n", &all), 403, &everything),
        (
            "cara",
            "POST",
            format!("{RBAC}/clusterroles"),
            gathering.clone(),
            403,
            "must have cluster-admin privileges to use the aggregationRule",
        ),
        ("cleo", "POST", format!("{RBAC}/clusterroles"), gathering, 201, ""),
        (
            "cleo",
            "POST",
            format!("{RBAC}/clusterrolebindings"),
            binding("o", "ClusterRole", "cluster-admin", &user("cleo")),
            201,
            "",
        ),
        ("cleo", "POST", roles, with("p", &all), 201, ""),
    ];
    for (name, method, path, body, wanted, words) in table {
        let (status, answer) = impersonating(&api, name, (method, &path), &body).await;
        assert_eq!(status, wanted, "{name} {method} {path} {body}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{name} {method} {path} {body}: {message}");
    }
    let (_, mine) = get(&api, &own).await;
    assert_eq!(mine["rules"].as_array().unwrap().len(), 2, "as it was: {mine}");
}

#[tokio::test]
async fn to_apply_what_is_not_there_takes_create() {
    let api = furnished();
    grant(&api, "default", "pat", &[rule(&["configmaps"], &["patch", "get"], &[])]).await;
    grant(&api, "default", "pia", &[rule(&["configmaps"], &["patch", "create"], &["mine"])]).await;
    create(api.cluster(), "there", "0");
    let request = |name: &str| format!("{MAPS}/{name}?fieldManager=test&force=true");
    let refusal = "configmaps \"new\" is forbidden: User \"pat\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    for (user, name, wanted, words) in [
        ("pat", "there", 200, ""),
        ("pat", "new", 403, refusal),
        ("pia", "mine", 201, ""),
        ("pia", "new", 403, "cannot patch"),
    ] {
        let (status, answer) = impersonating(&api, user, ("PATCH", &request(name)), &config_map(name, "1")).await;
        assert_eq!(status, wanted, "{user} {name}: {answer}");
        assert!(answer["message"].as_str().unwrap_or_default().contains(words), "{user} {name}: {answer}");
    }
    assert_eq!(get(&api, &format!("{MAPS}/new")).await.0, 404);
}

#[tokio::test]
async fn headers_that_impersonate_are_obeyed_or_refused() {
    let api = furnished();
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let request = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let (user, group, uid) = ("impersonate-user", "impersonate-group", "impersonate-uid");
    let nobody = "without impersonating a user name";
    let refused: &[(&[Header<'_>], &str)] = &[
        (&[(user, b"")], "names no user"),
        (&[(user, b" \t ")], "names no user"),
        (&[(user, b""), (group, b"devs")], "names no user"),
        (&[(user, b"j\xfcrgen")], "the header impersonate-user is not UTF-8 text"),
        (&[(user, b"jane"), (group, b"\xff")], "the header impersonate-group is not UTF-8 text"),
        (&[(user, b"jane"), (uid, b"\xff")], "not UTF-8"),
        (&[(user, b"jane"), ("impersonate-extra-a", b"\xff")], "not UTF-8"),
        (
            &[(group, b"devs")],
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"devs\"}, Extra:map[string][]string(nil)} without impersonating a user name",
        ),
        (&[(group, b"")], nobody),
        (&[(uid, b"1")], nobody),
        (&[("impersonate-extra-a", b"b")], "Extra:map[string][]string{\"a\":[]string{\"b\"}}} without"),
    ];
    for (headers, words) in refused {
        let (status, answer) = ask_as(&api, &User::admin(), headers, request, &review).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(words), "{headers:?}: {status} {answer}");
    }
    let authenticated = "system:authenticated";
    let info = |name: &str, groups: &[&str]| json!({ "username": name, "groups": groups });
    let mut with_more = info("jane", &[authenticated]);
    with_more["uid"] = json!("7");
    with_more["extra"] = json!({ "example.com/team": ["a", "b"], "plain": ["c"] });
    let obeyed: Vec<(Vec<Header<'_>>, Value)> = vec![
        (vec![(user, "jürgen".as_bytes())], info("jürgen", &[authenticated])),
        (vec![(user, "太郎 \"x\"".as_bytes())], info("太郎 \"x\"", &[authenticated])),
        (vec![(user, b"jane"), (group, b"devs"), (group, b"other")], info("jane", &["devs", "other", authenticated])),
        (vec![(user, b"jane"), (group, b"system:masters")], info("jane", &["system:masters", authenticated])),
        (vec![(user, b"jane"), (group, b"system:unauthenticated")], info("jane", &["system:unauthenticated"])),
        (
            vec![(user, b"system:anonymous"), (group, b"system:masters")],
            info("system:anonymous", &["system:masters", "system:unauthenticated"]),
        ),
        (
            vec![(user, b"system:serviceaccount:x:robot")],
            info(
                "system:serviceaccount:x:robot",
                &["system:serviceaccounts", "system:serviceaccounts:x", authenticated],
            ),
        ),
        (
            vec![(user, b"system:serviceaccount:x:robot"), (group, b"devs")],
            info("system:serviceaccount:x:robot", &["devs", authenticated]),
        ),
        (vec![(user, b"system:serviceaccount:X:y:z")], info("system:serviceaccount:X:y:z", &[authenticated])),
        (vec![(user, b"system:node:n1")], info("system:node:n1", &["system:nodes", authenticated])),
        (
            vec![
                (user, b"jane"),
                (uid, b"7"),
                ("impersonate-extra-example.com%2fteam", b"a"),
                ("impersonate-extra-example.com%2fteam", b"b"),
                ("impersonate-extra-plain", b"c"),
            ],
            with_more,
        ),
        (vec![], info("admin", &["system:masters", authenticated])),
    ];
    for (headers, wanted) in obeyed {
        let (status, answer) = ask_as(&api, &User::admin(), &headers, request, &review).await;
        if wanted["groups"][0] == "system:unauthenticated" {
            assert_eq!(status, 403, "who is not authenticated may not ask: {answer}");
            continue;
        }
        assert_eq!((status, &answer["status"]["userInfo"]), (201, &wanted), "{headers:?}: {answer}");
    }
}

#[tokio::test]
async fn who_may_be_whom_is_a_matter_of_roles() {
    let api = furnished();
    let impersonate = |group: &str, resource: &str, verb: &str, names: &[&str]| json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": names });
    let authentication = "authentication.k8s.io";
    let legacy = [
        impersonate("", "users", "impersonate", &["bob"]),
        impersonate("", "groups", "impersonate", &["devs"]),
        impersonate("", "serviceaccounts", "impersonate", &["robot"]),
        impersonate(authentication, "userextras/scopes", "impersonate", &["view"]),
        impersonate(authentication, "uids", "impersonate", &["7"]),
    ];
    grant(&api, "", "imp", &legacy).await;
    let constrained = [
        impersonate(authentication, "users", "impersonate:user-info", &["bob"]),
        impersonate("", "pods", "impersonate-on:user-info:list", &[]),
    ];
    grant(&api, "", "con", &constrained).await;
    let devs = json!([{ "kind": "Group", "name": "devs", "apiGroup": GROUP }, { "kind": "User", "name": "bob", "apiGroup": GROUP }]);
    made(&api, &format!("{RBAC}/clusterrolebindings"), binding("see", "ClusterRole", "view", &devs)).await;
    let (name, group, uid) = ("impersonate-user", "impersonate-group", "impersonate-uid");
    let bob: Header<'_> = (name, b"bob");
    let refusal = "pods is forbidden: User \"imp\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in the namespace \"default\"";
    let table: &[(&str, &[Header<'_>], &str, u16, &str)] = &[
        ("imp", &[bob], "pods", 200, ""),
        ("imp", &[(name, b"root")], "pods", 403, refusal),
        ("imp", &[bob, (group, b"devs")], "pods", 200, ""),
        ("imp", &[bob, (group, b"system:masters")], "pods", 403, ""),
        ("imp", &[bob, (uid, b"7")], "pods", 200, ""),
        ("imp", &[bob, (uid, b"8")], "pods", 403, ""),
        ("imp", &[bob, ("impersonate-extra-scopes", b"view")], "pods", 200, ""),
        ("imp", &[bob, ("impersonate-extra-scopes", b"view"), ("impersonate-extra-scopes", b"edit")], "pods", 403, ""),
        ("imp", &[bob, ("impersonate-extra-other", b"view")], "pods", 403, ""),
        (
            "imp",
            &[(name, b"system:serviceaccount:default:robot")],
            "pods",
            403,
            "User \"system:serviceaccount:default:robot\" cannot list",
        ),
        (
            "imp",
            &[(name, b"system:serviceaccount:default:other")],
            "pods",
            403,
            "User \"imp\" cannot impersonate-on:serviceaccount:list",
        ),
        ("con", &[bob], "pods", 200, ""),
        ("con", &[bob], "configmaps", 403, "User \"con\" cannot impersonate-on:user-info:list resource \"configmaps\""),
        (
            "con",
            &[(name, b"root")],
            "pods",
            403,
            "users.authentication.k8s.io \"root\" is forbidden: User \"con\" cannot impersonate:user-info resource \"users\"",
        ),
        (
            "con",
            &[bob, (group, b"system:masters")],
            "pods",
            403,
            "impersonating the system:masters group is not allowed",
        ),
        ("jane", &[(name, b"jane")], "pods", 403, "cannot impersonate-on:user-info:list"),
    ];
    for (from, headers, resource, wanted, words) in table {
        let groups = vec!["system:authenticated".to_owned()];
        let from = User { name: (*from).to_owned(), groups, ..User::default() };
        let path = format!("/api/v1/namespaces/default/{resource}");
        let (status, answer) = ask_as(&api, &from, headers, ("GET", &path), &Value::Null).await;
        assert_eq!(status, *wanted, "{from:?} {headers:?}: {answer}");
        assert!(answer["message"].as_str().unwrap_or_default().contains(words), "{from:?} {headers:?}: {answer}");
    }
}

#[tokio::test]
async fn reviews_ask_one_thing_about_somebody() {
    let api = furnished();
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review =
        |spec: Value| json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec });
    let nodes = json!({ "verb": "get", "resource": "nodes" });
    for (spec, words) in [
        (json!({ "user": "a" }), "exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        (
            json!({ "resourceAttributes": nodes }),
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ),
        (
            json!({ "user": "a", "resourceAttributes": nodes, "nonResourceAttributes": { "path": "/", "verb": "get" } }),
            "cannot be specified in combination with resourceAttributes",
        ),
    ] {
        let (status, answer) = ask(&api, "POST", path, &review(spec)).await;
        assert!(status == 422 && answer["message"].as_str().unwrap().contains(words), "{answer}");
    }
    let (_, masters) =
        ask(&api, "POST", path, &review(json!({ "groups": ["system:masters"], "resourceAttributes": nodes }))).await;
    assert_eq!(masters["status"], json!({ "allowed": true }));
    let asked = json!({ "user": "a", "groups": ["system:authenticated"], "nonResourceAttributes": { "path": "/version", "verb": "get" } });
    let (_, answer) = ask(&api, "POST", path, &review(asked)).await;
    let source = "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\"";
    assert_eq!(answer["status"], json!({ "allowed": true, "reason": source }));
}
