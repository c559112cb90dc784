//! Every recorded write of the golden flows, made again on an embedded cluster and compared with what the real API
//! server answered.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;
use klab_api_machinery::resource::{NAMESPACES, NODES, PODS, ResourceId};
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, DeleteOptions, FieldValidation, Part, Propagation, WriteOptions};
use klab_fields::Patch;
use serde_json::{Value, json};

fn recordings() -> Vec<Value> {
    let packed = include_bytes!("../golden/writes.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("a gzip file");
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
}

/// A request path taken apart.
struct Target {
    resource: ResourceId,
    namespace: String,
    name: String,
    part: String,
}

fn target(path: &str) -> Option<Target> {
    let path = path.strip_prefix('/')?;
    let mut words: Vec<&str> = path.split('/').collect();
    let (group, version) = if words.first() == Some(&"api") {
        words.remove(0);
        ("", words.remove(0))
    } else {
        words.remove(0);
        (words.remove(0), words.remove(0))
    };
    let mut namespace = "";
    if words.len() > 2 && words[0] == "namespaces" && !matches!(words[2], "status" | "finalize") {
        namespace = words[1];
        words.drain(..2);
    }
    let resource = ResourceId::by_path(group, version, words[0])?;
    let word = |at: usize| words.get(at).copied().unwrap_or_default().to_owned();
    Some(Target { resource, namespace: namespace.to_owned(), name: word(1), part: word(2) })
}

/// Whether `have` is `want`, in which `<UID>`, `<TIME>`, … stand for any text.
fn matches(want: &Value, have: &Value) -> bool {
    match (want, have) {
        (Value::Object(want), Value::Object(have)) => {
            let skip = |name: &str| name == "managedFields" || name == "resourceVersion";
            let names = |map: &serde_json::Map<String, Value>| {
                map.keys().filter(|name| !skip(name)).cloned().collect::<Vec<_>>()
            };
            let (mut left, mut right) = (names(want), names(have));
            left.sort();
            right.sort();
            left == right && left.iter().all(|name| matches(&want[name], &have[name]))
        }
        (Value::Array(want), Value::Array(have)) => {
            want.len() == have.len() && want.iter().zip(have).all(|(want, have)| matches(want, have))
        }
        (Value::String(want), Value::String(have)) => matches_text(want, have),
        (Value::String(want), Value::Number(_)) => want == "<NODEPORT>",
        (want, have) => want == have,
    }
}

fn matches_text(want: &str, have: &str) -> bool {
    let Some(start) = want.find('<') else { return want == have };
    let Some(length) = want[start..].find('>') else { return want == have };
    let word = &want[start + 1..start + length];
    if word.is_empty() || !word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_') {
        return want == have;
    }
    let Some(rest) = have.strip_prefix(&want[..start]) else { return false };
    let tail = &want[start + length + 1..];
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches_text(tail, &rest[at..]))
}

fn nodes(cluster: &Cluster) {
    for name in ["aks-work-20000002-vmss000000", "aks-work-20000002-vmss000001", "aks-extra-30000003-vmss000000"] {
        let node = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "status": { "capacity": { "cpu": "4" } },
        });
        cluster.create(NODES, "", node, &WriteOptions::by("kubelet")).expect("node");
    }
}

