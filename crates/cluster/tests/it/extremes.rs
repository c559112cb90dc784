//! Extreme numbers, amounts and times in every field that takes one: no panic, and the controllers go on.
//!
//! The fields come from the table of types, so a new kind takes part by itself.
//! `KLAB_EXTREMES=100000 cargo test -p klab-cluster-tests --test it extremes` tries that many objects instead of
//! some hundred.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use klab_api_machinery::resource::{JOBS, NODES, PODS, REPLICA_SETS, ResourceId};
use klab_api_machinery::schema::{Scalar, Schema, Shape, schema};
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
use klab_cluster::control::{ControlPlane, Progress, Settings};
use serde_json::{Value, json};

use crate::fuzz::corpus::sorts;

/// Objects that meet in one cluster.
const BATCH: usize = 60;
/// Far more than the controllers take for what is due at one moment.
const PATIENCE: Duration = Duration::from_secs(60);
/// How deep fields are looked for.
const DEPTH: usize = 9;

/// A cluster whose controllers are watched.
struct Lab {
    clock: Arc<SteppedClock>,
    cluster: Arc<Cluster>,
    plane: ControlPlane,
}

impl Lab {
    fn new() -> Self {
        let clock = Arc::new(SteppedClock::new("2026-06-01T08:00:00Z".parse::<Timestamp>().unwrap()));
        let cluster = Arc::new(Cluster::new(Arc::<SteppedClock>::clone(&clock), 7));
        for name in ["a", "b"] {
            let resources = json!({ "cpu": "64", "memory": "256Gi", "pods": "110" });
            let node = json!({
                "metadata": { "name": name, "labels": { "pool": "a", "zone": name, "kubernetes.io/hostname": name } },
                "status": {
                    "capacity": resources, "allocatable": resources,
                    "conditions": [{ "type": "Ready", "status": "True" }],
                },
            });
            cluster.create(NODES, "", node, &WriteOptions::client("test")).unwrap();
        }
        let plane = ControlPlane::new(Arc::clone(&cluster), Settings::default());
        Self { clock, cluster, plane }
    }

    /// Lets time pass from one due moment to the next, but not for ever: some things happen each second.
    fn pass(&mut self, duration: SignedDuration) {
        let end = self.cluster.now().checked_add(duration).unwrap();
        for _ in 0..200 {
            match self.settle() {
                Some(next) if next <= end => self.clock.step_to(next),
                _ => break,
            }
        }
        self.clock.step_to(end);
        self.settle();
    }

    /// Has the controllers do what is due now. They must come to an end: work that makes itself again would go on for ever.
    fn settle(&mut self) -> Option<Timestamp> {
        match self.plane.run_for(PATIENCE) {
            Progress::Settled(next) => next,
            Progress::Unfinished => panic!("the controllers do not settle"),
        }
    }

    /// The controllers had no fault, and still place pods.
    fn is_well(&mut self, after: &str) {
        assert_eq!(self.cluster.control_faults(), [], "after {after}");
        let name = format!("canary-{}", self.cluster.version());
        let pod = json!({ "metadata": { "name": name }, "spec": {
            "containers": [{ "name": "a", "image": "x" }], "tolerations": [{ "operator": "Exists" }],
            "terminationGracePeriodSeconds": 0,
        } });
        if self.cluster.create(PODS, "default", pod, &WriteOptions::client("test")).is_ok() {
            self.settle();
            let pod = self.cluster.get(PODS, "default", &name).unwrap();
            let conditions = &pod.value()["status"]["conditions"];
            assert!(conditions[0]["type"].is_string() || conditions[1]["type"].is_string(), "a pod is seen: {after}");
            let _ = self.cluster.delete(PODS, "default", &name, &DeleteOptions::default());
            self.settle();
        }
        assert_eq!(self.cluster.control_faults(), [], "after {after}");
    }
}

