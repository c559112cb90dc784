//! One request from one number: the same number always gives the same request.

use std::fmt;
use std::path::Path;

use base64::Engine;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::corpus::{self, Sort};

/// A request to be sent.
pub(super) struct Fuzzed {
    pub(super) method: &'static str,
    pub(super) uri: String,
    pub(super) content_type: &'static str,
    pub(super) accept: &'static str,
    pub(super) body: Vec<u8>,
}

impl fmt::Display for Fuzzed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, uri, content_type, accept, body } = self;
        write!(formatter, "{method} {uri} ({content_type}, accept {accept}): {}", body.escape_ascii())
    }
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// What requests are made of.
pub(super) struct Corpus {
    sorts: Vec<Sort>,
    subresources: Vec<(&'static str, Value)>,
    odd: Vec<Value>,
    /// Paths and bodies that kubectl sent.
    protobuf: Vec<(String, Vec<u8>)>,
}

/// Numbers that follow from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

impl Corpus {
    pub(super) fn read() -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api-machinery/tests/golden/protobuf-requests.jsonl.gz");
        let mut text = String::new();
        let file = std::fs::File::open(path).unwrap();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
        let protobuf = text.lines().map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            let body =
                base64::engine::general_purpose::STANDARD.decode(value["body_base64"].as_str().unwrap()).unwrap();
            (value["path"].as_str().unwrap().to_owned(), body)
        });
        Self {
            protobuf: protobuf.collect(),
            sorts: corpus::sorts(),
            subresources: corpus::subresources(),
            odd: corpus::odd_values(),
        }
    }

    /// Requests for a good object of each kind: what the others then change, read and delete.
    pub(super) fn beginning(&self) -> impl Iterator<Item = Fuzzed> {
        self.sorts.iter().map(|sort| {
            let mut body = sort.good.clone();
            let defined = body["kind"] == "CustomResourceDefinition";
            if !defined {
                body["metadata"]["name"] = json!("a");
            }
            let namespace = if sort.namespaced { "/namespaces/default" } else { "" };
            Fuzzed {
                method: "POST",
                uri: format!("{}{namespace}/{}", sort.base, sort.plural),
                content_type: "application/json",
                accept: "application/json",
                body: body.to_string().into_bytes(),
            }
        })
    }

    /// The request of a number.
    #[expect(clippy::too_many_lines, reason = "a row for each kind of request")]
    pub(super) fn request(&self, seed: u64) -> Fuzzed {
        let random = &mut Random(seed);
        let accept = *random.pick(corpus::ACCEPTS);
        if random.one_in(16) {
            let (path, body) = random.pick(&self.protobuf);
            let mut body = body.clone();
            for _ in 0..random.below(4) {
                damage(random, &mut body);
            }
            return Fuzzed { method: "POST", uri: path.clone(), content_type: PROTOBUF, accept, body };
        }
        if random.one_in(20) {
            let method = *random.pick(&["GET", "POST", "DELETE", "OPTIONS"]);
            let path = *random.pick(corpus::OTHER_PATHS);
            let uri = if path.contains('?') { path.to_owned() } else { format!("{path}?{}", query(random)) };
            return Fuzzed { method, uri, content_type: "application/json", accept, body: Vec::new() };
        }
        let sort = random.pick(&self.sorts);
        let name = if random.one_in(4) { *random.pick(corpus::NAMES) } else { "a" };
        let (subresource, sub_body) = match random.below(6) {
            0 => {
                let (name, body) = random.pick(&self.subresources);
                (Some(*name), body)
            }
            _ => (None, &sort.good),
        };
        let mut path = sort.base.to_owned();
        if sort.namespaced && !random.one_in(12) {
            let namespace = if random.one_in(8) { *random.pick(corpus::NAMESPACES) } else { "default" };
            path = format!("{path}/namespaces/{namespace}");
        }
        path = format!("{path}/{}", sort.plural);
        let method = *random.pick(&["POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "PATCH", "DELETE", "GET"]);
        // What is gone can only be told from an answer that says so.
        let accept = if method == "DELETE" { "application/json" } else { accept };
        let named = subresource.is_some() || !(method == "POST" || random.one_in(8));
        if named {
            path = format!("{path}/{name}");
        }
        if let Some(subresource) = subresource {
            path = format!("{path}/{subresource}");
        }
        let mut content_type = "application/json";
        let body = match method {
            "GET" => Value::Null,
            "DELETE" => random
                .pick(&[
                    Value::Null,
                    json!({}),
                    json!({"propagationPolicy": "Foreground"}),
                    json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "x"}}),
                    json!({"preconditions": null, "propagationPolicy": 3}),
                ])
                .clone(),
            "PATCH" => {
                content_type = *random.pick(&PATCHES);
                self.patch(random, content_type, sub_body, name)
            }
            _ => {
                let mut body = sub_body.clone();
                if subresource.is_none() && body["kind"] != "CustomResourceDefinition" {
                    body["metadata"]["name"] = json!(name);
                }
                self.spoil(random, &mut body);
                body
            }
        };
        let mut text = match &body {
            Value::Null if !random.one_in(10) => String::new(),
            _ if content_type == "application/json" && random.one_in(8) => {
                content_type = "application/yaml";
                yaml(random, &body)
            }
            _ if content_type.ends_with("yaml") && random.one_in(2) => yaml(random, &body),
            _ => body.to_string(),
        }
        .into_bytes();
        if random.one_in(15) {
            damage(random, &mut text);
        }
        if random.one_in(40) {
            content_type = *random.pick(&[
                "",
                "x",
                "application/cbor",
                PROTOBUF,
                "application/yaml",
                "application/json; charset=utf-8",
            ]);
        }
        Fuzzed { method, uri: format!("{path}?{}", query(random)), content_type, accept, body: text }
    }

    /// Leaves an object as it is, or puts something odd into it.
    fn spoil(&self, random: &mut Random, value: &mut Value) {
        // Half of the objects stay good, so that there is something to change and to lose.
        for _ in 0..random.below(7).saturating_sub(3) {
            let odd = random.pick(&self.odd).clone();
            let place = place(random, value);
            match random.below(4) {
                0 => {
                    if let Some(object) = place.as_object_mut() {
                        object
                            .insert((*random.pick(&["dato", "$patch", "", "name", "spec", "status"])).to_owned(), odd);
                    }
                }
                1 => {
                    if let Some(list) = place.as_array_mut() {
                        let again = list.first().cloned().unwrap_or(odd);
                        list.push(again);
                    }
                }
                _ => *place = odd,
            }
        }
    }

    fn patch(&self, random: &mut Random, kind: &str, good: &Value, name: &str) -> Value {
        if kind == PATCHES[0] {
            let operations = (0..random.below(4)).map(|_| {
                let path = pointer(random, good);
                let from = pointer(random, good);
                let operation = *random.pick(&["add", "remove", "replace", "move", "copy", "test", "x"]);
                json!({"op": operation, "path": path, "from": from, "value": random.pick(&self.odd)})
            });
            let mut operations = Value::Array(operations.collect());
            if random.one_in(10) {
                self.spoil(random, &mut operations);
            }
            return operations;
        }
        let mut patch = good.clone();
        if kind == PATCHES[3] {
            if patch.is_object() && !random.one_in(10) {
                patch["metadata"]["name"] = json!(name);
            }
        } else {
            // A part of the object.
            let keep = random.below(3);
            if let Some(object) = patch.as_object_mut() {
                object.retain(|field, _| match keep {
                    0 => field == "metadata",
                    1 => field == "spec" || field == "data" || field == "status",
                    _ => true,
                });
            }
        }
        if kind == PATCHES[2] && random.one_in(3) {
            let place = place(random, &mut patch);
            if let Some(object) = place.as_object_mut() {
                let (field, value) = random
                    .pick(&[
                        ("$patch", json!("delete")),
                        ("$patch", json!("merge")),
                        ("$patch", json!("x")),
                        ("$retainKeys", json!(["name", "type"])),
                        ("$setElementOrder/containers", json!([{"name": "side"}, {"name": "main"}, {"name": "none"}])),
                        ("$setElementOrder/containers", json!(["side", 1, null])),
                        ("$deleteFromPrimitiveList/finalizers", json!(["example.com/keep"])),
                        ("$deleteFromPrimitiveList/command", json!({"a": 1})),
                    ])
                    .clone();
                object.insert(field.to_owned(), value);
            }
        }
        self.spoil(random, &mut patch);
        patch
    }
}