/// What a recorded request does on the embedded cluster: code and body of the answer. `None` for requests that are
/// not about this layer.
#[expect(clippy::too_many_lines, reason = "a row for each kind of request")]
fn replay(cluster: &Cluster, record: &Value) -> Option<(i64, Value)> {
    let target = target(record["path"].as_str()?)?;
    let query = record["query"].as_str().unwrap_or_default();
    let mut body = record["body"].clone();
    if let Some(packed) = body["$protobuf_base64"].as_str() {
        let bytes = base64::engine::general_purpose::STANDARD.decode(packed).expect("base64");
        body = klab_api_machinery::protobuf::decode(&bytes).expect("a body of kubectl");
    }
    if body["metadata"]["resourceVersion"] == "<RV>" {
        if record["status"] == 409 {
            body["metadata"]["resourceVersion"] = json!("1");
        } else {
            body["metadata"].as_object_mut()?.remove("resourceVersion");
        }
    }
    let mut options = WriteOptions::client("kube-rs");
    for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match (key, value) {
            ("fieldManager", value) => options.manager = value,
            ("dryRun", value) => options.dry_run = value == "All",
            ("fieldValidation", "Strict") => options.validation = FieldValidation::Strict,
            ("fieldValidation", "Ignore") => options.validation = FieldValidation::Ignore,
            _ => {}
        }
    }
    let part = match target.part.as_str() {
        "" => Part::Main,
        "status" => Part::Status,
        "scale" if record["method"] == "PATCH" => {
            let scaled =
                cluster.scale_patch(target.resource, &target.namespace, &target.name, &Patch::Merge(body), &options);
            return Some(match scaled {
                Ok((scale, _)) => (200, scale),
                Err(status) => (i64::from(status.code), status.to_value()),
            });
        }
        _ => return None,
    };
    let (resource, namespace, name) = (target.resource, target.namespace.as_str(), target.name.as_str());
    let group = resource.row().group;
    if group.starts_with("auth") && group != "autoscaling" || resource.row().stored_as.is_some() {
        return None;
    }
    let answer = match record["method"].as_str()? {
        "POST" if part == Part::Main && name.is_empty() && body.is_object() => {
            cluster.create(resource, namespace, body, &options).map(|object| (201, object))
        }
        "PUT" => cluster.update(resource, part, namespace, name, body, &options).map(|object| (200, object)),
        "PATCH" => {
            let patch = match record["type"].as_str()? {
                "application/json-patch+json" => Patch::Json(body),
                "application/merge-patch+json" => Patch::Merge(body),
                "application/strategic-merge-patch+json" if body.is_object() => Patch::Strategic(body),
                "application/apply-patch+yaml" if body.is_object() => {
                    if !query.contains("fieldManager") {
                        options.manager = "";
                    }
                    Patch::Apply { value: body, force: query.contains("force=true") }
                }
                _ => return None,
            };
            cluster
                .patch(resource, part, namespace, name, patch, &options)
                .map(|(object, created)| (if created { 201 } else { 200 }, object))
        }
        "DELETE" if !name.is_empty() => {
            let delete = DeleteOptions {
                grace_seconds: body["gracePeriodSeconds"].as_i64(),
                propagation: match body["propagationPolicy"].as_str() {
                    Some("Foreground") => Some(Propagation::Foreground),
                    Some("Orphan") => Some(Propagation::Orphan),
                    Some("Background") => Some(Propagation::Background),
                    _ => None,
                },
                uid: body["preconditions"]["uid"].as_str().map(str::to_owned),
                resource_version: body["preconditions"]["resourceVersion"].as_str().map(str::to_owned),
                dry_run: options.dry_run || body["dryRun"].is_array(),
            };
            let answer = cluster.delete(resource, namespace, name, &delete);
            // What is gone is answered with a Status by the HTTP layer.
            match answer {
                Ok(_) => return None,
                Err(status) => Err(status),
            }
        }
        _ => return None,
    };
    Some(match answer {
        Ok((code, object)) => (code, object.to_value()),
        Err(status) => (i64::from(status.code), status.to_value()),
    })
}

/// What the namespace controller does to a namespace that was deleted.
fn empty_namespace(cluster: &Cluster, namespace: &str) {
    let now = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
    for resource in ResourceId::fixed().filter(|id| id.row().namespaced && id.row().stored_as.is_none()) {
        cluster.delete_collection(resource, Some(namespace), &now, |_| true).expect("deleted");
    }
    let held = ResourceId::fixed().any(|id| id.row().namespaced && !cluster.list(id, Some(namespace)).0.is_empty());
    if !held && cluster.get(NAMESPACES, "", namespace).is_some_and(|namespace| namespace.deleting) {
        let options = WriteOptions::by("namespace-controller");
        let cleared = |value: &mut Value| value["spec"]["finalizers"] = json!([]);
        cluster.modify(NAMESPACES, Part::Finalize, "", namespace, &options, cleared).expect("finalized");
    }
}

