//! Every field of every kind through every route, and read back: nothing is lost, added or renamed.
//!
//! An object has all fields that its kind has. What the API server refuses is taken out, or put right as it says, until the
//! rest is accepted; that is then sent by each route. What is read back must hold all that was sent, fit the kind's type,
//! and change nothing when it is sent once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use klab_cluster::api::Api;
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::Cluster;
use klab_cluster::resource::{RESOURCES, Resource};
use klab_cluster::schema::{TypeId, schema};
use serde_json::{Value, json};

use super::samples::{Step, at, path, sample, value_at};

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const OPERATIONS: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// So often an object is put right before its route is given up.
const ROUNDS: usize = 40;

/// What is not read back as it was sent: a kind or `*`, the fields, and why.
const RULES: &[(&str, &str, &str)] = &[
    (
        "CustomResourceDefinition",
        ".status",
        "apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go",
    ),
    ("Secret", ".stringData", "pkg/apis/core/v1/conversion.go Convert_v1_Secret_To_core_Secret"),
    // The embedded cluster counts what is used at once, where upstream's controller does it later.
    ("ResourceQuota", ".status", "pkg/controller/resourcequota/resource_quota_controller.go"),
    ("Secret", ".data.a", "pkg/apis/core/v1/conversion.go Convert_v1_Secret_To_core_Secret"),
];

/// Kinds of which not all routes are tried: what is wrong with their objects does not lead to good ones.
const UNREACHED: &[&str] = &[
    "v1 PersistentVolume",
    "v1 Pod",
    "v1 Service",
    "certificates.k8s.io/v1 CertificateSigningRequest",
    "resource.k8s.io/v1 ResourceSlice",
];

