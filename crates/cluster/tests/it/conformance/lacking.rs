//! Pods that lack what they need beside an image: ConfigMaps, Secrets, a user who is not root, a name for a part of a volume.

use serde_json::{Value, json};

use super::ground::Ground;

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn create(ground: &Ground, name: &str, metadata: Value, spec: &Value) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
    pod["metadata"]["name"] = json!(name);
    ground.post(PODS, &pod).good();
    get(ground, name)
}

fn get(ground: &Ground, name: &str) -> Value {
    ground.get(&format!("{PODS}/{name}")).good()
}

/// The phase of a pod, and why its first container waits.
fn waits(pod: &Value) -> (&str, &str, &str) {
    let text = |value: &'static str, pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or(value);
    let waiting = "/status/containerStatuses/0/state/waiting";
    (text("", "/status/phase"), text("", &format!("{waiting}/reason")), text("", &format!("{waiting}/message")))
}

/// What has been said of a pod for this reason: each message, and how often.
fn events(ground: &Ground, pod: &str, reason: &str) -> Vec<(String, u64)> {
    let selector = format!("involvedObject.name={pod},reason={reason}");
    let list = ground.get(&format!("/api/v1/namespaces/default/events?fieldSelector={selector}")).good();
    let events = list["items"].as_array().into_iter().flatten();
    events
        .map(|event| (event["message"].as_str().unwrap_or_default().to_owned(), event["count"].as_u64().unwrap()))
        .collect()
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let all = pod["status"]["conditions"].as_array().into_iter().flatten();
    &all.into_iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)["status"]
}

fn map(ground: &Ground, name: &str) {
    ground.post(MAPS, &json!({ "metadata": { "name": name }, "data": { "there": "1" } })).good();
}

fn with_volume(volume: &Value) -> Value {
    let mut volume = volume.clone();
    volume["name"] = json!("settings");
    json!({ "volumes": [volume], "containers": [{
        "name": "main", "image": "busybox", "command": ["sleep", "3600"],
        "volumeMounts": [{ "name": "settings", "mountPath": "/etc/settings" }],
    }]})
}

// upstream test: [sig-storage] ConfigMap Should fail non-optional pod creation due to configMap object does not exist [Slow] [NodeConformance]
// upstream test: [sig-storage] ConfigMap Should fail non-optional pod creation due to the key in the configMap object does not exist [Slow] [NodeConformance]
// upstream test: [sig-storage] Secrets Should fail non-optional pod creation due to secret object does not exist [Slow] [NodeConformance]
// upstream test: [sig-storage] Secrets Should fail non-optional pod creation due to the key in the secret object does not exist [Slow] [NodeConformance]
// upstream test: [sig-storage] Projected configMap Should fail non-optional pod creation due to configMap object does not exist [Slow] [NodeConformance]
// upstream test: [sig-storage] Projected configMap Should fail non-optional pod creation due to the key in the configMap object does not exist [Slow] [NodeConformance]
// upstream test: [sig-storage] Projected secret Should fail non-optional pod creation due to secret object does not exist [Slow] [NodeConformance]
// upstream test: [sig-storage] Projected secret Should fail non-optional pod creation due to the key in the secret object does not exist [Slow] [NodeConformance]
#[test]
fn a_volume_that_cannot_be_filled_keeps_the_whole_pod_from_being_made() {
    let ground = Ground::with_nodes(1);
    map(&ground, "m");
    ground.post(SECRETS, &json!({ "metadata": { "name": "s" }, "data": { "there": "MQ==" } })).good();
    let keys = json!([{ "key": "there", "path": "a" }, { "key": "gone", "path": "b" }]);
    let projected = |sources: Value| json!({ "projected": { "sources": sources } });
    for (name, volume, fault) in [
        ("map", json!({ "configMap": { "name": "none" } }), "configmap \"none\" not found"),
        (
            "map-key",
            json!({ "configMap": { "name": "m", "items": keys } }),
            "configmap references non-existent config key: gone",
        ),
        ("secret", json!({ "secret": { "secretName": "none" } }), "secret \"none\" not found"),
        (
            "secret-key",
            json!({ "secret": { "secretName": "s", "items": keys } }),
            "references non-existent secret key: gone",
        ),
        ("part-map", projected(json!([{ "configMap": { "name": "none" } }])), "configmap \"none\" not found"),
        (
            "part-secret",
            projected(json!([{ "secret": { "name": "s", "items": keys } }])),
            "references non-existent secret key: gone",
        ),
        (
            "parts",
            projected(
                json!([{ "secret": { "name": "none" } }, { "configMap": { "name": "m", "items": keys } }, { "secret": { "name": "none" } }]),
            ),
            "[secret \"none\" not found, configmap references non-existent config key: gone]",
        ),
    ] {
        let pod = create(&ground, name, json!({}), &with_volume(&volume));
        assert_eq!(waits(&pod), ("Pending", "ContainerCreating", ""), "{name}");
        assert_eq!(
            (&pod["status"]["podIP"], condition(&pod, "PodReadyToStartContainers")),
            (&Value::Null, &json!("False"))
        );
        let message = format!("MountVolume.SetUp failed for volume \"settings\" : {fault}");
        assert_eq!(events(&ground, name, "FailedMount"), [(message, 1)], "{name}");
        assert!(events(&ground, name, "Pulled").is_empty());
    }
    for (name, volume) in [
        ("optional", json!({ "configMap": { "name": "none", "optional": true } })),
        ("optional-key", json!({ "secret": { "secretName": "s", "items": keys, "optional": true } })),
        (
            "parts-there",
            projected(json!([{ "configMap": { "name": "m" } }, { "secret": { "name": "none", "optional": true } }])),
        ),
    ] {
        assert_eq!(create(&ground, name, json!({}), &with_volume(&volume))["status"]["phase"], "Running", "{name}");
    }
    let mut unused = with_volume(&json!({ "configMap": { "name": "none" } }));
    unused["containers"][0].as_object_mut().unwrap().remove("volumeMounts");
    assert_eq!(create(&ground, "unused", json!({}), &unused)["status"]["phase"], "Running", "nobody mounts it");
}