/// The one recorded namespace that was written to while it was going.
fn keeps_terminating(record: &Value) -> bool {
    record["flow"] == "apply_multi" && record["line"] == 26
}

/// Answers that cannot be the same here, by flow and line.
const ELSEWHERE: &[(&str, u64, &str)] = &[
    ("apply_client", 38, "the difference of Go's structs after the first line of the message is not printed"),
    ("apply_ssa", 22, "the times in the body were replaced when it was recorded"),
    ("apply_multi", 16, "the namespace is made by the test when a later request needs it"),
    ("apply_multi", 18, "the namespace is made by the test when a later request needs it"),
    ("quotas", 17, "the quota was used up by pods that controllers made"),
    ("quotas", 18, "the quota was used up by pods that controllers made"),
    ("errors", 56, "the HTTP layer compares the kind with the path"),
    ("errors", 62, "the version in the body was replaced when it was recorded"),
    ("kuberaw", 61, "the HTTP layer checks dryRun"),
    ("misc", 28, "the HTTP layer checks who asks"),
];

#[test]
fn writes_answer_what_the_real_server_answers() {
    let mut flow = String::new();
    let mut cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 1);
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut wrong: Vec<String> = Vec::new();
    for record in recordings() {
        if record["flow"] != flow.as_str() {
            record["flow"].as_str().unwrap_or_default().clone_into(&mut flow);
            cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 1);
            nodes(&cluster);
        }
        let path = record["path"].as_str().unwrap_or_default();
        let Some(target) = target(path) else { continue };
        if target.resource.row().namespaced
            && record["status"] != 404
            && cluster.get(NAMESPACES, "", &target.namespace).is_none()
        {
            let space = json!({ "metadata": { "name": target.namespace } });
            cluster.create(NAMESPACES, "", space, &WriteOptions::by("test")).expect("namespace");
        }
        let answer = replay(&cluster, &record);
        if target.resource == NAMESPACES && record["method"] == "DELETE" && !keeps_terminating(&record) {
            empty_namespace(&cluster, &target.name);
        }
        let Some((code, have)) = answer else { continue };
        // What controllers make (pods of workloads, events, and whatever a fixture made) is not here.
        let missing = code == 404 && record["status"] != 404;
        let elsewhere = ELSEWHERE.iter().any(|(name, line, _)| *name == flow && record["line"] == *line);
        if missing || elsewhere {
            *counts.entry("not compared").or_default() += 1;
            continue;
        }
        let want = &record["response"];
        let same = if want["kind"] == "Status" || have["kind"] == "Status" {
            matches(want, &have)
        } else if record["method"] == "POST" {
            matches_new(want, &have)
        } else if matches!(target.resource, NODES | PODS) {
            true
        } else {
            ["spec", "data", "type", "value", "immutable"].iter().all(|part| matches(&want[*part], &have[*part]))
        };
        if same && record["status"] == code {
            *counts.entry("same").or_default() += 1;
        } else {
            *counts.entry("different").or_default() += 1;
            wrong.push(format!("{flow} {} {} {path}\n  want {want}\n  have {have}", record["line"], record["method"]));
        }
    }
    assert!(wrong.is_empty(), "{counts:?}\n{}", wrong.join("\n"));
    assert!(counts["same"] >= 450, "{counts:?}");
}

/// [`matches`] for a new object; the labels a pod gets from its node are not compared, as the nodes here have none.
fn matches_new(want: &Value, have: &Value) -> bool {
    let mut want = want.clone();
    if let Some(metadata) = want["metadata"].as_object_mut() {
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|key, _| !key.starts_with("topology.kubernetes.io/"));
        }
        if metadata.get("labels").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
            metadata.remove("labels");
        }
    }
    matches(&want, have)
}
