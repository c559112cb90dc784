//! What a pod may ask for: RuntimeClasses, LimitRanges on resizes, quota scopes, kernel parameters, tolerations.

use serde_json::{Value, json};

use super::ground::Ground;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": name }, "handler": "sandbox",
        "overhead": { "podFixed": { "cpu": "10m", "memory": "1Mi" } },
        "scheduling": {
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "tolerations": [{ "key": "sandboxed", "operator": "Exists", "effect": "NoSchedule" }],
        },
    })
}

// upstream test: [sig-node] RuntimeClass should reject a Pod requesting a non-existent RuntimeClass [NodeConformance] [Conformance]
// upstream test: [sig-node] RuntimeClass should reject a Pod requesting a deleted RuntimeClass [NodeConformance] [Conformance]
#[test]
fn a_pod_of_a_runtime_class_that_is_not_there_is_refused() {
    let ground = Ground::with_nodes(1);
    let wanted = |name: &str| pod(name, &json!({ "runtimeClassName": "sandbox" }));
    let message = ground.post(PODS, &wanted("early")).refused(403);
    assert_eq!(message, "pods \"early\" is forbidden: pod rejected: RuntimeClass \"sandbox\" not found");
    ground.post(CLASSES, &class("sandbox")).good();
    ground.post(PODS, &wanted("in-time")).good();
    ground.delete(&format!("{CLASSES}/sandbox")).good();
    ground.post(PODS, &wanted("late")).refused(403);
}

// upstream test: [sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass and initialize its Overhead [NodeConformance] [Conformance]
#[test]
fn a_runtime_class_gives_its_pods_overhead_and_places() {
    let ground = Ground::with_nodes(1);
    ground.post(CLASSES, &class("sandbox")).good();
    ground.post(PODS, &pod("web", &json!({ "runtimeClassName": "sandbox" }))).good();
    let web = ground.get(&format!("{PODS}/web")).good();
    assert_eq!(web["spec"]["overhead"], json!({ "cpu": "10m", "memory": "1Mi" }));
    assert_eq!(web["spec"]["nodeSelector"], json!({ "kubernetes.io/os": "linux" }));
    assert_eq!(web["spec"]["tolerations"][2]["key"], "sandboxed");
    assert_eq!(web["spec"]["nodeName"], "node-0");
}

// upstream test: [sig-node] RuntimeClass should reject a Pod requesting a RuntimeClass with conflicting node selector
#[test]
fn a_pod_that_contradicts_its_runtime_class_is_refused() {
    let ground = Ground::with_nodes(1);
    ground.post(CLASSES, &class("sandbox")).good();
    for (spec, wanted) in [
        (
            json!({ "nodeSelector": { "kubernetes.io/os": "windows" } }),
            "conflict: runtimeClass.scheduling.nodeSelector",
        ),
        (json!({ "overhead": { "cpu": "1" } }), "doesn't match RuntimeClass's defined Overhead"),
    ] {
        let mut spec = spec;
        spec["runtimeClassName"] = json!("sandbox");
        let message = ground.post(PODS, &pod("web", &spec)).refused(403);
        assert!(message.contains(wanted), "{message}");
    }
    let message = ground.post(PODS, &pod("web", &json!({ "overhead": { "cpu": "1" } }))).refused(403);
    assert!(message.ends_with("Pod Overhead set without corresponding RuntimeClass defined Overhead"), "{message}");
    let change = ground.merge(&format!("{CLASSES}/sandbox"), &json!({ "handler": "other" })).refused(422);
    assert!(change.ends_with("handler: Invalid value: \"other\": field is immutable"), "{change}");
}

