//! What fresh clusters run.

use klab_api_machinery::resource::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};

use super::*;

fn lab(flavour: Flavour, nodes: Vec<Value>) -> Lab {
    let mut lab = Lab::new(0);
    bootstrap(&lab.cluster, flavour);
    for node in nodes {
        lab.cluster.create(NODES, "", node, &WriteOptions::by("test")).expect("node");
    }
    lab.plane.run();
    lab
}

fn aks_node(name: &str, number: usize, mode: &str) -> Value {
    let mut node = node(name, number);
    for (key, value) in
        [("kubernetes.azure.com/cluster", "MC_lab"), ("kubernetes.azure.com/mode", mode), ("kubernetes.io/os", "linux")]
    {
        node["metadata"]["labels"][key] = json!(value);
    }
    node
}

fn pods(lab: &Lab) -> Vec<(String, String)> {
    let (pods, _) = lab.cluster.list(PODS, None);
    pods.iter()
        .map(|pod| {
            let value = pod.value();
            assert!(is_ready(&value), "{} is not ready: {}", pod.name, value["status"]);
            let node = value["spec"]["nodeName"].as_str().expect("a node").to_owned();
            (pod.name.to_string(), node)
        })
        .collect()
}

#[test]
fn aks_runs_its_add_ons_on_system_pools_and_its_daemons_everywhere() {
    let nodes =
        vec![aks_node("system-0", 0, "system"), aks_node("system-1", 1, "system"), aks_node("user-0", 2, "user")];
    let lab = lab(Flavour::Aks, nodes);
    let pods = pods(&lab);
    let count = |prefix: &str| pods.iter().filter(|(name, _)| name.starts_with(prefix)).count();
    for (prefix, wanted) in [
        ("coredns-autoscaler-", 1),
        ("konnectivity-agent-", 2),
        ("metrics-server-", 2),
        ("kube-proxy-", 3),
        ("csi-azuredisk-node-", 3),
        ("csi-azurefile-node-", 3),
        ("cloud-node-manager-", 3),
        ("azure-ip-masq-agent-", 3),
    ] {
        assert_eq!(count(prefix), wanted, "{prefix}");
    }
    assert_eq!(count("coredns-"), 3, "two of coredns and the autoscaler");
    for (name, node) in &pods {
        let add_on = ["coredns-", "konnectivity-", "metrics-"].iter().any(|prefix| name.starts_with(prefix));
        assert!(!add_on || node.starts_with("system-"), "{name} is on {node}");
    }
    let dns = lab.cluster.list(PODS, Some("kube-system")).0;
    let dns = dns.iter().find(|pod| pod.name.starts_with("coredns-")).expect("coredns").value();
    assert_eq!(dns["spec"]["priority"], 2_000_001_000);
}

#[test]
fn core_dns_moves_to_the_new_system_pool_when_the_old_one_goes() {
    let mut lab = lab(Flavour::Aks, vec![aks_node("old-0", 0, "system"), aks_node("user-0", 1, "user")]);
    lab.cluster.create(NODES, "", aks_node("new-0", 2, "system"), &WriteOptions::by("test")).expect("node");
    lab.plane.run();
    lab.delete(NODES, "old-0", Propagation::Background);
    lab.seconds(60);
    for (name, node) in pods(&lab) {
        assert_ne!(node, "old-0");
        assert!(!name.starts_with("coredns-") || node == "new-0", "{name} is on {node}");
    }
}

#[test]
fn kind_has_a_control_plane_node_with_its_static_pods() {
    let mut control_plane = node("lab-control-plane", 0);
    control_plane["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
    control_plane["metadata"]["labels"]["kubernetes.io/os"] = json!("linux");
    control_plane["spec"]["taints"] =
        json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]);
    let mut worker = node("lab-worker", 1);
    worker["metadata"]["labels"]["kubernetes.io/os"] = json!("linux");
    let lab = lab(Flavour::Kind, vec![control_plane, worker]);
    let pods = pods(&lab);
    for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let pod = (format!("{name}-lab-control-plane"), "lab-control-plane".to_owned());
        assert!(pods.contains(&pod), "{name} is missing");
    }
    assert_eq!(pods.iter().filter(|(name, _)| name.starts_with("kindnet-")).count(), 2);
    assert_eq!(pods.iter().filter(|(name, _)| name.starts_with("local-path-provisioner-")).count(), 1);
}

