//! Field managers, server-side apply and the three merging patches.

mod scale;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, ResourceId, STATEFUL_SETS};
use klab_api_machinery::status::Status;
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, FieldValidation, Part, WriteOptions};
use klab_fields::Patch;
use proptest::prelude::*;
use serde_json::{Value, json};

fn cluster() -> (Arc<SteppedClock>, Cluster) {
    let clock = Arc::new(SteppedClock::new(Timestamp::from_second(1_800_000_000).expect("in range")));
    (Arc::clone(&clock), Cluster::new(clock, 7))
}

fn apply(
    cluster: &Cluster,
    manager: &str,
    resource: ResourceId,
    value: Value,
    force: bool,
) -> Result<(Value, bool), Status> {
    let name = value["metadata"]["name"].as_str().expect("a name").to_owned();
    let options = WriteOptions::client(manager);
    let (object, created) =
        cluster.patch(resource, Part::Main, "default", &name, Patch::Apply { value, force }, &options)?;
    Ok((object.whole(), created))
}

fn config_map(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "ssa" }, "data": data })
}

fn deployment(extra: Value) -> Value {
    let mut value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.27", "ports": [{ "containerPort": 80 }] }] },
            },
        },
    });
    json_patch::merge(&mut value, &extra);
    value
}

/// The steps a real server was asked for, with its answers.
#[test]
fn managers_share_lose_and_fight_over_fields() {
    let (clock, cluster) = cluster();
    let (first, created) = apply(&cluster, "alpha", CONFIG_MAPS, config_map(json!({ "a": "1" })), false).expect("made");
    assert!(created);
    assert_eq!(
        first["metadata"]["managedFields"],
        json!([{
            "manager": "alpha", "operation": "Apply", "apiVersion": "v1", "time": "2027-01-15T08:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:data": { "f:a": {} } },
        }])
    );
    clock.step(SignedDuration::from_secs(5));
    let (again, created) = apply(&cluster, "alpha", CONFIG_MAPS, config_map(json!({ "a": "1" })), false).expect("same");
    assert!(!created);
    assert_eq!(again, first, "nothing changes, not even times");
    let (both, _) =
        apply(&cluster, "beta", CONFIG_MAPS, config_map(json!({ "b": "1" })), false).expect("another field");
    assert_eq!(both["data"], json!({ "a": "1", "b": "1" }));
    let refused = apply(&cluster, "beta", CONFIG_MAPS, config_map(json!({ "a": "2" })), false).expect_err("conflict");
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"alpha\": .data.a");
    assert_eq!(
        refused.details["causes"],
        json!([{ "reason": "FieldManagerConflict", "message": "conflict with \"alpha\"", "field": ".data.a" }])
    );
    let (forced, _) = apply(&cluster, "beta", CONFIG_MAPS, config_map(json!({ "a": "2" })), true).expect("forced");
    assert_eq!(forced["data"], json!({ "a": "2" }), "beta's old field went, alpha's was taken");
    assert_eq!(forced["metadata"]["managedFields"].as_array().map(Vec::len), Some(1));
    let (emptied, _) = apply(&cluster, "beta", CONFIG_MAPS, config_map(json!({})), false).expect("emptied");
    assert!(emptied.get("data").is_none());
    assert_eq!(emptied["metadata"]["managedFields"][0]["fieldsV1"], json!({ "f:data": {} }));
    let refused = apply(&cluster, "alpha", CONFIG_MAPS, config_map(json!({ "z": "2" })), false).expect_err("conflict");
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"beta\": .data");
}