// upstream test: [sig-node] Pod InPlace Resize Container (limit-ranger) [FeatureGate:InPlacePodVerticalScaling] pod-resize-limit-ranger-test exceed maximum CPU
// upstream test: [sig-node] Pod InPlace Resize Container (limit-ranger) [FeatureGate:InPlacePodVerticalScaling] pod-resize-limit-ranger-test exceed maximum Memory
// upstream test: [sig-node] Pod InPlace Resize Container (limit-ranger) [FeatureGate:InPlacePodVerticalScaling] pod-resize-limit-ranger-test exceed maximum Memory and CPU
// upstream test: [sig-node] Pod InPlace Resize Container (limit-ranger) [FeatureGate:InPlacePodVerticalScaling] pod-resize-limit-ranger-test request below min CPU
// upstream test: [sig-node] Pod InPlace Resize Container (limit-ranger) [FeatureGate:InPlacePodVerticalScaling] pod-resize-limit-ranger-test request below min CPU and min Memory
// upstream test: [sig-node] Pod InPlace Resize Container (limit-ranger) [FeatureGate:InPlacePodVerticalScaling] pod-resize-limit-ranger-test request below min Memory
#[test]
fn resizes_stay_within_limit_ranges() {
    let ground = Ground::with_nodes(0);
    let limits = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "bounds" },
        "spec": { "limits": [{
            "type": "Container", "min": { "cpu": "50m", "memory": "50Mi" }, "max": { "cpu": "500m", "memory": "500Mi" },
        }] },
    });
    ground.post("/api/v1/namespaces/default/limitranges", &limits).good();
    let of = |request: (&str, &str), limit: (&str, &str)| {
        json!([{ "name": "main", "image": "nginx:1.27", "resources": {
            "requests": { "cpu": request.0, "memory": request.1 }, "limits": { "cpu": limit.0, "memory": limit.1 },
        } }])
    };
    ground.post(PODS, &pod("web", &json!({ "containers": of(("100m", "100Mi"), ("300m", "300Mi")) }))).good();
    let resize = |containers: Value| {
        ground.merge(&format!("{PODS}/web/resize"), &json!({ "spec": { "containers": containers } }))
    };
    let cpu_max = "maximum cpu usage per Container is 500m, but limit is 600m";
    let memory_max = "maximum memory usage per Container is 500Mi, but limit is 600Mi";
    let cpu_min = "minimum cpu usage per Container is 50m, but request is 10m";
    let memory_min = "minimum memory usage per Container is 50Mi, but request is 10Mi";
    for (request, limit, wanted) in [
        (("100m", "100Mi"), ("600m", "300Mi"), cpu_max.to_owned()),
        (("100m", "100Mi"), ("300m", "600Mi"), memory_max.to_owned()),
        (("100m", "100Mi"), ("600m", "600Mi"), format!("[{cpu_max}, {memory_max}]")),
        (("10m", "100Mi"), ("300m", "300Mi"), cpu_min.to_owned()),
        (("10m", "10Mi"), ("300m", "300Mi"), format!("[{cpu_min}, {memory_min}]")),
        (("100m", "10Mi"), ("300m", "300Mi"), memory_min.to_owned()),
    ] {
        let message = resize(of(request, limit)).refused(403);
        assert_eq!(message, format!("pods \"web\" is forbidden: {wanted}"));
    }
    resize(of(("200m", "200Mi"), ("500m", "500Mi"))).good();
    let web = ground.get(&format!("{PODS}/web")).good();
    assert_eq!(web["spec"]["containers"][0]["resources"]["requests"]["cpu"], "200m");
    for (containers, wanted) in [
        (of(("600m", "200Mi"), ("500m", "500Mi")), "must be less than or equal to cpu limit of 500m"),
        (of(("500m", "500Mi"), ("500m", "500Mi")), "Pod QOS Class may not change as a result of resizing"),
        (json!([]), "spec.containers: Forbidden: containers may not be added or removed on resize"),
    ] {
        let message = resize(containers).refused(422);
        assert!(message.contains(wanted), "{message}");
    }
}

// upstream test: [sig-node] Sysctls [LinuxOnly] [NodeConformance] should reject invalid sysctls [Conformance]
#[test]
fn names_of_kernel_parameters_must_be_names() {
    let ground = Ground::with_nodes(0);
    let sysctls =
        ["foo-", "kernel.shmmax", "safe-and-unsafe", "bar.."].map(|name| json!({ "name": name, "value": "1" }));
    let message = ground.post(PODS, &pod("web", &json!({ "securityContext": { "sysctls": sysctls } }))).refused(422);
    for (at, name) in [(0, "foo-"), (3, "bar..")] {
        let start =
            format!("spec.securityContext.sysctls[{at}].name: Invalid value: \"{name}\": must have at most 253 ");
        assert!(message.contains(&start), "{message}");
    }
    assert!(!message.contains("sysctls[1]") && !message.contains("sysctls[2]"), "{message}");
}

