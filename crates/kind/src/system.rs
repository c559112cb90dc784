//! What kubeadm leaves in a cluster beside its workloads: ConfigMaps of kube-system and `cluster-info`.

use serde_json::{Value, json};

use crate::configuration::Cluster;

/// What CoreDNS of a new cluster serves.
const COREFILE: &str = "\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";

/// The objects, for a cluster of this name and version.
pub fn objects(cluster: &Cluster, name: &str, version: &str) -> Vec<Value> {
    let networking = &cluster.networking;
    let endpoint = format!("{name}-control-plane:6443");
    let configuration = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "clusterName": name,
        "kubernetesVersion": format!("v{version}"), "controlPlaneEndpoint": endpoint,
        "certificatesDir": "/etc/kubernetes/pki", "imageRepository": "registry.k8s.io",
        "caCertificateValidityPeriod": "87600h0m0s", "certificateValidityPeriod": "8760h0m0s",
        "encryptionAlgorithm": "RSA-2048", "dns": {}, "proxy": {}, "scheduler": {},
        "etcd": { "local": { "dataDir": "/var/lib/etcd" } },
        "apiServer": { "certSANs": ["localhost", "127.0.0.1"], "extraArgs": [{ "name": "runtime-config", "value": "" }] },
        "controllerManager": { "extraArgs": [{ "name": "enable-hostpath-provisioner", "value": "true" }] },
        "networking": {
            "dnsDomain": "cluster.local", "podSubnet": networking.pod_subnet, "serviceSubnet": networking.service_subnet,
        },
    });
    let kubelet = kubelet_configuration();
    let proxy = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "bindAddress": "0.0.0.0",
        "clientConnection": { "kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf" },
        "clusterCIDR": networking.pod_subnet, "conntrack": { "maxPerCore": 0 }, "mode": networking.kube_proxy_mode,
    });
    let server = format!("https://{endpoint}");
    let kubeconfig = |cluster: &str| {
        json!({
            "apiVersion": "v1", "kind": "Config", "clusters": [{ "name": cluster, "cluster": { "server": server } }],
        })
    };
    let mut of_proxy = kubeconfig("default");
    of_proxy["contexts"] = json!([{ "name": "default", "context": { "cluster": "default", "user": "default" } }]);
    of_proxy["users"] = json!([{
        "name": "default", "user": { "tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token" },
    }]);
    of_proxy["current-context"] = json!("default");
    vec![
        map("kube-system", "coredns", &json!({ "Corefile": COREFILE })),
        map("kube-system", "kubeadm-config", &json!({ "ClusterConfiguration": yaml(&configuration) })),
        map("kube-system", "kubelet-config", &json!({ "kubelet": yaml(&kubelet) })),
        with_label(
            map(
                "kube-system",
                "kube-proxy",
                &json!({ "config.conf": yaml(&proxy), "kubeconfig.conf": yaml(&of_proxy) }),
            ),
            "kube-proxy",
        ),
        map("kube-public", "cluster-info", &json!({ "kubeconfig": yaml(&kubeconfig("")) })),
    ]
}

/// What the kubelets of a cluster are configured with.
pub(crate) fn kubelet_configuration() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd",
        "cgroupRoot": "/kubelet", "clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.local", "failSwapOn": false,
        "imageGCHighThresholdPercent": 100, "rotateCertificates": true, "staticPodPath": "/etc/kubernetes/manifests",
        "evictionHard": { "imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%" },
        "authentication": {
            "anonymous": { "enabled": false }, "webhook": { "cacheTTL": "0s", "enabled": true },
            "x509": { "clientCAFile": "/etc/kubernetes/pki/ca.crt" },
        },
        "authorization": { "mode": "Webhook" },
    })
}

fn map(namespace: &str, name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace }, "data": data })
}

fn with_label(mut map: Value, app: &str) -> Value {
    map["metadata"]["labels"] = json!({ "app": app });
    map
}

/// JSON is YAML, too, where a document cannot be written otherwise.
pub(crate) fn yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).unwrap_or_else(|_| document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_within_are_yaml() {
        let objects = objects(&Cluster::ordinary(), "demo", "1.36.2");
        let find = |name: &str| &objects.iter().find(|object| object["metadata"]["name"] == name).unwrap()["data"];
        let read = |value: &Value| serde_saphyr::from_str::<Value>(value.as_str().unwrap()).unwrap();
        let kubeadm = read(&find("kubeadm-config")["ClusterConfiguration"]);
        assert_eq!(
            (&kubeadm["clusterName"], &kubeadm["networking"]["podSubnet"]),
            (&json!("demo"), &json!("10.244.0.0/16"))
        );
        assert_eq!(read(&find("kube-proxy")["config.conf"])["mode"], "iptables");
        let info = read(&find("cluster-info")["kubeconfig"]);
        assert_eq!(info["clusters"][0]["cluster"]["server"], "https://demo-control-plane:6443");
        assert!(find("coredns")["Corefile"].as_str().unwrap().contains("kubernetes cluster.local"));
    }
}