#[test]
fn volumes_are_tried_again_less_and_less_often_and_a_pod_starts_once_they_are_there() {
    let ground = Ground::with_nodes(1);
    let spec = with_volume(&json!({ "configMap": { "name": "late" } }));
    create(&ground, "web", json!({}), &spec);
    let failed = "MountVolume.SetUp failed for volume \"settings\" : configmap \"late\" not found".to_owned();
    // At once, and 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 and 63.5 s later.
    ground.cluster.advance(std::time::Duration::from_secs(64));
    assert_eq!(events(&ground, "web", "FailedMount"), [(failed.clone(), 8)]);
    ground.cluster.advance(std::time::Duration::from_secs(60));
    let waited = "Unable to attach or mount volumes: unmounted volumes=[settings], unattached volumes=[], failed to process \
                  volumes=[]: context deadline exceeded";
    assert_eq!(events(&ground, "web", "FailedMount"), [(failed, 8), (waited.to_owned(), 1)]);
    map(&ground, "late");
    assert_eq!(get(&ground, "web")["status"]["phase"], "Pending", "the next try is due after 127.5 s");
    ground.cluster.advance(std::time::Duration::from_secs(4));
    let pod = get(&ground, "web");
    assert_eq!((&pod["status"]["phase"], condition(&pod, "Ready")), (&json!("Running"), &json!("True")));
    // What is mounted stays so.
    ground.delete(&format!("{MAPS}/late")).good();
    assert_eq!(get(&ground, "web")["status"]["phase"], "Running");

    // After a day nobody tries any more, until something changes.
    create(&ground, "other", json!({}), &spec);
    ground.cluster.advance(std::time::Duration::from_secs(24 * 60 * 60));
    assert_eq!(get(&ground, "other")["status"]["phase"], "Pending");
    map(&ground, "late");
    assert_eq!(get(&ground, "other")["status"]["phase"], "Running");
}

#[test]
fn a_deadline_ends_a_pod_that_waits_for_its_volumes_and_it_can_be_deleted() {
    let ground = Ground::with_nodes(1);
    let mut spec = with_volume(&json!({ "secret": { "secretName": "none" } }));
    create(&ground, "deleted", json!({}), &spec);
    ground.delete(&format!("{PODS}/deleted")).good();
    ground.cluster.advance(std::time::Duration::from_secs(31));
    assert_eq!(ground.get(&format!("{PODS}/deleted")).status, 404);
    spec["activeDeadlineSeconds"] = json!(20);
    create(&ground, "late", json!({}), &spec);
    ground.cluster.advance(std::time::Duration::from_secs(21));
    let status = get(&ground, "late")["status"].clone();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")), "{status}");
}