/// Each write of the cluster's own parts is called after the process they are in; who applies against one is told so.
#[test]
fn parts_of_the_cluster_own_what_they_write() {
    let (clock, cluster) = cluster();
    let value = json!({ "metadata": { "name": "ssa" }, "data": { "a": "1" } });
    let part = WriteOptions::by("deployment-controller");
    let made = cluster.create(CONFIG_MAPS, "default", value, &part).expect("created");
    let entry = |manager: &str, time: &str, fields: Value| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    };
    let first = "2027-01-15T08:00:00Z";
    assert_eq!(
        made.managed_fields(),
        json!([entry("kube-controller-manager", first, json!({ "f:data": { ".": {}, "f:a": {} } }))])
    );
    let refused = apply(&cluster, "me", CONFIG_MAPS, config_map(json!({ "a": "2" })), false).expect_err("conflict");
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"kube-controller-manager\" using v1: .data.a"
    );
    clock.step(SignedDuration::from_secs(5));
    let change = |options: &WriteOptions<'_>, field: &str| {
        cluster.modify(CONFIG_MAPS, Part::Main, "default", "ssa", options, |value| {
            value["data"][field] = json!("1");
        })
    };
    let same = change(&part, "a").expect("nothing to do");
    assert!(Arc::ptr_eq(&same, &made));
    // A client is called what it calls itself.
    let both = change(&WriteOptions::client("my-controller"), "b").expect("changed");
    let second = "2027-01-15T08:00:05Z";
    assert_eq!(
        both.managed_fields(),
        json!([
            entry("kube-controller-manager", first, json!({ "f:data": { ".": {}, "f:a": {} } })),
            entry("my-controller", second, json!({ "f:data": { "f:b": {} } })),
        ])
    );
}

/// Clients reset managers with an empty entry; nobody is one then until something is applied.
#[test]
fn managers_are_forgotten_when_a_client_says_so() {
    let (_, cluster) = cluster();
    let value = json!({ "metadata": { "name": "ssa" }, "data": { "a": "1" } });
    cluster.create(CONFIG_MAPS, "default", value, &WriteOptions::client("me")).expect("created");
    let reset = json!([{ "op": "replace", "path": "/metadata/managedFields", "value": [{}] }]);
    let options = WriteOptions::client("me");
    let (object, _) = cluster
        .patch(CONFIG_MAPS, Part::Main, "default", "ssa", Patch::Json(reset), &options)
        .expect("the path is there");
    assert_eq!(object.managed_fields(), Value::Null);
    let object = cluster
        .modify(CONFIG_MAPS, Part::Main, "default", "ssa", &WriteOptions::by("kubelet"), |value| {
            value["data"]["b"] = json!("1");
        })
        .expect("changed");
    assert_eq!(object.managed_fields(), Value::Null);
    let (applied, _) = apply(&cluster, "me", CONFIG_MAPS, config_map(json!({ "a": "1" })), false).expect("applied");
    let managers: Vec<_> = applied["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| entry["manager"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(managers, ["me", "before-first-apply"]);
}

#[test]
fn plain_writes_own_what_they_change() {
    let (_, cluster) = cluster();
    let value = json!({ "metadata": { "name": "ssa" }, "data": { "a": "1" } });
    cluster.create(CONFIG_MAPS, "default", value, &WriteOptions::client("me")).expect("created");
    let refused =
        apply(&cluster, "kubectl", CONFIG_MAPS, config_map(json!({ "a": "2" })), false).expect_err("conflict");
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"me\" using v1: .data.a");
    apply(&cluster, "kubectl", CONFIG_MAPS, config_map(json!({ "a": "1" })), false).expect("the same value is shared");
}

