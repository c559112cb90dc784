//! Every field of every kind through every route, and read back: nothing is lost, added or renamed.
//!
//! Each field is laid over the least object of its kind. Fields that get along are sent together; those that are refused
//! are sent by themselves, so that one which is refused hides no other. What no object has is listed with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use klab_api_machinery::resource::{RESOURCES, Resource};
use klab_api_machinery::schema::{Shape, TypeId, schema};
use serde_json::{Value, json};

use super::comparison::{Difference, common, compare};
use super::place::{APPLY, Answer, JSON, MERGE, OPERATIONS, Place};
use super::samples::{self, Leaf, lay, listed, tagged};
use super::{needs, rules};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// So often what an object lacks is added.
const ROUNDS: usize = 8;

/// Ways to write an object; whether it is there before.
const ROUTES: &[(&str, &str, &str, bool)] = &[
    ("create", "POST", JSON, false),
    ("apply a new one", "PATCH", APPLY, false),
    ("update", "PUT", JSON, true),
    ("merge patch", "PATCH", MERGE, true),
    ("JSON patch", "PATCH", OPERATIONS, true),
    ("strategic merge patch", "PATCH", STRATEGIC, true),
    ("server-side apply", "PATCH", APPLY, true),
    ("client-side apply", "PATCH", STRATEGIC, true),
];
const VALIDATIONS: [&str; 3] = ["Strict", "Warn", "Ignore"];

/// A part of a kind that is written at a path of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Main,
    Status,
    /// Containers that are put into a pod that runs.
    Ephemeral,
}

impl Part {
    const fn below(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "/status",
            Self::Ephemeral => "/ephemeralcontainers",
        }
    }

    fn has(self, path: &str) -> bool {
        let ephemeral = path.starts_with("spec.ephemeralContainers");
        match self {
            Self::Main => !path.starts_with("status") && !ephemeral,
            Self::Status => path.starts_with("status"),
            Self::Ephemeral => ephemeral,
        }
    }
}

/// What was found.
#[derive(Default)]
struct Findings {
    /// What is wrong, each once, with where it was seen first.
    faults: BTreeMap<String, String>,
    /// Fields that were read back as they were sent, by route.
    reached: BTreeMap<&'static str, BTreeSet<String>>,
    /// Fields that no object was accepted with, and what the API server says of them.
    refused: BTreeMap<String, String>,
    fields: usize,
    /// How many of them no object is accepted with.
    known: usize,
}

/// A kind, and where its objects are.
struct Kind {
    place: Place,
    row: &'static Resource,
    id: TypeId,
    collection: String,
    part: Part,
    least: Value,
    made: usize,
    found: Findings,
}

impl Kind {
    fn name(&self) -> String {
        let number = self.made;
        match (self.row.group, self.row.kind) {
            ("apiregistration.k8s.io", _) => format!("v1.a{number}.example.com"),
            ("networking.k8s.io", "IPAddress") => format!("10.96.{}.{}", number / 250, number % 250 + 1),
            ("apiextensions.k8s.io", _) => format!("a{number}.example.com"),
            _ => format!("a{number}"),
        }
    }

    fn uri(&self) -> String {
        format!("{}/{}", self.collection, self.name())
    }

    fn ask(&self, method: &str, uri: &str, kind: &str, body: &Value) -> Answer {
        self.place.ask(method, uri, kind, body)
    }

    /// An object of this kind with fields as they are sent.
    fn object(&self, fields: &Value) -> Value {
        let mut object = listed(fields);
        object["apiVersion"] = json!(self.row.api_version());
        object["kind"] = json!(self.row.kind);
        object["metadata"]["name"] = json!(self.name());
        if self.row.group == "apiextensions.k8s.io" && object["spec"].is_object() {
            object["spec"]["names"]["plural"] = json!(format!("a{}", self.made));
            object["spec"]["names"]["kind"] = json!(format!("A{}", self.made));
        }
        object
    }