/// Some place in a value.
fn place<'a>(random: &mut Random, value: &'a mut Value) -> &'a mut Value {
    let inner = match value {
        Value::Object(object) => object.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    };
    if inner == 0 || random.one_in(6) {
        return value;
    }
    let at = random.below(inner);
    match value {
        Value::Object(object) => match object.values_mut().nth(at) {
            Some(inner) => place(random, inner),
            None => unreachable!("there are {inner} values"),
        },
        Value::Array(list) => place(random, &mut list[at]),
        _ => value,
    }
}

/// A pointer to some place in a value, or past it.
fn pointer(random: &mut Random, value: &Value) -> String {
    let mut text = String::new();
    let mut value = value;
    while !random.one_in(5) {
        let (step, inner) = match value {
            Value::Object(object) if !object.is_empty() => {
                let (name, inner) = object.iter().nth(random.below(object.len())).unwrap();
                (name.replace('~', "~0").replace('/', "~1"), inner)
            }
            Value::Array(list) if !list.is_empty() => {
                let at = random.below(list.len());
                (at.to_string(), &list[at])
            }
            _ => break,
        };
        text = format!("{text}/{step}");
        value = inner;
    }
    if random.one_in(4) {
        let wrong = *random.pick(&["/-", "/99999999999999999999", "/x", "~2", "/", "/-1", "/01", "☃"]);
        text.push_str(wrong);
    }
    text
}