#[test]
fn a_dropped_field_goes_and_defaults_come_back() {
    let (_, cluster) = cluster();
    let more = json!({ "spec": { "replicas": 3, "template": { "spec": { "nodeSelector": { "pool": "extra" } } } } });
    let (first, _) = apply(&cluster, "lab", DEPLOYMENTS, deployment(more), false).expect("made");
    assert_eq!(first["spec"]["replicas"], 3);
    let (second, _) = apply(&cluster, "lab", DEPLOYMENTS, deployment(json!({})), false).expect("applied");
    assert_eq!(second["spec"]["replicas"], 1);
    assert!(second["spec"]["template"]["spec"].get("nodeSelector").is_none());
    assert_eq!(second["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"], "TCP");
    let (third, _) = apply(&cluster, "lab", DEPLOYMENTS, deployment(json!({})), false).expect("applied");
    assert_eq!(third["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
}

/// test/cmd/apply.sh run_kubectl_server_side_apply_tests: the last label goes, and the object is the same one.
#[test]
fn an_object_that_loses_its_last_label_stays_where_it_is() {
    let (_, cluster) = cluster();
    let mut labelled = config_map(json!({ "a": "1" }));
    labelled["metadata"]["labels"] = json!({ "only": "one" });
    let (first, _) = apply(&cluster, "alpha", CONFIG_MAPS, labelled, false).expect("made");
    cluster
        .modify(CONFIG_MAPS, Part::Main, "default", "ssa", &WriteOptions::by("klab"), |value| {
            value["metadata"]["finalizers"] = json!(["lab.example/kept"]);
        })
        .expect("a finalizer");
    let (second, created) =
        apply(&cluster, "alpha", CONFIG_MAPS, config_map(json!({ "a": "1" })), false).expect("same");
    assert!(!created);
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        assert_eq!(second["metadata"][field], first["metadata"][field], "{field}");
        assert!(second["metadata"][field].is_string(), "{field}");
    }
    assert_eq!(second["metadata"]["labels"], Value::Null);
    assert_eq!(second["metadata"]["finalizers"], json!(["lab.example/kept"]));
    assert_eq!(cluster.list(CONFIG_MAPS, None).0.iter().filter(|object| &*object.name == "ssa").count(), 1);
}

#[test]
fn a_probe_goes_with_its_defaults_and_a_container_with_all_its_fields() {
    let (_, cluster) = cluster();
    let with = json!({ "spec": { "template": { "spec": { "containers": [
        { "name": "main", "image": "nginx:1.27", "livenessProbe": { "httpGet": { "port": 80 } } },
        { "name": "side", "image": "busybox:1" },
    ] } } } });
    apply(&cluster, "lab", DEPLOYMENTS, deployment(with), false).expect("made");
    let (value, _) = apply(&cluster, "lab", DEPLOYMENTS, deployment(json!({})), false).expect("applied");
    let containers = value["spec"]["template"]["spec"]["containers"].as_array().expect("a list");
    assert_eq!(containers.len(), 1);
    assert!(containers[0].get("livenessProbe").is_none());
}

/// Who owns fields of an entry alone does not keep it: it goes when the last who owns the entry itself drops it.
#[test]
fn a_container_that_nobody_wants_goes_whoever_touched_it() {
    let (_, cluster) = cluster();
    let containers = |list: Value| json!({ "spec": { "template": { "spec": { "containers": list } } } });
    let side = json!({ "name": "side", "image": "busybox:1" });
    let both = || containers(json!([{ "name": "main", "image": "nginx:1.27" }, side]));
    apply(&cluster, "lab", DEPLOYMENTS, deployment(both()), false).expect("made");
    let touched = |value: &mut Value| {
        value["spec"]["template"]["spec"]["containers"][1]["image"] = json!("busybox:2");
        value["spec"]["template"]["spec"]["containers"][1]["stdin"] = json!(true);
    };
    let kubelet = WriteOptions::by("kubelet");
    cluster.modify(DEPLOYMENTS, Part::Main, "default", "web", &kubelet, touched).expect("touched");
    let names = |value: &Value| {
        let list = value["spec"]["template"]["spec"]["containers"].as_array().expect("a list");
        list.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let (value, _) = apply(&cluster, "lab", DEPLOYMENTS, deployment(json!({})), false).expect("applied");
    assert_eq!(names(&value), ["main"]);
    let managers = value["metadata"]["managedFields"].as_array().map(Vec::len);
    assert_eq!(managers, Some(1), "the kubelet has nothing left: {value}");

    apply(&cluster, "lab", DEPLOYMENTS, deployment(both()), false).expect("applied");
    apply(&cluster, "other", DEPLOYMENTS, deployment(containers(json!([side]))), false).expect("shared");
    let (value, _) = apply(&cluster, "lab", DEPLOYMENTS, deployment(json!({})), false).expect("applied");
    assert_eq!(names(&value), ["main", "side"], "another one wants it");
}

/// What a body leaves to defaults is no change, though the list that it is in is owned as a whole.
#[test]
fn a_stateful_set_that_is_applied_again_is_not_written() {
    let (clock, cluster) = cluster();
    let value = || {
        let labels = json!({ "app": "db" });
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
            "spec": {
                "serviceName": "db", "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "db", "image": "postgres:16" }] },
                },
                "volumeClaimTemplates": [{
                    "metadata": { "name": "data" },
                    "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
                }],
            },
        })
    };
    let (first, _) = apply(&cluster, "lab", STATEFUL_SETS, value(), false).expect("made");
    clock.step(SignedDuration::from_secs(5));
    let (second, _) = apply(&cluster, "lab", STATEFUL_SETS, value(), false).expect("applied");
    assert_eq!(second, first);
}