/// A field by its path: names, and `[]` for the entries of a list or a map.
type Field = (Vec<&'static str>, Scalar);

fn fields(schema: &Schema, shape: &Shape, path: &mut Vec<&'static str>, found: &mut Vec<Field>) {
    if path.len() > DEPTH {
        return;
    }
    match shape {
        Shape::Scalar(
            scalar @ (Scalar::Int32
            | Scalar::Int64
            | Scalar::Uint32
            | Scalar::Float64
            | Scalar::Quantity
            | Scalar::IntOrString
            | Scalar::Time
            | Scalar::MicroTime
            | Scalar::Duration),
        ) => found.push((path.clone(), *scalar)),
        Shape::Scalar(_) | Shape::Schema(_) => {}
        Shape::List(inner) | Shape::Map(inner) => {
            path.push("[]");
            fields(schema, inner, path, found);
            path.pop();
        }
        Shape::Struct(id) => {
            for field in &schema.get(*id).fields {
                path.push(field.name);
                fields(schema, &field.shape, path, found);
                path.pop();
            }
        }
    }
}

fn extremes(scalar: Scalar) -> &'static [&'static str] {
    match scalar {
        Scalar::Int32 | Scalar::Uint32 => &["2147483647", "-2147483648", "0", "-1", "1"],
        Scalar::Int64 => &[
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775",
            "1000000000000",
            "253402300799",
            "-1",
            "0",
        ],
        Scalar::Float64 => &["1e308", "-1e308", "1e-308", "0"],
        Scalar::Quantity => &[
            "\"9223372036854775807\"",
            "\"-9223372036854775808\"",
            "\"9223372036854775807E\"",
            "\"1e99\"",
            "\"1n\"",
            "\"0\"",
            "\"-1\"",
            "\"99999999999999999999999999999999999999999999\"",
        ],
        Scalar::IntOrString => {
            &["2147483647", "-1", "0", "\"100%\"", "\"2147483647%\"", "\"0%\"", "\"99999999999999999999%\""]
        }
        Scalar::Time | Scalar::MicroTime => &[
            "\"9999-12-30T22:00:00Z\"",
            "\"9999-12-31T23:59:59Z\"",
            "\"0001-01-01T00:00:00Z\"",
            "\"-9999-01-01T00:00:00Z\"",
            "\"1970-01-01T00:00:00Z\"",
        ],
        _ => &["\"2562047h47m16.854775807s\"", "\"-2562047h\"", "\"0s\""],
    }
}

/// Puts a value at a path, and what is around it.
fn put(value: &mut Value, path: &[&str], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    match (*first, &mut *value) {
        ("[]", Value::Object(map)) if !map.is_empty() => {
            map.values_mut().for_each(|entry| put(entry, rest, new.clone()));
        }
        ("[]", Value::Array(list)) if !list.is_empty() => put(&mut list[0], rest, new),
        ("[]", _) => {
            // Which of them it is only the type knows; the other one is refused.
            let mut entry = json!({ "name": "a", "type": "Ready", "status": "True" });
            if rest.is_empty() {
                *value = json!({ "cpu": new });
            } else {
                put(&mut entry, rest, new);
                *value = json!([entry]);
            }
        }
        (name, _) => {
            if !value.is_object() {
                *value = json!({});
            }
            put(&mut value[name], rest, new);
        }
    }
}