    /// The fields together on the least object, as far as what the API server misses can be added.
    fn fit(&mut self, leaves: &[Leaf]) -> Result<Value, (String, Vec<Vec<String>>)> {
        let mut fields = json!({});
        for leaf in leaves {
            lay(&mut fields, &leaf.around);
        }
        let mut least = self.least.clone();
        needs::make_room(&mut least, self.row.kind, leaves.first().map_or("", |leaf| &leaf.path));
        lay(&mut fields, &least);
        // What the least object has is right as it is there.
        for leaf in leaves.iter().filter(|leaf| !samples::has(&least, &leaf.own)) {
            lay(&mut fields, &leaf.own);
        }
        let mut tried = BTreeSet::new();
        for _ in 0..ROUNDS {
            let answer = self.write("create", &fields, "dryRun=All&fieldValidation=Strict");
            if answer.code < 300 {
                return Ok(fields);
            }
            let causes = answer.value["details"]["causes"].as_array().cloned().unwrap_or_default();
            let mut is_better = false;
            for cause in &causes {
                let text = |name: &str| cause[name].as_str().unwrap_or_default();
                if !tried.insert(format!("{} {}", text("field"), text("reason"))) {
                    continue;
                }
                let values =
                    text("message").split_once("supported values: ").and_then(|(_, all)| all.split('"').nth(1));
                is_better |= match (text("reason"), values) {
                    ("FieldValueRequired", _) => samples::provide(self.id, &mut fields, text("field"), None),
                    ("FieldValueNotSupported", Some(value)) => {
                        samples::provide(self.id, &mut fields, text("field"), Some(value))
                    }
                    _ => false,
                };
            }
            if !is_better {
                let places = causes.iter().filter_map(|cause| cause["field"].as_str());
                let places = places.map(|text| samples::place(&fields, text)).filter(|place| place.len() > 1).collect();
                return Err((answer.value["message"].as_str().unwrap_or_default().to_owned(), places));
            }
        }
        Err(("what is missing is never enough".to_owned(), Vec::new()))
    }

    /// Writes a part as a new object is written, or where the part has a path of its own, as it is updated.
    fn write(&mut self, route: &str, fields: &Value, query: &str) -> Answer {
        let body = self.object(fields);
        if self.part == Part::Main && route == "create" {
            return self.ask("POST", &format!("{}?{query}", self.collection), JSON, &body);
        }
        self.ask("PUT", &format!("{}{}?{query}", self.uri(), self.part.below()), JSON, &body)
    }

    /// Splits fields into groups that get along.
    fn groups(&mut self, leaves: Vec<Leaf>, found: &mut Vec<(Vec<Leaf>, Value)>) {
        if leaves.is_empty() {
            return;
        }
        let (message, places) = match self.fit(&leaves) {
            Ok(fields) => return found.push((leaves, fields)),
            Err(why) => why,
        };
        if leaves.len() == 1 {
            self.found.refused.insert(format!("{} {}", self.title(), leaves[0].path), message);
            return;
        }
        let is_named = |leaf: &Leaf| places.iter().any(|place| reaches(&leaf.around, place));
        let (named, others): (Vec<Leaf>, Vec<Leaf>) = leaves.into_iter().partition(is_named);
        if named.is_empty() || others.is_empty() {
            let mut all = if named.is_empty() { others } else { named };
            let rest = all.split_off(all.len() / 2);
            self.groups(all, found);
            self.groups(rest, found);
        } else {
            self.groups(others, found);
            self.groups(named, found);
        }
    }

    fn title(&self) -> String {
        format!("{} {}", self.row.api_version(), self.row.kind)
    }

    /// Sends a group by each route.
    fn send(&mut self, leaves: &[Leaf], fields: &Value, number: usize) {
        for (at, (route, method, kind, exists)) in ROUTES.iter().copied().enumerate() {
            if self.part != Part::Main && !exists {
                continue;
            }
            let validations: &[&str] = match route {
                "create" => &VALIDATIONS,
                _ => &VALIDATIONS[(number + at) % 3..=(number + at) % 3],
            };
            for validation in validations {
                match self.route(route, (method, kind), exists, fields, validation) {
                    Ok(()) => {
                        let title = self.title();
                        let reached = self.found.reached.entry(route).or_default();
                        reached.extend(leaves.iter().map(|leaf| format!("{title} {}", leaf.path)));
                    }
                    Err(why) => {
                        let first = &leaves[0].path;
                        self.fault(
                            format!("{route} {validation}: {why}"),
                            &format!("{first} and {} more", leaves.len() - 1),
                        );
                    }
                }
            }
        }
    }

    fn fault(&mut self, what: String, place: &str) {
        let seen = format!("{} {place}", self.title());
        self.found.faults.entry(what).or_insert(seen);
    }

