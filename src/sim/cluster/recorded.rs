//! Every recorded write of the golden flows, made again on an embedded cluster and compared with what the real API
//! server answered.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::sim::clock::SteppedClock;
use crate::sim::resource::{NAMESPACES, NODES};

fn recordings() -> Vec<Value> {
    let packed = include_bytes!("../../../tests/golden/kubectl/writes.jsonl.gz");
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
        let node = json!({ "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } } });
        cluster.create(NODES, "", node, &WriteOptions::by("kubelet")).expect("node");
    }
}

#[test]
fn new_objects_are_what_the_real_server_makes_of_them() {
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
        let created = record["status"] == 201 || record["status"] == 422 || record["status"] == 403;
        if record["method"] != "POST" || !created || !target.part.is_empty() || !target.name.is_empty() {
            continue;
        }
        if target.resource.row().namespaced && cluster.get(NAMESPACES, "", &target.namespace).is_none() {
            let space = json!({ "metadata": { "name": target.namespace } });
            if record["status"] != 404 {
                cluster.create(NAMESPACES, "", space, &WriteOptions::by("test")).expect("namespace");
            }
        }
        let body = record["body"].clone();
        if body.get("$protobuf_base64").is_some() || body.is_null() || body.is_string() {
            continue;
        }
        let query = record["query"].as_str().unwrap_or_default();
        let mut options = WriteOptions::client("test");
        options.dry_run = query.contains("dryRun=All");
        if query.contains("Strict") {
            options.validation = FieldValidation::Strict;
        }
        let answer = cluster.create(target.resource, &target.namespace, body, &options);
        let (code, have) = match &answer {
            Ok(object) => (201, object.value()),
            Err(status) => (i64::from(status.code), status.to_value()),
        };
        if matches(&record["response"], &have) && record["status"] == code {
            *counts.entry("same").or_default() += 1;
        } else {
            *counts.entry("different").or_default() += 1;
            wrong.push(format!("{flow} {} {path}\n  want {}\n  have {have}", record["line"], record["response"]));
        }
    }
    eprintln!("{counts:?}\n{}", wrong.join("\n"));
    assert!(counts["same"] >= 121, "{counts:?}");
}