#[test]
fn every_field_takes_extremes_without_harm() {
    let wanted: usize = std::env::var("KLAB_EXTREMES").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let schema = schema();
    let mut cases: Vec<(ResourceId, String, Vec<&'static str>, Value, Value)> = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |good: &Value| format!("{}/{}", text(&good["apiVersion"]), text(&good["kind"]));
    let goods: BTreeMap<String, Value> = sorts().into_iter().map(|sort| (name(&sort.good), sort.good)).collect();
    for (name, good) in &goods {
        let (version, kind) = name.rsplit_once('/').unwrap();
        let Some(resource) = ResourceId::by_kind(version, kind) else { continue };
        let Some(id) = schema.kind(version, kind) else { continue };
        let mut found = Vec::new();
        fields(schema, &Shape::Struct(id), &mut Vec::new(), &mut found);
        for (path, scalar) in found {
            for text in extremes(scalar) {
                let value: Value = serde_json::from_str(text).unwrap();
                cases.push((
                    resource,
                    format!("{name} {} = {text}", path.join(".")),
                    path.clone(),
                    good.clone(),
                    value,
                ));
            }
        }
    }
    assert!(cases.len() > 5_000, "{}", cases.len());
    // Every this many of them, in an order in which kinds meet.
    let step = (cases.len() / 7 * 3..cases.len()).find(|step| gcd(*step, cases.len()) == 1).unwrap();
    let mut lab = Lab::new();
    let (mut accepted, mut at) = (0, 0);
    for number in 0..wanted {
        at = (at + step) % cases.len();
        let (resource, what, path, object, value) = &cases[at];
        let mut object = object.clone();
        put(&mut object, path, value.clone());
        // From the second round on two fields are extreme.
        if number >= cases.len() {
            let others = cases.iter().filter(|other| other.0 == *resource);
            if let Some((_, _, path, _, value)) = others.clone().nth(number * 31 % others.count()) {
                put(&mut object, path, value.clone());
            }
        }
        let name = format!("x{number}");
        if resource.row().kind != "CustomResourceDefinition" {
            object["metadata"]["name"] = json!(name);
        }
        let namespace = if resource.row().namespaced { "default" } else { "" };
        let write = WriteOptions::client("test");
        let status = object["status"].take();
        object.as_object_mut().unwrap().remove("status");
        let made = lab.cluster.create(*resource, namespace, object, &write);
        accepted += usize::from(made.is_ok());
        lab.settle();
        if path.first() == Some(&"status") {
            let _ =
                lab.cluster.modify(*resource, Part::Status, namespace, &name, &write, |value| value["status"] = status);
            lab.settle();
        }
        // Whatever periods there are, they are reckoned with when nodes are tainted and pods deleted.
        if number % 20 == 19 {
            let taint = json!([{ "key": "dedicated", "value": "x", "effect": "NoExecute" }]);
            let tainted = |value: &mut Value| value["spec"]["taints"] = taint;
            let _ = lab.cluster.modify(NODES, Part::Main, "", "a", &write, tainted);
            lab.pass(SignedDuration::from_mins(2));
            let _ = lab.cluster.modify(NODES, Part::Main, "", "a", &write, |value| value["spec"]["taints"] = json!([]));
        }
        if number % 7 == 6 {
            for seconds in [i64::MAX, i64::MIN, 10_000_000_000_000, 5] {
                let options = DeleteOptions { grace_seconds: Some(seconds), ..DeleteOptions::default() };
                let _ = lab.cluster.delete(*resource, namespace, &name, &options);
            }
        }
        lab.pass(SignedDuration::from_secs(20));
        assert_eq!(lab.cluster.control_faults(), [], "after {what}");
        if number % BATCH == BATCH - 1 {
            lab.pass(SignedDuration::from_hours(2));
            lab.is_well(what);
            lab = Lab::new();
        }
    }
    assert!(accepted * 10 > wanted, "only {accepted} of {wanted} were accepted");
}

fn gcd(left: usize, right: usize) -> usize {
    if right == 0 { left } else { gcd(right, left % right) }
}

/// Objects at which the control plane of a cluster once stopped for good.
#[test]
fn periods_of_any_length_are_reckoned_with() {
    let template = |command: &str| {
        let words: Vec<&str> = command.split(' ').collect();
        json!({ "metadata": { "labels": { "app": "a" } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "a", "image": "x", "command": words }] } })
    };
    let job = |more: Value| {
        let mut job = json!({ "spec": { "template": template("true") } });
        for (field, value) in more.as_object().unwrap() {
            job["spec"][field] = value.clone();
        }
        job
    };
    let most = i64::MAX;
    let tolerating = json!({ "spec": { "containers": [{ "name": "a", "image": "x" }], "tolerations": [
        { "key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": most }] } });
    let slow_set = json!({ "spec": { "minReadySeconds": i32::MAX, "replicas": 1,
        "selector": { "matchLabels": { "app": "a" } },
        "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "a", "image": "x" }] } } } });
    let cron = json!({ "spec": { "schedule": "* * * * *", "startingDeadlineSeconds": most,
        "jobTemplate": { "spec": { "template": template("true") } } } });
    let lingering = json!({ "spec": { "containers": [{ "name": "a", "image": "x" }],
        "terminationGracePeriodSeconds": most } });
    let by = |version: &str, kind: &str| ResourceId::by_kind(version, kind).unwrap();
    for (what, resource, mut object) in [
        ("a Job's deadline", JOBS, job(json!({ "activeDeadlineSeconds": 1_000_000_000_000_i64 }))),
        ("the greatest deadline", JOBS, job(json!({ "activeDeadlineSeconds": most }))),
        ("a Job's time to live", JOBS, job(json!({ "ttlSecondsAfterFinished": i32::MAX }))),
        ("a long sleep", JOBS, job(json!({ "template": template("sleep 999999999d") }))),
        ("a CronJob's deadline", by("batch/v1", "CronJob"), cron),
        ("a toleration", PODS, tolerating),
        ("a ReplicaSet's pods", REPLICA_SETS, slow_set),
        ("a pod's grace period", PODS, lingering),
    ] {
        let mut lab = Lab::new();
        object["metadata"]["name"] = json!("x");
        lab.cluster.create(resource, "default", object, &WriteOptions::client("test")).unwrap();
        lab.pass(SignedDuration::from_secs(5));
        for pod in lab.cluster.list(PODS, Some("default")).0 {
            let _ =
                lab.cluster.modify(PODS, Part::Status, "default", &pod.name, &WriteOptions::client("test"), |value| {
                    value["status"]["conditions"][0]["lastTransitionTime"] = json!("9999-12-30T21:00:00Z");
                    for condition in value["status"]["conditions"].as_array_mut().into_iter().flatten() {
                        condition["lastTransitionTime"] = json!("9999-12-30T21:00:00Z");
                    }
                });
        }
        for name in ["a", "b"] {
            let taint = json!([{ "key": "dedicated", "value": "x", "effect": "NoExecute", "timeAdded": "9999-12-01T00:00:00Z" }]);
            let write = WriteOptions::client("test");
            lab.cluster.modify(NODES, Part::Main, "", name, &write, |value| value["spec"]["taints"] = taint).unwrap();
        }
        lab.pass(SignedDuration::from_mins(10));
        for pod in lab.cluster.list(PODS, Some("default")).0 {
            for grace in [None, Some(i64::MAX), Some(10_000_000_000_000)] {
                let options = DeleteOptions { grace_seconds: grace, ..DeleteOptions::default() };
                let _ = lab.cluster.delete(PODS, "default", &pod.name, &options);
            }
        }
        lab.is_well(what);
    }
}

/// An amount is the same text each time it is copied: a template that changed on its way from a Deployment to its ReplicaSet
/// would roll out for ever.
#[test]
fn a_deployment_with_an_amount_of_any_size_settles() {
    let deployments = ResourceId::by_kind("apps/v1", "Deployment").unwrap();
    for amount in ["1e99", "1E99", "123456789012345678e10", "99999999999999999999999999999999999999999999", "1e-99"] {
        let mut lab = Lab::new();
        let pod =
            json!({ "containers": [{ "name": "a", "image": "x", "resources": { "requests": { "cpu": amount } } }] });
        let deployment = json!({
            "metadata": { "name": "web" },
            "spec": { "selector": { "matchLabels": { "app": "a" } },
                "template": { "metadata": { "labels": { "app": "a" } }, "spec": pod } },
        });
        lab.cluster.create(deployments, "default", deployment, &WriteOptions::client("test")).unwrap();
        lab.settle();
        assert_eq!(lab.cluster.list(REPLICA_SETS, Some("default")).0.len(), 1, "{amount} makes one ReplicaSet");
    }
}
