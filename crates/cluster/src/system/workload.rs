//! Manifests of system workloads, built from what differs between them.

use serde_json::{Map, Value, json};

/// A container with its requests and limits, as text such as `100m`; empty text means none.
pub(super) struct Container {
    name: &'static str,
    image: &'static str,
    /// CPU and memory asked for.
    requests: (&'static str, &'static str),
    /// CPU and memory allowed.
    limits: (&'static str, &'static str),
}

/// A container of this name.
pub(super) fn container(
    name: &'static str,
    image: &'static str,
    requests: (&'static str, &'static str),
    limits: (&'static str, &'static str),
) -> Container {
    Container { name, image, requests, limits }
}

impl Container {
    fn manifest(&self) -> Value {
        let map = |(cpu, memory): (&str, &str)| {
            let mut map = Map::new();
            for (name, amount) in [("cpu", cpu), ("memory", memory)] {
                if !amount.is_empty() {
                    map.insert(name.to_owned(), json!(amount));
                }
            }
            map
        };
        let mut resources = Map::new();
        for (name, amounts) in [("requests", map(self.requests)), ("limits", map(self.limits))] {
            if !amounts.is_empty() {
                resources.insert(name.to_owned(), Value::Object(amounts));
            }
        }
        json!({
            "name": self.name, "image": self.image, "resources": resources, "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    }
}

/// A workload of kube-system, or of another namespace.
pub(super) struct Workload {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
    /// Label by which its pods are selected.
    pub(super) selector: (&'static str, &'static str),
    pub(super) containers: Vec<Container>,
    pub(super) priority_class: &'static str,
    pub(super) tolerations: Value,
    pub(super) affinity: Value,
    pub(super) node_selector: Value,
    pub(super) host_network: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            namespace: "kube-system",
            name: "",
            selector: ("k8s-app", ""),
            containers: Vec::new(),
            priority_class: "",
            tolerations: Value::Null,
            affinity: Value::Null,
            node_selector: Value::Null,
            host_network: false,
        }
    }
}

impl Workload {
    /// Its ServiceAccount and a Deployment.
    pub(super) fn deployment(&self, replicas: u32) -> Vec<Value> {
        let spec = json!({
            "replicas": replicas, "selector": { "matchLabels": self.labels() }, "template": self.template(),
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 } },
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        });
        vec![self.account(), self.object("Deployment", spec)]
    }

    /// Its ServiceAccount and a DaemonSet.
    pub(super) fn daemon_set(&self) -> Vec<Value> {
        let spec = json!({
            "selector": { "matchLabels": self.labels() }, "template": self.template(),
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } },
            "revisionHistoryLimit": 10,
        });
        vec![self.account(), self.object("DaemonSet", spec)]
    }

    fn labels(&self) -> Value {
        json!({ self.selector.0: self.selector.1 })
    }

    fn object(&self, kind: &str, spec: Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": kind,
            "metadata": { "name": self.name, "namespace": self.namespace, "labels": self.labels() },
            "spec": spec,
        })
    }

    fn account(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": self.name, "namespace": self.namespace },
        })
    }

    fn template(&self) -> Value {
        let mut spec = json!({
            "containers": self.containers.iter().map(Container::manifest).collect::<Vec<_>>(),
            "serviceAccountName": self.name, "serviceAccount": self.name, "restartPolicy": "Always",
            "dnsPolicy": if self.host_network { "ClusterFirstWithHostNet" } else { "ClusterFirst" },
            "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
        });
        if let Some(spec) = spec.as_object_mut() {
            for (field, value) in [
                ("tolerations", &self.tolerations),
                ("affinity", &self.affinity),
                ("nodeSelector", &self.node_selector),
            ] {
                if !value.is_null() {
                    spec.insert(field.to_owned(), value.clone());
                }
            }
            if self.host_network {
                spec.insert("hostNetwork".to_owned(), json!(true));
            }
            if !self.priority_class.is_empty() {
                spec.insert("priorityClassName".to_owned(), json!(self.priority_class));
            }
        }
        json!({ "metadata": { "labels": self.labels() }, "spec": spec })
    }
}

/// A Service in front of a system workload.
pub(super) fn service(name: &str, label: (&str, &str), address: &str, ports: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": "kube-system", "labels": { label.0: label.1 } },
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "selector": { label.0: label.1 }, "ports": ports,
        },
    })
}

/// The ports of a cluster's DNS service.
pub(super) fn dns_ports() -> Value {
    json!([
        { "name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53 },
        { "name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53 },
    ])
}

/// A storage class; the default one carries the annotation that says so.
pub(super) fn storage_class(name: &str, provisioner: &str, binding: &str, parameters: Value, default: bool) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
        "provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": binding,
    });
    if parameters.as_object().is_some_and(|map| !map.is_empty()) {
        class["parameters"] = parameters;
        class["allowVolumeExpansion"] = json!(true);
    }
    if default {
        class["metadata"]["annotations"] = json!({ "storageclass.kubernetes.io/is-default-class": "true" });
    }
    class
}