#[test]
fn filling_a_cluster_twice_changes_nothing() {
    let lab = lab(Flavour::Aks, vec![aks_node("system-0", 0, "system")]);
    let (_, before) = lab.cluster.list(PODS, None);
    bootstrap(&lab.cluster, Flavour::Aks);
    assert_eq!(lab.cluster.list(PODS, None).1, before);
}

#[test]
fn a_bare_cluster_has_the_service_of_the_api_server_alone() {
    let lab = lab(Flavour::Bare, Vec::new());
    let (services, _) = lab.cluster.list(klab_api_machinery::resource::SERVICES, None);
    assert_eq!(services.iter().map(|service| service.name.as_ref()).collect::<Vec<_>>(), ["kubernetes"]);
    assert!(lab.cluster.list(PODS, None).0.is_empty());
}

// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata (v1.36)
#[test]
fn every_cluster_has_the_roles_of_an_api_server() {
    let lab = lab(Flavour::Bare, Vec::new());
    let kinds = [CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS];
    assert_eq!(kinds.map(|kind| lab.cluster.count(kind)), [69, 50, 7, 7]);
    let get = |kind, namespace, name| lab.cluster.get(kind, namespace, name).expect(name).to_value();
    let binding = get(CLUSTER_ROLE_BINDINGS, "", "system:controller:node-controller");
    assert_eq!(
        binding["subjects"],
        json!([{ "kind": "ServiceAccount", "name": "node-controller", "namespace": "kube-system" }])
    );
    assert_eq!(binding["metadata"]["creationTimestamp"], "2026-06-01T08:00:00Z");
    let object = lab.cluster.get(ROLES, "kube-system", "extension-apiserver-authentication-reader").expect("the role");
    assert_eq!(object.managed_fields()[0]["manager"], "kube-apiserver");
    assert_eq!(object.managed_fields()[0]["time"], "2026-06-01T08:00:00Z");
    assert_eq!(
        object.value()["rules"],
        json!([{
            "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
            "resourceNames": ["extension-apiserver-authentication"],
        }])
    );
}

#[test]
fn cluster_roles_gather_the_rules_of_others() {
    let mut lab = lab(Flavour::Bare, Vec::new());
    let rules = |lab: &Lab, name: &str| lab.get(CLUSTER_ROLES, name)["rules"].clone();
    let has = |rules: &Value, resource: &str| {
        rules.as_array().expect("rules").iter().any(|rule| rule["resources"][0] == resource)
    };
    let before = rules(&lab, "admin");
    let of_gizmos = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "gizmos", "labels": { "rbac.authorization.k8s.io/aggregate-to-view": "true" } },
        "rules": [{ "apiGroups": ["labs.test"], "resources": ["gizmos"], "verbs": ["get"] }],
    });
    lab.apply(of_gizmos);
    // view gathers it, edit gathers view, admin gathers edit.
    for name in ["view", "edit", "admin"] {
        assert!(has(&rules(&lab, name), "gizmos"), "{name}");
    }
    lab.delete(CLUSTER_ROLES, "gizmos", Propagation::Background);
    assert_eq!(rules(&lab, "admin"), before);
}

#[test]
fn the_api_server_publishes_whom_to_trust_and_since_when_tokens_are_tracked() {
    let lab = lab(Flavour::Bare, Vec::new());
    lab.cluster.set_root_certificate("PEM");
    let data = |name: &str| {
        let map = lab.cluster.get(CONFIG_MAPS, "kube-system", name).expect("published");
        map.value()["data"].clone()
    };
    let trusted = data("extension-apiserver-authentication");
    assert_eq!((&trusted["client-ca-file"], &trusted["requestheader-client-ca-file"]), (&json!("PEM"), &json!("PEM")));
    assert_eq!(trusted["requestheader-username-headers"], "[\"X-Remote-User\"]");
    assert_eq!(data("kube-apiserver-legacy-service-account-token-tracking"), json!({ "since": "2026-06-01" }));
    assert_eq!(data("kube-root-ca.crt"), json!({ "ca.crt": "PEM" }));
}