    fn route(
        &mut self,
        route: &'static str,
        (method, kind): (&str, &str),
        exists: bool,
        fields: &Value,
        validation: &str,
    ) -> Result<(), String> {
        let query = match kind {
            APPLY => format!("fieldValidation={validation}&fieldManager=fuzz&force=true"),
            _ => format!("fieldValidation={validation}"),
        };
        // What may not be changed is sent once more to an object that has it.
        for least in if exists { &[true, false][..] } else { &[true][..] } {
            self.made += 1;
            if exists {
                let before = if *least || self.part != Part::Main { self.least.clone() } else { fields.clone() };
                let body = self.object(&before);
                let made = self.ask("POST", &self.collection.clone(), JSON, &body);
                if made.code != 201 {
                    return Err(format!("not made: {}", made.value["message"]));
                }
            }
            let mut body = self.object(fields);
            if !least {
                let uri = self.uri();
                body = self.ask("GET", &uri, JSON, &Value::Null).value;
                body["metadata"] = json!({
                    "name": body["metadata"]["name"], "finalizers": body["metadata"]["finalizers"],
                    "labels": body["metadata"]["labels"], "annotations": body["metadata"]["annotations"],
                    "ownerReferences": body["metadata"]["ownerReferences"],
                });
            }
            if !least {
                body["metadata"]["labels"]["again"] = json!("yes");
            }
            if route == "client-side apply" {
                body["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                    json!(body.to_string());
            }
            let uri = match method {
                "POST" => self.collection.clone(),
                _ => format!("{}{}", self.uri(), self.part.below()),
            };
            let sent = match kind {
                OPERATIONS => body
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| *name != "metadata")
                    .map(|(name, value)| json!({ "op": "add", "path": format!("/{name}"), "value": value }))
                    .collect(),
                _ => body.clone(),
            };
            let answer = self.ask(method, &format!("{uri}?{query}"), kind, &sent);
            if answer.code < 300 {
                if kind == OPERATIONS {
                    body.as_object_mut().map(|map| map.remove("metadata"));
                }
                self.look(route, &body, &answer);
                self.remove(fields);
                return Ok(());
            }
            self.remove(fields);
            if !exists || !*least {
                return Err(format!("{} {}", answer.code, answer.value["message"]));
            }
        }
        Ok(())
    }

    fn remove(&mut self, fields: &Value) {
        let uri = self.uri();
        self.ask("DELETE", &uri, JSON, &json!({ "gracePeriodSeconds": 0 }));
        if !fields["metadata"]["finalizers"].is_null() {
            self.ask("PATCH", &uri, MERGE, &json!({ "metadata": { "finalizers": null } }));
        }
    }

    /// Reads an object back and compares it with what was sent.
    fn look(&mut self, route: &str, sent: &Value, answer: &Answer) {
        let uri = self.uri();
        let found = self.ask("GET", &uri, JSON, &Value::Null).value;
        let mut sent = sent.clone();
        let mut compared = found.clone();
        for object in [&mut sent, &mut compared] {
            let is_of_part = |name: &str| match self.part {
                Part::Main => name != "status" && (name != "metadata" || route != "JSON patch"),
                Part::Status => name == "status",
                Part::Ephemeral => name == "spec",
            };
            if let Some(map) = object.as_object_mut() {
                map.retain(|name, _| is_of_part(name));
            }
        }
        let mut decoded = sent.clone();
        if let Err(error) = schema().tidy(self.id, &mut decoded) {
            self.fault(format!("{error}"), "");
        }
        let mut differences = Vec::new();
        compare(&Shape::Struct(self.id), ("", "", &[]), &common(&sent, &decoded), &compared, "", &mut differences);
        for difference in differences.into_iter().filter(|difference| !rules::allow(difference)) {
            self.fault(difference.what(), &format!("{route} {}", difference.path));
        }
        for warning in answer.warnings.iter().filter(|warning| warning.contains("unknown field")) {
            self.fault(warning.clone(), route);
        }
        if route == "create" && self.row.verbs.contains(&"update") {
            let again = self.ask("PUT", &format!("{uri}?fieldValidation=Strict"), JSON, &found);
            let version = |value: &Value| value["metadata"]["resourceVersion"].clone();
            if again.code != 200 || version(&again.value) != version(&found) {
                let mut differences = Vec::new();
                compare(&Shape::Struct(self.id), ("", "", &[]), &found, &again.value, "", &mut differences);
                let what: Vec<String> = differences.iter().map(Difference::what).collect();
                self.fault(
                    format!(
                        "what was read is not the same sent again: {} {} {what:?}",
                        again.code, again.value["message"]
                    ),
                    "",
                );
            }
        }
    }
}

/// Whether an object has something at a path, or the path ends within it.
fn reaches(mut object: &Value, place: &[String]) -> bool {
    for step in place {
        match object.get(step) {
            Some(inner) => object = inner,
            None => return false,
        }
    }
    true
}