fn with_variable(from: &Value) -> Value {
    json!({ "containers": [{
        "name": "main", "image": "busybox", "command": ["sleep", "3600"], "env": [{ "name": "V", "valueFrom": from }],
    }]})
}

#[test]
fn a_container_whose_variables_come_from_nowhere_is_not_created_until_they_are_there() {
    let ground = Ground::with_nodes(1);
    map(&ground, "m");
    ground.post(SECRETS, &json!({ "metadata": { "name": "s" }, "data": { "there": "MQ==" } })).good();
    for (name, from, fault) in [
        ("map", json!({ "configMapKeyRef": { "name": "none", "key": "there" } }), "configmap \"none\" not found"),
        (
            "map-key",
            json!({ "configMapKeyRef": { "name": "m", "key": "gone" } }),
            "couldn't find key gone in ConfigMap default/m",
        ),
        ("secret", json!({ "secretKeyRef": { "name": "none", "key": "there" } }), "secret \"none\" not found"),
        (
            "secret-key",
            json!({ "secretKeyRef": { "name": "s", "key": "gone" } }),
            "couldn't find key gone in Secret default/s",
        ),
    ] {
        let pod = create(&ground, name, json!({}), &with_variable(&from));
        assert_eq!(waits(&pod), ("Pending", "CreateContainerConfigError", fault), "{name}");
        assert!(pod["status"]["podIP"].is_string() && condition(&pod, "PodReadyToStartContainers") == "True", "{pod}");
        assert_eq!(events(&ground, name, "Failed"), [(format!("Error: {fault}"), 1)]);
        assert_eq!(events(&ground, name, "Pulled").len(), 1);
        let logs = ground.get(&format!("{PODS}/{name}/log"));
        assert!(logs.refused(400).ends_with("is waiting to start: CreateContainerConfigError"), "{name}");
    }
    let mut whole = with_variable(&json!({ "configMapKeyRef": { "name": "none", "key": "k", "optional": true } }));
    assert_eq!(create(&ground, "optional", json!({}), &whole)["status"]["phase"], "Running");
    whole["containers"][0]["envFrom"] =
        json!([{ "secretRef": { "name": "none", "optional": true } }, { "configMapRef": { "name": "late" } }]);
    let pod = create(&ground, "whole", json!({}), &whole);
    assert_eq!(waits(&pod), ("Pending", "CreateContainerConfigError", "configmap \"late\" not found"));
    ground.cluster.advance(std::time::Duration::from_secs(25));
    assert_eq!(events(&ground, "whole", "Failed"), [("Error: configmap \"late\" not found".to_owned(), 3)]);
    map(&ground, "late");
    assert_eq!(get(&ground, "whole")["status"]["phase"], "Pending", "every ten seconds, not sooner");
    ground.cluster.advance(std::time::Duration::from_secs(5));
    let pod = get(&ground, "whole");
    assert_eq!(
        (&pod["status"]["phase"], &pod["status"]["containerStatuses"][0]["restartCount"]),
        (&json!("Running"), &json!(0))
    );
    // A day later somebody makes what another one waits for.
    ground.cluster.advance(std::time::Duration::from_secs(24 * 60 * 60));
    map(&ground, "none");
    assert_eq!(waits(&get(&ground, "map")).0, "Running");
    assert_eq!(waits(&get(&ground, "secret")).0, "Pending");
}

#[test]
fn a_container_that_ends_is_not_created_again_without_its_variables() {
    let ground = Ground::with_nodes(1);
    map(&ground, "m");
    let mut spec = with_variable(&json!({ "configMapKeyRef": { "name": "m", "key": "there" } }));
    spec["containers"][0]["command"] = json!(["sh", "-c", "sleep 60; exit 3"]);
    create(&ground, "web", json!({}), &spec);
    ground.delete(&format!("{MAPS}/m")).good();
    ground.cluster.advance(std::time::Duration::from_secs(61));
    let pod = get(&ground, "web");
    assert_eq!(waits(&pod), ("Running", "CreateContainerConfigError", "configmap \"m\" not found"));
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!((&status["lastState"]["terminated"]["exitCode"], &status["restartCount"]), (&json!(3), &json!(0)));
    map(&ground, "m");
    ground.cluster.advance(std::time::Duration::from_secs(10));
    assert_eq!(get(&ground, "web")["status"]["containerStatuses"][0]["restartCount"], 1);
}

