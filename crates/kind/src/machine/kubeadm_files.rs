//! The files that kubeadm and kind leave on a node, as far as klab knows them.
// source: kubernetes cmd/kubeadm/app/phases/{controlplane,etcd,kubelet}, kind images/base (v1.36, 0.33)

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::surroundings::Place;

/// Where the kubelet finds static pods.
pub(super) const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// What starts the kubelet.
pub(super) const KUBELET_UNIT: &str = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf";
/// The program of the kubelet.
pub(super) const KUBELET: &str = "/usr/bin/kubelet";

/// The arguments of the API server.
fn api_server(address: &str) -> Vec<String> {
    let pki = "/etc/kubernetes/pki";
    arguments(&[
        ("advertise-address", address),
        ("allow-privileged", "true"),
        ("authorization-mode", "Node,RBAC"),
        ("client-ca-file", &format!("{pki}/ca.crt")),
        ("enable-admission-plugins", "NodeRestriction"),
        ("enable-bootstrap-token-auth", "true"),
        ("etcd-cafile", &format!("{pki}/etcd/ca.crt")),
        ("etcd-certfile", &format!("{pki}/apiserver-etcd-client.crt")),
        ("etcd-keyfile", &format!("{pki}/apiserver-etcd-client.key")),
        ("etcd-servers", "https://127.0.0.1:2379"),
        ("requestheader-client-ca-file", &format!("{pki}/front-proxy-ca.crt")),
        ("runtime-config", ""),
        ("secure-port", "6443"),
        ("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
        ("service-account-key-file", &format!("{pki}/sa.pub")),
        ("service-account-signing-key-file", &format!("{pki}/sa.key")),
        ("service-cluster-ip-range", "10.96.0.0/16"),
        ("tls-cert-file", &format!("{pki}/apiserver.crt")),
        ("tls-private-key-file", &format!("{pki}/apiserver.key")),
    ])
}

fn arguments(all: &[(&str, &str)]) -> Vec<String> {
    all.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// The pods of a control plane: name, image, requests and arguments.
fn components(place: &Place<'_>) -> [(&'static str, String, Value, Vec<String>); 4] {
    let (version, address) = (place.version, place.address);
    let pki = "/etc/kubernetes/pki";
    let image = |component: &str| format!("registry.k8s.io/{component}:v{version}");
    let peer = format!("https://{address}:2380");
    let client = format!("https://{address}:2379");
    let cluster = format!("{}={peer}", place.node);
    let [server, key, ca] = ["server.crt", "server.key", "ca.crt"].map(|file| format!("{pki}/etcd/{file}"));
    let etcd = arguments(&[
        ("advertise-client-urls", &client),
        ("cert-file", &server),
        ("client-cert-auth", "true"),
        ("data-dir", "/var/lib/etcd"),
        ("initial-advertise-peer-urls", &peer),
        ("initial-cluster", &cluster),
        ("key-file", &key),
        ("listen-client-urls", &format!("https://127.0.0.1:2379,{client}")),
        ("listen-metrics-urls", "http://127.0.0.1:2381"),
        ("listen-peer-urls", &peer),
        ("name", place.node),
        ("peer-cert-file", &format!("{pki}/etcd/peer.crt")),
        ("peer-client-cert-auth", "true"),
        ("peer-key-file", &format!("{pki}/etcd/peer.key")),
        ("peer-trusted-ca-file", &ca),
        ("trusted-ca-file", &ca),
    ]);
    let [of_cluster, front] = ["ca.crt", "front-proxy-ca.crt"].map(|file| format!("{pki}/{file}"));
    let config = |component: &str| format!("/etc/kubernetes/{component}.conf");
    let (manager, scheduler) = (config("controller-manager"), config("scheduler"));
    let controller_manager = arguments(&[
        ("allocate-node-cidrs", "true"),
        ("authentication-kubeconfig", &manager),
        ("authorization-kubeconfig", &manager),
        ("bind-address", "127.0.0.1"),
        ("client-ca-file", &of_cluster),
        ("cluster-cidr", "10.244.0.0/16"),
        ("cluster-name", place.cluster),
        ("cluster-signing-cert-file", &of_cluster),
        ("cluster-signing-key-file", &format!("{pki}/ca.key")),
        ("controllers", "*,bootstrapsigner,tokencleaner"),
        ("enable-hostpath-provisioner", "true"),
        ("kubeconfig", &manager),
        ("leader-elect", "true"),
        ("requestheader-client-ca-file", &front),
        ("root-ca-file", &of_cluster),
        ("service-account-private-key-file", &format!("{pki}/sa.key")),
        ("service-cluster-ip-range", "10.96.0.0/16"),
        ("use-service-account-credentials", "true"),
    ]);
    let of_scheduler = arguments(&[
        ("authentication-kubeconfig", &scheduler),
        ("authorization-kubeconfig", &scheduler),
        ("bind-address", "127.0.0.1"),
        ("kubeconfig", &scheduler),
        ("leader-elect", "true"),
    ]);
    [
        ("etcd", "registry.k8s.io/etcd:3.6.4-0".to_owned(), json!({ "cpu": "100m", "memory": "100Mi" }), etcd),
        ("kube-apiserver", image("kube-apiserver"), json!({ "cpu": "250m" }), api_server(address)),
        ("kube-controller-manager", image("kube-controller-manager"), json!({ "cpu": "200m" }), controller_manager),
        ("kube-scheduler", image("kube-scheduler"), json!({ "cpu": "100m" }), of_scheduler),
    ]
}

fn manifest(component: &str, image: &str, requests: &Value, arguments: Vec<String>) -> Value {
    let command: Vec<String> = std::iter::once(component.to_owned()).chain(arguments).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "labels": { "component": component, "tier": "control-plane" }, "name": component, "namespace": "kube-system",
        },
        "spec": {
            "containers": [{
                "command": command, "image": image, "imagePullPolicy": "IfNotPresent", "name": component,
                "resources": { "requests": requests },
            }],
            "hostNetwork": true, "priority": 2_000_001_000, "priorityClassName": "system-node-critical",
            "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
        },
    })
}