// upstream test: [sig-node] Pods Extended (pod generation) Pod Generation pod generation should start at 1 and increment per update [MinimumKubeletVersion:1.34] [Conformance]
#[test]
fn a_pod_is_tolerant_of_failing_nodes_after_an_update_too() {
    let ground = Ground::with_nodes(1);
    ground.post(PODS, &pod("web", &json!({}))).good();
    let path = format!("{PODS}/web");
    let changes = [
        json!({ "spec": { "activeDeadlineSeconds": 5000 } }),
        json!({ "spec": { "tolerations": [{ "key": "own", "operator": "Exists", "effect": "NoSchedule" }] } }),
        json!({ "metadata": { "labels": { "a": "b" } } }),
    ];
    let mut generations = vec![ground.get(&path).good()["metadata"]["generation"].clone()];
    for change in changes {
        generations.push(ground.merge(&path, &change).good()["metadata"]["generation"].clone());
    }
    assert_eq!(generations, [1, 2, 3, 3]);
    let web = ground.get(&path).good();
    let keys: Vec<&str> =
        web["spec"]["tolerations"].as_array().unwrap().iter().filter_map(|one| one["key"].as_str()).collect();
    assert_eq!(keys, ["own", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
}

// upstream test: [sig-api-machinery] ResourceQuota [FeatureGate:VolumeAttributesClass] should verify ResourceQuota's volume attributes class scope (quota set to pvc count: 1) against 2 pvcs with same volume attributes class.
// upstream test: [sig-api-machinery] ResourceQuota [FeatureGate:VolumeAttributesClass] should verify ResourceQuota's volume attributes class scope (quota set to pvc count: 1) against a pvc with different volume attributes class.
#[test]
fn quotas_count_claims_by_their_class_of_attributes() {
    let ground = Ground::with_nodes(0);
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "gold" },
        "spec": { "hard": { "persistentvolumeclaims": "1" }, "scopeSelector": { "matchExpressions": [
            { "scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"] },
        ] } },
    });
    ground.post("/api/v1/namespaces/default/resourcequotas", &quota).good();
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str, class: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": class,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        })
    };
    let used = || {
        let quota = ground.get("/api/v1/namespaces/default/resourcequotas/gold").good();
        quota["status"]["used"]["persistentvolumeclaims"].clone()
    };
    ground.post(claims, &claim("other", "silver")).good();
    assert_eq!(used(), "0");
    ground.post(claims, &claim("one", "gold")).good();
    assert_eq!(used(), "1");
    let message = ground.post(claims, &claim("two", "gold")).refused(403);
    assert!(message.contains("exceeded quota: gold, requested: persistentvolumeclaims=1"), "{message}");
    ground.delete(&format!("{claims}/one")).good();
    assert_eq!(used(), "0");
    // A claim that is bound has the class of its volume until it is modified.
    let mut bound = claim("bound", "gold");
    bound["spec"]["storageClassName"] = json!("");
    ground.post(claims, &bound).good();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "disk" },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": "gold",
            "csi": { "driver": "disks.example.com", "volumeHandle": "1" },
        },
    });
    ground.post("/api/v1/persistentvolumes", &volume).good();
    let modified = json!({ "spec": { "volumeAttributesClassName": "silver" } });
    let modified = ground.merge(&format!("{claims}/bound"), &modified).good();
    assert_eq!(modified["status"]["currentVolumeAttributesClassName"], "gold");
    assert_eq!(used(), "1");
}

#[test]
fn label_keys_become_conditions_of_selectors() {
    let ground = Ground::with_nodes(0);
    let mut web = pod(
        "web",
        &json!({
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { "app": "web" } }, "matchLabelKeys": ["version", "absent"],
            }],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["version"],
            }] } },
        }),
    );
    web["metadata"]["labels"] = json!({ "app": "web", "version": "v1" });
    let made = ground.post(PODS, &web).good();
    let condition = |operator: &str| json!([{ "key": "version", "operator": operator, "values": ["v1"] }]);
    let spread = &made["spec"]["topologySpreadConstraints"][0]["labelSelector"];
    assert_eq!(spread["matchExpressions"], condition("In"));
    let apart = &made["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["labelSelector"]["matchExpressions"], condition("NotIn"));
    web["spec"]["topologySpreadConstraints"][0]["matchLabelKeys"] = json!(["app"]);
    web["metadata"]["name"] = json!("other");
    let message = ground.post(PODS, &web).refused(422);
    assert!(message.contains("exists in both matchLabelKeys and labelSelector"), "{message}");
}