// upstream test: [sig-node] Security Context When creating a container with runAsNonRoot [NodeConformance] should not run with an explicit root user ID [LinuxOnly]
// upstream test: [sig-node] Security Context When creating a container with runAsNonRoot [NodeConformance] should not run without a specified user ID
// upstream test: [sig-node] Security Context When creating a container with runAsNonRoot [NodeConformance] should run with an explicit non-root user ID [LinuxOnly]
// upstream test: [sig-node] Security Context When creating a container with runAsNonRoot [NodeConformance] should run with an image specified user ID
#[test]
fn who_may_not_be_root_is_not_started_as_root() {
    let ground = Ground::with_nodes(1);
    let pod = |image: &str, context: Value| json!({ "containers": [{ "name": "main", "image": image, "command": ["sleep", "3600"], "securityContext": context }] });
    for (name, spec, fault) in [
        (
            "explicit",
            pod("busybox", json!({ "runAsNonRoot": true, "runAsUser": 0 })),
            "container's runAsUser breaks non-root policy",
        ),
        (
            "implicit",
            pod("busybox", json!({ "runAsNonRoot": true })),
            "container has runAsNonRoot and image will run as root",
        ),
    ] {
        let pod = create(&ground, name, json!({}), &spec);
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let fault = format!("{fault} (pod: \"{name}_default({uid})\", container: main)");
        assert_eq!(waits(&pod), ("Pending", "CreateContainerConfigError", &*fault));
        assert_eq!(events(&ground, name, "Failed"), [(format!("Error: {fault}"), 1)]);
    }
    for (name, spec) in [
        ("user", pod("busybox", json!({ "runAsNonRoot": true, "runAsUser": 1234 }))),
        ("image", pod("registry.k8s.io/e2e-test-images/nonroot:1.4", json!({ "runAsNonRoot": true }))),
    ] {
        assert_eq!(create(&ground, name, json!({}), &spec)["status"]["phase"], "Running", "{name}");
    }
}

/// A pod with a part of a volume that an annotation names.
fn with_part(path: &str) -> Value {
    json!({
        "containers": [{
            "name": "main", "image": "busybox", "command": ["sleep", "3600"],
            "env": [{ "name": "PART", "valueFrom": { "fieldRef": { "fieldPath": format!("metadata.annotations['{path}']") } } }],
            "volumeMounts": [{ "name": "work", "mountPath": "/work", "subPathExpr": "$(PART)" }],
        }],
        "volumes": [{ "name": "work", "emptyDir": {} }],
    })
}

// upstream test: [sig-node] Variable Expansion should fail substituting values in a volume subpath with backticks [Conformance]
// upstream test: [sig-node] Variable Expansion should fail substituting values in a volume subpath with absolute path [Conformance]
// upstream test: [sig-node] Variable Expansion should verify that a failing subpath expansion can be modified during the lifecycle of a container [Slow] [Conformance]
#[test]
fn a_part_of_a_volume_without_a_good_name_is_waited_for() {
    let ground = Ground::with_nodes(1);
    for (name, value, fault) in [
        ("up", "..", "unable to provision SubPath `..`: must not contain '..'"),
        ("absolute", "/tmp", "error SubPath `/tmp` must not be an absolute path"),
    ] {
        let pod = create(&ground, name, json!({ "annotations": { "part": value } }), &with_part("part"));
        assert_eq!(waits(&pod), ("Pending", "CreateContainerConfigError", fault));
    }
    let pod = create(&ground, "none", json!({}), &with_part("part"));
    assert_eq!(waits(&pod), ("Pending", "CreateContainerConfigError", "missing value for PART"));
    ground.cluster.advance(std::time::Duration::from_secs(60 * 60));
    ground.merge(&format!("{PODS}/none"), &json!({ "metadata": { "annotations": { "part": "logs" } } })).good();
    assert_eq!(get(&ground, "none")["status"]["phase"], "Running");
}