/// The manifests of a control plane, by file.
fn manifests(place: &Place<'_>) -> BTreeMap<String, Value> {
    let components = components(place).into_iter();
    let file = |component: &str| format!("{MANIFESTS}/{component}.yaml");
    let manifest = |(component, image, requests, arguments): (&str, String, Value, _)| {
        (file(component), manifest(component, &image, &requests, arguments))
    };
    components.map(manifest).collect()
}

/// All files of a node.
pub(super) fn files(place: &Place<'_>) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |path: &str, text: String| files.insert(path.to_owned(), text);
    add("/etc/hostname", format!("{}\n", place.node));
    add("/kind/version", format!("v{}\n", place.version));
    add("/var/lib/kubelet/config.yaml", crate::system::yaml(&crate::system::kubelet_configuration()));
    add("/var/lib/kubelet/kubeadm-flags.env", format!("KUBELET_KUBEADM_ARGS=\"--node-ip={}\"\n", place.address));
    add(
        KUBELET_UNIT,
        format!(
            "[Service]\n\
             Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
             --kubeconfig=/etc/kubernetes/kubelet.conf\"\n\
             Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\n\
             EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\n\
             EnvironmentFile=-/etc/default/kubelet\n\
             ExecStart=\n\
             ExecStart={KUBELET} $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS \
             $KUBELET_EXTRA_ARGS\n"
        ),
    );
    if place.is_control_plane {
        add("/etc/kubernetes/admin.conf", place.administrator.to_owned());
        files.extend(manifests(place).into_iter().map(|(file, pod)| (file, crate::system::yaml(&pod))));
    }
    files
}
