//! Defaults of pods and pod templates.

// upstream: pkg/apis/core/v1/defaults.go SetDefaults_PodSpec, SetDefaults_Container (v1.36)

use klab_scheduler::admission;
use serde_json::{Value, json};

use super::field::{each, set};
use super::storage::claim;
use crate::pod_resources::container_amounts;

const DEFAULT_MODE: i64 = 0o644;

/// A pod: the template's defaults and those that only pods have.
pub fn pod(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "enableServiceLinks", true);
    let host_network = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            requests_from_limits(container);
            if host_network {
                for port in each(container, "ports") {
                    let number = port["containerPort"].clone();
                    set(port, "hostPort", number);
                }
            }
        }
    }
    pod_resources(spec);
    pod_spec(spec);
    // upstream: pkg/apis/core/v1/conversion.go Convert_v1_Pod_To_core_Pod (v1.36)
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = json!(1);
    }
}

/// The `template` of a workload.
pub fn template(template: &mut Value) {
    pod_spec(&mut template["spec"]);
}

/// A limit without a request is also the request.
fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"].get("limits").and_then(Value::as_object).cloned() else { return };
    set(&mut container["resources"], "requests", json!({}));
    for (name, amount) in limits {
        set(&mut container["resources"]["requests"], &name, amount);
    }
}

/// What a pod that has resources of its own requests, where it does not say. Amounts that cannot be read are refused later.
fn pod_resources(spec: &mut Value) {
    if !spec["resources"].is_object() {
        return;
    }
    let Some(mut pod) = container_amounts(spec) else { return };
    if admission::default_pod_resources(&mut pod).is_ok()
        && let Some(resources) = pod.spec.and_then(|spec| serde_json::to_value(spec.resources).ok())
    {
        spec["resources"] = resources;
    }
}

fn pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set(spec, "securityContext", json!({}));
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    // The account has an old name and a new one; the new one wins, and both are shown.
    let account = [&spec["serviceAccountName"], &spec["serviceAccount"]].into_iter().find(|name| name.is_string());
    if let Some(account) = account.cloned() {
        spec["serviceAccount"] = account.clone();
        spec["serviceAccountName"] = account;
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list).for_each(container);
    }
    each(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let policy = if tag_of(image) == "latest" { "Always" } else { "IfNotPresent" };
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    for port in each(container, "ports") {
        set(port, "protocol", "TCP");
    }
    for variable in each(container, "env") {
        if variable["valueFrom"]["fieldRef"].is_object() {
            set(&mut variable["valueFrom"]["fieldRef"], "apiVersion", "v1");
        }
        if variable["valueFrom"]["fileKeyRef"].is_object() {
            set(&mut variable["valueFrom"]["fileKeyRef"], "optional", false);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) else { continue };
        set(probe, "timeoutSeconds", 1);
        set(probe, "periodSeconds", 10);
        set(probe, "successThreshold", 1);
        set(probe, "failureThreshold", 3);
        if probe["grpc"].is_object() {
            set(&mut probe["grpc"], "service", "");
        }
        http_get(probe);
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook)) {
            http_get(hook);
        }
    }
}

fn http_get(handler: &mut Value) {
    let Some(request) = handler.get_mut("httpGet").filter(|request| request.is_object()) else { return };
    set(request, "path", "/");
    set(request, "scheme", "HTTP");
}

/// The tag of an image name; `latest` if it has neither tag nor digest.
fn tag_of(image: &str) -> &str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    // A colon before the last slash belongs to a registry's port.
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag,
        None if digest.is_some() => "",
        None => "latest",
    }
}

fn volume(volume: &mut Value) {
    let Some(map) = volume.as_object_mut() else { return };
    if map.keys().all(|key| key == "name") {
        map.insert("emptyDir".to_owned(), json!({}));
    }
    for (name, source) in map.iter_mut().filter(|(_, source)| source.is_object()) {
        match name.as_str() {
            "secret" | "configMap" => set(source, "defaultMode", DEFAULT_MODE),
            "downwardAPI" => {
                set(source, "defaultMode", DEFAULT_MODE);
                downward(source);
            }
            "projected" => {
                set(source, "defaultMode", DEFAULT_MODE);
                for one in each(source, "sources") {
                    if let Some(files) = one.get_mut("downwardAPI") {
                        downward(files);
                    }
                    if one["serviceAccountToken"].is_object() {
                        set(&mut one["serviceAccountToken"], "expirationSeconds", 3600);
                    }
                }
            }
            "hostPath" => set(source, "type", ""),
            "ephemeral" if source["volumeClaimTemplate"].is_object() => claim(&mut source["volumeClaimTemplate"]),
            "iscsi" => set(source, "iscsiInterface", "default"),
            "azureDisk" => {
                set(source, "cachingMode", "ReadWrite");
                set(source, "fsType", "ext4");
                set(source, "readOnly", false);
                set(source, "kind", "Shared");
            }
            _ => {}
        }
    }
}

fn downward(source: &mut Value) {
    for item in each(source, "items") {
        if item["fieldRef"].is_object() {
            set(&mut item["fieldRef"], "apiVersion", "v1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_are_latest() {
        for (image, tag) in [
            ("nginx", "latest"),
            ("nginx:latest", "latest"),
            ("nginx:1.27", "1.27"),
            ("localhost:5000/nginx", "latest"),
            ("localhost:5000/nginx:2", "2"),
            ("nginx@sha256:aa", ""),
            ("nginx:1@sha256:aa", "1"),
        ] {
            assert_eq!(tag_of(image), tag, "{image}");
        }
    }

    #[test]
    fn limits_of_all_containers_together_become_requests() {
        let of = |resources: Value| {
            let mut value = json!({ "spec": { "resources": resources, "containers": [{ "name": "a", "image": "b" }],
                "initContainers": [{ "name": "i", "image": "b", "resources": { "limits": { "cpu": "300m" } } }] } });
            pod(&mut value);
            value["spec"]["resources"].clone()
        };
        let limits = json!({ "memory": "900Gi", "hugepages-2Mi": "4Mi" });
        let requests = json!({ "memory": "900Gi", "hugepages-2Mi": "4Mi", "cpu": "300m" });
        assert_eq!(of(json!({ "limits": limits })), json!({ "limits": limits, "requests": requests }));
        assert_eq!(of(json!({})), json!({}), "nothing is given");
    }

    #[test]
    fn limits_become_requests_in_pods_only() {
        let container = json!({ "name": "a", "image": "b", "resources": { "limits": { "cpu": "1" } } });
        let mut value = json!({ "spec": { "containers": [container] } });
        pod(&mut value);
        assert_eq!(value["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
        let mut value = json!({ "spec": { "containers": [container] } });
        template(&mut value);
        assert!(value["spec"]["containers"][0]["resources"].get("requests").is_none());
    }

    #[test]
    fn volumes_without_a_source_are_empty_directories() {
        let mut value = json!({ "spec": { "containers": [], "volumes": [{ "name": "a" }, { "name": "b", "secret": { "secretName": "s" } }] } });
        pod(&mut value);
        assert_eq!(value["spec"]["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(value["spec"]["volumes"][1]["secret"]["defaultMode"], 420);
    }
}