#[test]
fn an_applied_body_with_a_uid_is_about_an_object_that_is_there() {
    let (_, cluster) = cluster();
    let mut value = config_map(json!({}));
    value["metadata"]["uid"] = json!("1-2-3");
    let refused = apply(&cluster, "a", CONFIG_MAPS, value, false).expect_err("refused");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            409,
            "Operation cannot be fulfilled on configmaps \"ssa\": uid mismatch: the provided object specified uid 1-2-3, and no existing object was found"
        )
    );
}

/// upstream: fieldmanager_test.go TestResetManagedFields, and what is no list of managers changes nothing.
#[test]
fn an_empty_list_of_managers_resets_it_and_a_broken_one_does_not() {
    for (list, managers) in [(json!([]), 0), (json!([{}]), 0), (json!([{}, {}]), 1), (json!([{ "manager": "x" }]), 1)] {
        let (_, cluster) = cluster();
        let value = json!({ "metadata": { "name": "ssa" }, "data": { "a": "1" } });
        let options = WriteOptions::client("me");
        let mut made = cluster.create(CONFIG_MAPS, "default", value, &options).expect("created").whole();
        made["metadata"]["managedFields"] = list.clone();
        let written = cluster.update(CONFIG_MAPS, Part::Main, "default", "ssa", made, &options).expect("updated");
        assert_eq!(written.managed_fields().as_array().map_or(0, Vec::len), managers, "{list}");
    }
    let (_, cluster) = cluster();
    let options = WriteOptions::client("me");
    let mut made = cluster.create(DEPLOYMENTS, "default", deployment(json!({})), &options).expect("created").whole();
    made["metadata"]["managedFields"] = json!([]);
    let written = cluster.update(DEPLOYMENTS, Part::Status, "default", "web", made, &options).expect("updated");
    assert_eq!(written.managed_fields().as_array().map(Vec::len), Some(1), "not by way of a subresource");
}