fn query(random: &mut Random) -> String {
    let mut pairs: Vec<String> = (0..random.below(4).saturating_sub(1))
        .map(|_| {
            let (name, values) = random.pick(corpus::QUERY);
            let value = *random.pick(values);
            format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
        })
        .collect();
    for name in ["labelSelector", "fieldSelector"] {
        if random.one_in(8) {
            let text: String = (0..random.below(7)).map(|_| *random.pick(corpus::SELECTOR_PIECES)).collect();
            pairs.push(format!("{name}={}", utf8_percent_encode(&text, NON_ALPHANUMERIC)));
        }
    }
    if random.one_in(12) {
        pairs.push(
            (*random.pick(&["&&&", "=", "%zz", "a=%ff%fe", "watch", "fieldManager=a&fieldManager=b"])).to_owned(),
        );
    }
    // Most applies name their manager.
    if random.one_in(2) {
        pairs.push("fieldManager=a".to_owned());
    }
    pairs.join("&")
}

fn yaml(random: &mut Random, value: &Value) -> String {
    let mut text = serde_saphyr::to_string(value).unwrap_or_default();
    match random.below(8) {
        0 => text.push_str("x: &x [1, *x]\n"),
        1 => text.push_str("a: &a [b,b,b]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nd: [*c,*c,*c]\n"),
        2 => text.push_str("---\nkind: Other\n"),
        3 => text.push_str("\tmetadata: {}\n"),
        4 => text.push_str("<<: {metadata: {name: a}}\n"),
        5 => text.push_str("metadata: {}\n"),
        _ => {}
    }
    text
}

/// Changes, cuts or repeats a part of a text.
fn damage(random: &mut Random, text: &mut Vec<u8>) {
    if text.is_empty() {
        let other = *random.pick(&[&b"{"[..], b"null", b"[[[[[[", b"\xff\xfe", b"k8s\x00", b"\"", b"{}{}"]);
        text.extend_from_slice(other);
        return;
    }
    let at = random.below(text.len());
    match random.below(6) {
        0 => text.truncate(at),
        1 => text[at] = random.next() as u8,
        2 => text[at] ^= 1 << random.below(8),
        3 => {
            let end = (at + 1 + random.below(20)).min(text.len());
            let part = text[at..end].to_vec();
            text.splice(at..at, part);
        }
        4 => {
            let end = (at + 1 + random.below(8)).min(text.len());
            text.drain(at..end);
        }
        _ => {
            let many = b"[".repeat(random.below(3000));
            text.splice(at..at, many);
        }
    }
}