/// What kinds need beside what errors lead to.
fn needs() -> Value {
    let template = |policy: &str| {
        json!({ "metadata": { "labels": { "a": "b" } }, "spec": {
        "restartPolicy": policy, "containers": [{ "name": "first", "image": "nginx:1.27" }] } })
    };
    let (once, lasting) = (template("Never"), template("Always"));
    let workload = json!({ "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": lasting } });
    let scaled = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a" });
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*",
    }]);
    let hook = json!({ "webhooks": [{ "name": "a.example.com", "rules": rules, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://a.example.com" } }] });
    let constraints = json!({ "resourceRules": rules });
    let devices = json!({ "devices": { "requests": [{ "name": "first", "exactly": { "deviceClassName": "a" } }] } });
    let group = "rbac.authorization.k8s.io";
    [
        ("Namespace", json!({ "spec": { "finalizers": ["example.com/a"] } })),
        ("PersistentVolume", json!({ "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "csi": { "driver": "a.example.com", "volumeHandle": "a" } } })),
        ("PersistentVolumeClaim", json!({ "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } })),
        ("Pod", json!({ "spec": { "containers": [{ "name": "first", "image": "nginx:1.27" }] } })),
        ("PodTemplate", json!({ "template": lasting })),
        ("ReplicationController", json!({ "spec": { "selector": { "a": "b" }, "template": lasting } })),
        ("DaemonSet", workload.clone()),
        ("Deployment", workload.clone()),
        ("ReplicaSet", workload.clone()),
        ("StatefulSet", workload.clone()),
        ("Job", json!({ "spec": { "template": once } })),
        ("CronJob", json!({ "spec": { "schedule": "*/5 * * * *", "jobTemplate": { "spec": { "template": once } } } })),
        ("HorizontalPodAutoscaler", json!({ "spec": { "maxReplicas": 5, "scaleTargetRef": scaled } })),
        ("events.k8s.io/v1 Event", json!({ "type": "Normal", "reason": "a", "action": "a",
            "reportingController": "example.com/a", "reportingInstance": "a", "eventTime": "2026-06-01T08:00:00.000000Z",
            "regarding": { "kind": "Pod", "namespace": "default", "name": "a" } })),
        ("IngressClass", json!({ "spec": { "controller": "example.com/a" } })),
        ("Ingress", json!({ "spec": { "defaultBackend": { "service": { "name": "a", "port": { "number": 80 } } } } })),
        ("ServiceCIDR", json!({ "spec": { "cidrs": ["10.97.0.0/24"] } })),
        ("ClusterRoleBinding", json!({ "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "a" } })),
        ("RoleBinding", json!({ "roleRef": { "apiGroup": group, "kind": "Role", "name": "a" } })),
        ("CSIStorageCapacity", json!({ "storageClassName": "a" })),
        ("VolumeAttachment", json!({ "spec": {
            "attacher": "a.example.com", "nodeName": "a", "source": { "persistentVolumeName": "a" } } })),
        ("MutatingAdmissionPolicy", json!({ "spec": {
            "matchConstraints": constraints, "reinvocationPolicy": "Never", "failurePolicy": "Fail",
            "mutations": [{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object{}" } }] } })),
        ("ValidatingAdmissionPolicy", json!({ "spec": {
            "matchConstraints": constraints, "validations": [{ "expression": "true" }] } })),
        ("MutatingAdmissionPolicyBinding", json!({ "spec": { "policyName": "a" } })),
        ("ValidatingAdmissionPolicyBinding", json!({ "spec": { "policyName": "a", "validationActions": ["Deny"] } })),
        ("MutatingWebhookConfiguration", hook.clone()),
        ("ValidatingWebhookConfiguration", hook.clone()),
        ("ResourceClaim", json!({ "spec": devices })),
        ("ResourceClaimTemplate", json!({ "spec": { "spec": devices } })),
        ("ResourceSlice", json!({ "spec": { "driver": "a.example.com", "nodeName": "a",
            "pool": { "name": "a", "generation": 1, "resourceSliceCount": 1 }, "devices": [{ "name": "first" }] } })),
        ("FlowSchema", json!({ "spec": { "priorityLevelConfiguration": { "name": "a" }, "matchingPrecedence": 5 } })),
        ("PriorityLevelConfiguration", json!({ "spec": { "type": "Limited", "limited": { "limitResponse": { "type": "Reject" } } } })),
        ("CustomResourceDefinition", json!({ "spec": { "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "a", "kind": "A" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } }] } })),
    ]
    .into_iter()
    .map(|(kind, needed)| (kind.to_owned(), needed))
    .collect()
}

/// Lays what a kind needs over an object that has everything: entries of its lists come first.
fn overlay(value: &mut Value, needed: &Value) {
    match (value, needed) {
        (Value::Object(map), Value::Object(needed)) => {
            for (name, inner) in needed {
                overlay(map.entry(name).or_insert(Value::Null), inner);
            }
        }
        (Value::Array(list), Value::Array(needed)) if needed.iter().any(Value::is_object) => {
            list.splice(0..0, needed.iter().cloned());
        }
        (value, needed) => value.clone_from(needed),
    }
}

/// An answer of the API server.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) warnings: Vec<String>,
    pub(super) value: Value,
}

/// An API server that is asked in process.
pub(super) struct Place {
    api: Api,
    runtime: tokio::runtime::Runtime,
}

impl Place {
    pub(super) fn new() -> Self {
        let clock = Arc::new(SteppedClock::new("2026-06-01T08:00:00Z".parse().unwrap()));
        let api = Api::new(Arc::new(Cluster::new(clock, 7)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { api, runtime }
    }

    pub(super) fn ask(&self, method: &str, uri: &str, kind: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(uri).header("content-type", kind);
        let request = request.body(Full::new(Bytes::from(text))).unwrap();
        self.runtime.block_on(async {
            let response = self.api.answer(request).await;
            let code = response.status().as_u16();
            let warnings = response.headers().get_all("warning").iter();
            let warnings = warnings.map(|one| one.to_str().unwrap_or_default().to_owned()).collect();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            Answer { code, warnings, value: serde_json::from_slice(&bytes).unwrap_or_default() }
        })
    }
}

/// Takes out what an answer finds wrong, or puts it right. Whether anything is different now.
fn put_right(id: TypeId, body: &mut Value, answer: &Value, tried: &mut BTreeSet<String>) -> bool {
    let before = body.clone();
    let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
    for cause in &causes {
        let text = |name: &str| cause[name].as_str().unwrap_or_default();
        let steps = path(text("field"));
        let supported = text("message").split_once("supported values: ").map(|(_, values)| values);
        let supported = supported.and_then(|values| values.split('"').nth(1));
        let steps = place_of(body, steps);
        // Entries move up when others go: it is the holder that tells whether this was tried already.
        let holder = at(body, &steps[..steps.len().saturating_sub(1)]).map(|holder| holder.to_string());
        let is_new = tried.insert(format!("{} {} {holder:?}", text("field"), text("reason")));
        let found = at(body, &steps).filter(|found| !found.is_null());
        match (text("reason"), supported, found) {
            ("FieldValueRequired", _, None) if is_new => match value_at(id, &steps) {
                Some(value) => insert(body, &steps, value),
                None => remove(body, &steps),
            },
            ("FieldValueNotSupported", Some(value), Some(found)) if is_new && !found.is_object() => {
                *found = if found.is_array() { json!([value]) } else { json!(value) };
            }
            ("FieldValueNotSupported", Some(value), None) if is_new && steps.len() > 1 => {
                match at(body, &steps[..steps.len() - 1]) {
                    Some(holder) if holder.is_string() => *holder = json!(value),
                    _ if value_at(id, &steps).is_some() => insert(body, &steps, json!(value)),
                    _ => remove(body, &steps),
                }
            }
            _ => remove(body, &steps),
        }
    }
    purge(body);
    *body != before
}

/// Where a fault really is: upstream names some paths wrongly.
fn place_of(body: &mut Value, steps: Vec<Step>) -> Vec<Step> {
    let holds = |body: &mut Value, steps: &[Step]| {
        steps.split_last().is_some_and(|(_, holder)| at(body, holder).is_some_and(|holder| !holder.is_null()))
    };
    if steps.len() == 1 && at(body, &steps).is_none() {
        let Step::Name(name) = &steps[0] else { return steps };
        let deprecated = vec![Step::Name(format!("deprecated{name}"))];
        return if at(body, &deprecated).is_some() { deprecated } else { steps };
    }
    if holds(body, &steps) {
        return steps;
    }
    let spec = || Step::Name("spec".to_owned());
    let others = [[vec![spec()], steps[1..].to_vec()].concat(), [vec![spec()], steps.clone()].concat()];
    others.into_iter().find(|other| holds(body, other)).unwrap_or(steps)
}

/// Puts a value at a path, and the objects around it.
fn insert(body: &mut Value, steps: &[Step], value: Value) {
    let Some((last, parents)) = steps.split_last() else { return };
    let parent = parents.iter().try_fold(body, |place, step| match step {
        Step::Index(index) => place.get_mut(index),
        Step::Name(name) => {
            if place.is_null() {
                *place = json!({});
            }
            place.as_object_mut().map(|map| map.entry(name).or_insert(Value::Null))
        }
    });
    let Some(parent) = parent else { return };
    if parent.is_null() {
        *parent = json!({});
    }
    if let (Step::Name(name), Some(map)) = (last, parent.as_object_mut()) {
        map.insert(name.clone(), value);
    }
}

/// Marks what is at a path, or where the path ends, as gone.
fn remove(body: &mut Value, steps: &[Step]) {
    let is_part = matches!(steps.first(), Some(Step::Name(name)) if matches!(&**name, "spec" | "metadata" | "status"));
    for length in (steps.len().min(1 + usize::from(is_part))..=steps.len()).rev() {
        if let Some(found) = at(body, &steps[..length]).filter(|found| !found.is_null()) {
            *found = Value::Null;
            return;
        }
    }
}

/// Puts back what a kind needs.
fn restore(body: &mut Value, needed: &Value) {
    match (&mut *body, needed) {
        (Value::Object(map), Value::Object(needed)) => {
            for (name, inner) in needed {
                restore(map.entry(name).or_insert(Value::Null), inner);
            }
        }
        (Value::Array(list), Value::Array(needed)) if !list.is_empty() => {
            if let Some(missing) = needed.first().filter(|one| !one.is_object() || list[0]["name"] != one["name"]) {
                list.insert(0, missing.clone());
                list.dedup();
            } else if let Some(first) = needed.first() {
                restore(&mut list[0], first);
            }
        }
        (Value::Null | Value::Array(_), needed) => body.clone_from(needed),
        _ => {}
    }
}

/// Takes out what is marked.
fn purge(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, inner| !inner.is_null());
            map.values_mut().for_each(purge);
        }
        Value::Array(list) => {
            list.retain(|inner| !inner.is_null());
            list.iter_mut().for_each(purge);
        }
        _ => {}
    }
}

/// The paths of what was sent and is not there.
fn lost(sent: &Value, found: &Value, path: &str, gone: &mut Vec<String>) {
    match (sent, found) {
        (Value::Object(sent), Value::Object(found)) => {
            for (name, inner) in sent {
                let path = format!("{path}.{name}");
                match found.get(name) {
                    Some(found) => lost(inner, found, &path, gone),
                    None => gone.push(path),
                }
            }
        }
        (Value::Array(sent), Value::Array(found)) => {
            for (number, inner) in sent.iter().enumerate() {
                let holds = |found: &Value| {
                    let mut gone = Vec::new();
                    lost(inner, found, "", &mut gone);
                    gone.is_empty()
                };
                if !found.iter().any(holds) {
                    match found.get(number) {
                        Some(found) => lost(inner, found, &format!("{path}[]"), gone),
                        None => gone.push(format!("{path}[]")),
                    }
                }
            }
        }
        _ if sent == found => {}
        _ => gone.push(path.to_owned()),
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.values().map(count).sum(),
        Value::Array(list) => list.iter().map(count).sum(),
        _ => 1,
    }
}

/// A kind, and where its objects are.
struct Sort<'a> {
    place: &'a Place,
    row: &'static Resource,
    id: TypeId,
    collection: String,
    needed: Value,
    faults: Vec<String>,
    /// Fields that came back, of those that were sent, by route.
    tally: BTreeMap<String, (usize, usize)>,
}

impl Sort<'_> {
    fn name(&self, number: usize) -> String {
        match (self.row.group, self.row.kind) {
            ("", "Namespace") => format!("space-{number}"),
            ("apiregistration.k8s.io", _) => format!("v1.a{number}.example.com"),
            ("networking.k8s.io", "IPAddress") => format!("10.96.9.{}", number + 1),
            ("apiextensions.k8s.io", _) => format!("a{number}.example.com"),
            _ => format!("a{number}"),
        }
    }

    fn object(&self, number: usize, fields: &Value) -> Value {
        let mut object = fields.clone();
        object["apiVersion"] = json!(self.row.api_version());
        object["kind"] = json!(self.row.kind);
        if self.row.group == "apiextensions.k8s.io" {
            object["spec"]["names"] = json!({ "plural": format!("a{number}"), "kind": format!("A{number}") });
        }
        object["metadata"] = json!({
            "name": self.name(number), "labels": { "a": "b" }, "annotations": { "c": "d" },
        });
        object
    }

    /// Sends a body until it is accepted; what of it was. The uri may have a query.
    fn fit(&self, method: &str, uri: &str, kind: &str, mut body: Value) -> Result<(Value, Answer), String> {
        let mut tried = BTreeSet::new();
        for _ in 0..ROUNDS {
            let sent = match kind {
                OPERATIONS => {
                    let fields = body.as_object().into_iter().flatten();
                    fields
                        .map(|(name, value)| json!({ "op": "add", "path": format!("/{name}"), "value": value }))
                        .collect()
                }
                _ => body.clone(),
            };
            let answer = self.place.ask(method, uri, kind, &sent);
            match answer.code {
                200 | 201 => return Ok((body, answer)),
                422 | 403 if put_right(self.id, &mut body, &answer.value, &mut tried) => {
                    if kind == JSON && method == "POST" {
                        restore(&mut body, &self.needed);
                    }
                }
                _ => return Err(format!("{} {}", answer.code, answer.value["message"])),
            }
        }
        Err("it is refused again and again".to_owned())
    }

    /// Reads an object back and compares it with what was sent.
    fn look(&mut self, route: &str, uri: &str, sent: &Value, before: &Value, answer: &Answer) {
        let found = self.place.ask("GET", uri, JSON, &Value::Null).value;
        let mut wanted = sent.clone();
        wanted["apiVersion"] = json!(self.row.api_version());
        wanted["kind"] = json!(self.row.kind);
        if let Err(error) = schema().tidy(self.id, &mut wanted) {
            self.faults.push(format!("{} {route}: {error}", self.row.kind));
        }
        for name in ["metadata", "apiVersion", "kind"] {
            wanted.as_object_mut().map(|map| map.remove(name));
        }
        // What decoding adds is not what was sent.
        let mut gone = Vec::new();
        let sent_alone = kept(sent, &wanted);
        lost(&sent_alone, &found, "", &mut gone);
        let all = count(&sent_alone);
        let tally = self.tally.entry(route.to_owned()).or_default();
        tally.0 += all - gone.len();
        tally.1 += all;
        let known = |path: &str| {
            RULES.iter().any(|(kind, field, _)| (*kind == "*" || *kind == self.row.kind) && path.starts_with(field))
        };
        for path in gone.iter().collect::<BTreeSet<_>>().into_iter().filter(|path| !known(path)) {
            self.faults.push(format!("{} {route}: {path} is lost", self.row.kind));
        }
        let mut decoded = found.clone();
        match schema().tidy(self.id, &mut decoded) {
            Ok(tidied) if tidied.unknown.is_empty() => {}
            other => self.faults.push(format!("{} {route}: what is read back does not fit: {other:?}", self.row.kind)),
        }
        for warning in answer.warnings.iter().filter(|warning| warning.contains("unknown field")) {
            self.faults.push(format!("{} {route}: {warning}", self.row.kind));
        }
        if *before == Value::Null {
            self.send_again(route, uri, &found);
        }
        let again = self.place.ask("DELETE", uri, JSON, &json!({ "gracePeriodSeconds": 0 }));
        if again.code >= 300 {
            self.faults.push(format!("{} {route}: not deleted: {}", self.row.kind, again.value["message"]));
        }
    }

    /// What was read back is good, and changes nothing.
    fn send_again(&mut self, route: &str, uri: &str, found: &Value) {
        let again = self.place.ask("PUT", &format!("{uri}?fieldValidation=Strict"), JSON, found);
        if again.code == 405 {
            return;
        }
        let version = |value: &Value| value["metadata"]["resourceVersion"].clone();
        if again.code != 200 || version(&again.value) != version(found) {
            let mut changed = Vec::new();
            lost(found, &again.value, "", &mut changed);
            lost(&again.value, found, "", &mut changed);
            let message = &again.value["message"];
            self.faults.push(format!("{} {route}: sent again: {} {message} {changed:?}", self.row.kind, again.code));
        }
    }
}

/// What was sent, in the form that decoding gives it.
fn kept(sent: &Value, decoded: &Value) -> Value {
    match (sent, decoded) {
        (Value::Object(sent), Value::Object(decoded)) => {
            let both = sent.iter().filter_map(|(name, inner)| Some((name.clone(), kept(inner, decoded.get(name)?))));
            both.collect::<serde_json::Map<_, _>>().into()
        }
        (Value::Array(sent), Value::Array(decoded)) => {
            sent.iter().zip(decoded).map(|(sent, decoded)| kept(sent, decoded)).collect()
        }
        _ => decoded.clone(),
    }
}

#[test]
fn every_field_of_every_kind_comes_back_by_every_route() {
    let place = Place::new();
    let needs = needs();
    for (uri, body) in [
        ("/apis/scheduling.k8s.io/v1/priorityclasses", json!({ "metadata": { "name": "first" }, "value": 5 })),
        ("/apis/node.k8s.io/v1/runtimeclasses", json!({ "metadata": { "name": "first" }, "handler": "a" })),
    ] {
        let answer = place.ask("POST", uri, JSON, &body);
        assert_eq!(answer.code, 201, "{}", answer.value);
    }
    let mut faults = Vec::new();
    let mut unreached = Vec::new();
    let mut total: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for row in
        RESOURCES.iter().filter(|row| ["create", "get", "update", "patch"].iter().all(|verb| row.verbs.contains(verb)))
    {
        let Some(id) = schema().kind(&row.api_version(), row.kind) else { continue };
        let base = if row.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", row.api_version()) };
        let inside = if row.namespaced { "/namespaces/default" } else { "" };
        let collection = format!("{base}{inside}/{}", row.plural);
        let needed =
            [row.api_version() + " " + row.kind, row.kind.to_owned()].into_iter().find_map(|key| needs.get(&key));
        let needed = needed.cloned().unwrap_or_else(|| json!({}));
        let mut sort = Sort { place: &place, row, id, collection, needed, faults: Vec::new(), tally: BTreeMap::new() };
        let full = sample(id, false);
        let outcome = routes(&mut sort, &full);
        if let Err(why) = outcome {
            unreached.push(format!("{} {}: {why}", row.api_version(), row.kind));
        }
        for (route, (came, sent)) in sort.tally {
            let sum = total.entry(route).or_default();
            *sum = (sum.0 + came, sum.1 + sent);
        }
        faults.append(&mut sort.faults);
    }
    println!("fields that came back, of those that were sent, by route: {total:?}");
    let kinds: Vec<&str> = unreached.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(kinds, UNREACHED, "{unreached:#?}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

fn routes(sort: &mut Sort<'_>, full: &Value) -> Result<(), String> {
    let collection = sort.collection.clone();
    // What of it is accepted at all.
    let dry = format!("{collection}?dryRun=All&fieldValidation=Strict");
    let (mut whole, mut least) = (full.clone(), json!({}));
    for object in [&mut whole, &mut least] {
        overlay(object, &sort.needed);
    }
    let (whole, _) = sort.fit("POST", &dry, JSON, sort.object(0, &whole))?;
    let (least, _) = sort.fit("POST", &dry, JSON, sort.object(0, &least))?;
    let fields = |object: &Value| {
        let mut fields = object.clone();
        for name in ["metadata", "apiVersion", "kind"] {
            fields.as_object_mut().map(|map| map.remove(name));
        }
        fields
    };
    let (whole, least) = (fields(&whole), fields(&least));
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    for how in ["Strict", "Warn", "Ignore"] {
        let number = next();
        let (sent, answer) =
            sort.fit("POST", &format!("{collection}?fieldValidation={how}"), JSON, sort.object(number, &whole))?;
        let uri = format!("{collection}/{}", sort.name(number));
        sort.look(&format!("create {how}"), &uri, &fields(&sent), &Value::Null, &answer);
    }
    let number = next();
    let uri = format!("{collection}/{}", sort.name(number));
    let manager = "fieldManager=fuzz&force=true&fieldValidation=Strict";
    let (sent, answer) = sort.fit("PATCH", &format!("{uri}?{manager}"), APPLY, sort.object(number, &whole))?;
    sort.look("apply new", &uri, &fields(&sent), &Value::Null, &answer);
    for (route, method, kind) in [
        ("update", "PUT", JSON),
        ("merge", "PATCH", MERGE),
        ("operations", "PATCH", OPERATIONS),
        ("strategic", "PATCH", STRATEGIC),
        ("apply", "PATCH", APPLY),
    ] {
        let number = next();
        let uri = format!("{collection}/{}", sort.name(number));
        sort.fit("POST", &collection, JSON, sort.object(number, &least))?;
        let query = if kind == APPLY { manager } else { "fieldValidation=Strict" };
        let body = sort.object(number, &whole);
        let (sent, answer) = match sort.fit(method, &format!("{uri}?{query}"), kind, body) {
            // What may not be changed at all is not.
            Err(why) if ["immutable", "updates"].iter().any(|word| why.contains(word)) => continue,
            other => other?,
        };
        sort.look(route, &uri, &fields(&sent), &Value::Null, &answer);
    }
    if !sort.row.subresources.iter().any(|part| part.name == "status") {
        return Ok(());
    }
    let mut status = sample(sort.id, true);
    if sort.row.kind == "CustomResourceDefinition" {
        // A definition whose versions are not those that were stored is not deleted.
        status["status"]["storedVersions"] = json!(["v1"]);
    }
    for (route, method, kind) in [
        ("status update", "PUT", JSON),
        ("status merge", "PATCH", MERGE),
        ("status operations", "PATCH", OPERATIONS),
        ("status strategic", "PATCH", STRATEGIC),
        ("status apply", "PATCH", APPLY),
    ] {
        let number = next();
        let uri = format!("{collection}/{}", sort.name(number));
        let (made, _) = sort.fit("POST", &collection, JSON, sort.object(number, &least))?;
        let mut body = sort.object(number, &status);
        if kind == JSON {
            body = made;
            body["status"] = status["status"].clone();
        }
        let query = if kind == APPLY { manager } else { "fieldValidation=Strict" };
        let (sent, answer) = sort.fit(method, &format!("{uri}/status?{query}"), kind, body)?;
        let sent = json!({ "status": sent["status"] });
        sort.look(route, &uri, &sent, &json!({}), &answer);
    }
    Ok(())
}