#[test]
fn the_scale_of_another_manager_is_a_conflict() {
    let (_, cluster) = cluster();
    apply(&cluster, "lab", DEPLOYMENTS, deployment(json!({ "spec": { "replicas": 3 } })), false).expect("made");
    cluster
        .patch(
            DEPLOYMENTS,
            Part::Main,
            "default",
            "web",
            Patch::Merge(json!({ "spec": { "replicas": 5 } })),
            &WriteOptions::client("kubectl"),
        )
        .expect("scaled");
    let again = apply(&cluster, "lab", DEPLOYMENTS, deployment(json!({ "spec": { "replicas": 3 } })), false);
    assert_eq!(
        again.expect_err("conflict").message,
        "Apply failed with 1 conflict: conflict with \"kubectl\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn applied_bodies_are_checked() {
    let (_, cluster) = cluster();
    let apply = |manager, value| apply(&cluster, manager, CONFIG_MAPS, value, false).expect_err("refused");
    assert_eq!(apply("", config_map(json!({}))).code, 422);
    let refused = apply("a", json!({ "metadata": { "name": "ssa" } }));
    assert_eq!((refused.code, refused.message.as_str()), (400, "invalid object type: /, Kind="));
    let mut unknown = config_map(json!({}));
    unknown["dato"] = json!({});
    assert_eq!(
        apply("a", unknown).message,
        "failed to create typed patch object (/ssa; /v1, Kind=ConfigMap): .dato: field not declared in schema"
    );
    let mut managed = config_map(json!({}));
    managed["metadata"]["managedFields"] = json!([{ "manager": "x" }]);
    assert_eq!(apply("a", managed).message, "metadata.managedFields must be nil");
}

#[test]
fn the_three_merging_patches() {
    let (_, cluster) = cluster();
    let kubectl = WriteOptions::client("kubectl");
    cluster.create(DEPLOYMENTS, "default", deployment(json!({})), &kubectl).expect("created");
    let patch = |patch| {
        cluster.patch(DEPLOYMENTS, Part::Main, "default", "web", patch, &kubectl).map(|(object, _)| object.value())
    };
    let value = patch(Patch::Strategic(json!({ "spec": { "template": { "spec": {
        "$setElementOrder/containers": [{ "name": "first" }, { "name": "main" }],
        "containers": [
            { "name": "main", "env": [{ "name": "A", "value": "1" }], "ports": [{ "containerPort": 81 }] },
            { "name": "first", "image": "busybox" },
        ],
    } } } })))
    .expect("patched");
    let containers = &value["spec"]["template"]["spec"]["containers"];
    assert_eq!((&containers[0]["name"], &containers[1]["name"]), (&json!("first"), &json!("main")));
    assert_eq!(containers[1]["image"], "nginx:1.27");
    assert_eq!(containers[1]["ports"].as_array().map(Vec::len), Some(2));
    let value = patch(Patch::Strategic(json!({ "spec": {
        "strategy": { "$retainKeys": ["type"], "type": "Recreate" },
        "template": { "spec": { "containers": [{ "$patch": "delete", "name": "first" }] } },
    } })))
    .expect("patched");
    assert_eq!(value["spec"]["strategy"], json!({ "type": "Recreate" }));
    assert_eq!(value["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(1));
    let value = patch(Patch::Merge(json!({ "spec": { "replicas": 4, "strategy": null } }))).expect("patched");
    assert_eq!((&value["spec"]["replicas"], &value["spec"]["strategy"]["type"]), (&json!(4), &json!("RollingUpdate")));
    let value =
        patch(Patch::Json(json!([{ "op": "replace", "path": "/spec/replicas", "value": 1 }]))).expect("patched");
    assert_eq!(value["spec"]["replicas"], 1);
    let refused =
        patch(Patch::Json(json!([{ "op": "test", "path": "/spec/replicas", "value": 99 }]))).expect_err("test");
    assert_eq!(refused.message, "the server rejected our request due to an error in our request");
    let absent = |path: &str| patch(Patch::Json(json!([{ "op": "test", "path": path, "value": null }])));
    absent("/metadata/finalizers").expect("a field that is not there is null");
    assert_eq!(absent("/spec/replicas").expect_err("it is there").code, 422);
    assert_eq!(absent("/spec/nothing/here").expect_err("there is no object for it").code, 422);
    let stale = patch(Patch::Merge(json!({ "metadata": { "resourceVersion": "1" }, "spec": { "replicas": 9 } })));
    assert_eq!(stale.expect_err("stale").code, 409);
}

#[test]
fn unknown_fields_warn_or_are_refused() {
    let (_, cluster) = cluster();
    let mut options = WriteOptions::client("kubectl");
    cluster.create(DEPLOYMENTS, "default", deployment(json!({})), &options).expect("created");
    let patch = || Patch::Strategic(json!({ "spec": { "replica": 2 } }));
    let written =
        cluster.patch_reporting(DEPLOYMENTS, Part::Main, "default", "web", patch(), &options).expect("accepted");
    assert_eq!(written.warnings, ["unknown field \"spec.replica\""]);
    options.validation = FieldValidation::Strict;
    let refused =
        cluster.patch_reporting(DEPLOYMENTS, Part::Main, "default", "web", patch(), &options).expect_err("refused");
    assert_eq!(
        refused.message,
        " \"\" is invalid: patch: Invalid value: \"map[spec:map[replica:2]]\": strict decoding error: unknown field \"spec.replica\""
    );
}

#[test]
fn taints_are_replaced_and_conditions_merged() {
    let (_, cluster) = cluster();
    let node = json!({
        "metadata": { "name": "n" }, "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }] },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "DiskPressure", "status": "False" }] },
    });
    cluster.create(NODES, "", node, &WriteOptions::by("kubelet")).expect("created");
    let options = WriteOptions::client("kubectl");
    let patch = Patch::Strategic(json!({ "spec": { "taints": [{ "key": "b", "effect": "NoExecute" }] } }));
    let (value, _) = cluster.patch(NODES, Part::Main, "", "n", patch, &options).expect("patched");
    assert_eq!(value.value()["spec"]["taints"], json!([{ "key": "b", "effect": "NoExecute" }]));
    let patch = Patch::Strategic(json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }));
    let (value, _) = cluster.patch(NODES, Part::Status, "", "n", patch, &options).expect("patched");
    let conditions = value.value()["status"]["conditions"].clone();
    assert_eq!((&conditions[0]["status"], conditions.as_array().map(Vec::len)), (&json!("False"), Some(2)));
}

/// Any JSON, small, with field names that mean something to the code under test.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9]{0,4}".prop_map(Value::from),
        Just(json!("delete")),
        Just(json!("replace")),
    ];
    let name = prop_oneof![
        Just("metadata"),
        Just("spec"),
        Just("status"),
        Just("containers"),
        Just("template"),
        Just("name"),
        Just("labels"),
        Just("ports"),
        Just("containerPort"),
        Just("env"),
        Just("data"),
        Just("$patch"),
        Just("$retainKeys"),
        Just("$setElementOrder/containers"),
        Just("$deleteFromPrimitiveList/finalizers"),
        Just("finalizers"),
        Just("managedFields"),
        Just("resources"),
        Just("requests"),
        Just("apiVersion"),
        Just("kind"),
        Just("annotations"),
        Just("op"),
        Just("path"),
        Just("value"),
        Just("strategy"),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone().prop_map(str::to_owned), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_json_makes_a_patch_panic_or_change_the_uid(bodies in prop::collection::vec((0..4_u8, any_json()), 1..5)) {
        let (_, cluster) = cluster();
        let options = WriteOptions::client("fuzz");
        let uid = cluster.create(DEPLOYMENTS, "default", deployment(json!({})), &options).expect("created").uid.clone();
        for (kind, body) in bodies {
            let patch = match kind {
                0 => Patch::Json(body),
                1 => Patch::Merge(body),
                2 => Patch::Strategic(body),
                _ => {
                    let mut value = deployment(json!({}));
                    json_patch::merge(&mut value, &body);
                    Patch::Apply { value, force: true }
                }
            };
            if let Ok((object, _)) = cluster.patch(DEPLOYMENTS, Part::Main, "default", "web", patch, &options) {
                prop_assert_eq!(&object.uid, &uid);
            }
        }
    }

    #[test]
    fn applying_twice_is_applying_once(body in any_json()) {
        let (_, cluster) = cluster();
        let mut value = deployment(json!({}));
        json_patch::merge(&mut value["spec"], &body);
        let Ok((first, _)) = apply(&cluster, "lab", DEPLOYMENTS, value.clone(), false) else { return Ok(()) };
        let (second, _) = apply(&cluster, "lab", DEPLOYMENTS, value, false).expect("what was accepted once");
        prop_assert_eq!(first, second);
    }

    #[test]
    fn creating_any_json_never_panics(body in any_json()) {
        let (_, cluster) = cluster();
        let _ = cluster.create(PODS, "default", body, &WriteOptions::client("fuzz"));
    }
}