/// All parts of a kind.
fn kind(row: &'static Resource, id: TypeId) -> Findings {
    let place = Place::new();
    for (uri, body) in [
        ("/apis/scheduling.k8s.io/v1/priorityclasses", json!({ "metadata": { "name": "first" }, "value": 1 })),
        (
            "/apis/node.k8s.io/v1/runtimeclasses",
            json!({ "metadata": { "name": "first" }, "handler": "a", "overhead": { "podFixed": { "cpu": "1" } } }),
        ),
    ] {
        let answer = place.ask("POST", uri, JSON, &body);
        assert_eq!(answer.code, 201, "{}", answer.value);
    }
    let labels = json!({ "metadata": { "labels": { "resource.kubernetes.io/admin-access": "true" } } });
    let answer = place.ask("PATCH", "/api/v1/namespaces/default", MERGE, &labels);
    assert_eq!(answer.code, 200, "{}", answer.value);
    let base = if row.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", row.api_version()) };
    let inside = if row.namespaced { "/namespaces/default" } else { "" };
    let collection = format!("{base}{inside}/{}", row.plural);
    let least = tagged(&needs::of(&row.api_version(), row.kind));
    let mut kind = Kind { place, row, id, collection, part: Part::Main, least, made: 0, found: Findings::default() };
    // The least object itself has to be taken.
    match kind.fit(&[]) {
        Ok(fields) => kind.least = fields,
        Err((why, _)) => {
            kind.fault(format!("no object is taken: {why}"), "");
            return kind.found;
        }
    }
    let parts = [("", Part::Main), ("status", Part::Status), ("ephemeralcontainers", Part::Ephemeral)];
    for (name, part) in parts {
        if !name.is_empty() && !row.subresources.iter().any(|own| own.name == name) {
            continue;
        }
        kind.part = part;
        let leaves = samples::leaves(id, |name| !matches!(name, "apiVersion" | "kind"));
        let leaves: Vec<Leaf> = leaves.into_iter().filter(|leaf| part.has(&leaf.path)).collect();
        kind.found.fields += leaves.len();
        if part != Part::Main {
            kind.made += 1;
            let body = kind.object(&kind.least);
            let made = kind.ask("POST", &kind.collection.clone(), JSON, &body);
            assert_eq!(made.code, 201, "{}", made.value);
        }
        let (known, leaves): (Vec<Leaf>, Vec<Leaf>) =
            leaves.into_iter().partition(|leaf| rules::refused(row.kind, &leaf.path).is_some());
        kind.found.known += known.len();
        // A template has what a pod has: what is refused in all of them is tried in one.
        let is_tried = |leaf: &Leaf| row.kind == "Deployment" || !leaf.path.contains("template.spec.");
        for leaf in known.into_iter().filter(is_tried) {
            if kind.fit(std::slice::from_ref(&leaf)).is_ok() {
                kind.fault("is listed as refused, and is not".to_owned(), &leaf.path);
            }
        }
        let mut groups = Vec::new();
        let mut by_room: BTreeMap<Option<String>, Vec<Leaf>> = BTreeMap::new();
        for leaf in leaves {
            let room = needs::room_of(row.kind, &leaf.path).map(str::to_owned);
            by_room.entry(room).or_default().push(leaf);
        }
        for leaves in by_room.into_values() {
            kind.groups(leaves, &mut groups);
        }
        for (number, (leaves, fields)) in groups.iter().enumerate() {
            kind.send(leaves, fields, number);
        }
    }
    kind.found
}

/// The fewest fields that must come back by a route to a new object.
const REACHED: usize = 7_600;
/// The most fields that may be refused with every object.
const REFUSED: usize = 1_580;

#[test]
fn every_field_of_every_kind_comes_back_by_every_route() {
    let kinds: Vec<(&'static Resource, TypeId)> = RESOURCES
        .iter()
        .filter(|row| ["create", "get"].iter().all(|verb| row.verbs.contains(verb)))
        .filter_map(|row| Some((row, schema().kind(&row.api_version(), row.kind)?)))
        .collect();
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Findings::default()));
    let work = || {
        while let Some((row, id)) = kinds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = kind(row, *id);
            let mut all = all.lock().unwrap();
            all.faults.extend(found.faults);
            all.refused.extend(found.refused);
            for (route, paths) in found.reached {
                all.reached.entry(route).or_default().extend(paths);
            }
            all.fields += found.fields;
            all.known += found.known;
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let all = all.into_inner().unwrap();
    let lines = |found: &BTreeMap<String, String>| -> String {
        found.iter().map(|(one, other)| format!("{one}: {other}\n")).collect()
    };
    assert!(all.refused.is_empty(), "fields are refused that `refused.txt` does not list:\n{}", lines(&all.refused));
    assert!(all.faults.is_empty(), "{} faults:\n{}", all.faults.len(), lines(&all.faults));
    let reached: Vec<(&str, usize)> = all.reached.iter().map(|(route, paths)| (*route, paths.len())).collect();
    println!("of {} fields {} are refused; read back by route: {reached:?}", all.fields, all.known);
    assert_eq!(reached.len(), ROUTES.len());
    for (route, .., exists) in ROUTES {
        // Routes to what is there have all parts of an object; new ones have no status.
        let least = if *exists { all.fields - all.known } else { REACHED };
        assert!(all.reached[route].len() >= least, "{route}: {reached:?}");
    }
    assert!(all.known <= REFUSED, "{} fields are refused", all.known);
}
