//! Patches and definitions whose cost could grow with the square of their length, and texts that could be as long as all
//! paths of an object together.

use std::sync::Arc;

use jiff::Timestamp;
use klab_api_machinery::resource::{CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, CustomName, PODS, ResourceId};
use klab_api_machinery::work::counted;
use klab_cluster::clock::SteppedClock;
use klab_cluster::cluster::{Cluster, FieldValidation, Part, WriteOptions};
use klab_fields::Patch;
use serde_json::{Map, Value, json};

use super::{FEW, FLOOR, MANY, MOST};

/// A cluster with a definition whose objects may hold anything in `free`, and lists of whole numbers in `list`.
fn cluster() -> (Cluster, ResourceId) {
    let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
    let number = json!({ "type": "integer", "enum": (0..2_000).collect::<Vec<_>>() });
    let closed = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let schema = json!({ "type": "object", "properties": {
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "list": { "type": "array", "maxItems": 1_000, "items": { "type": "integer" },
            "x-kubernetes-validations": [{ "rule": "self.all(a, self.exists(b, a == b))" }] },
        "numbers": { "type": "array", "items": number },
        "closed": { "type": "object", "additionalProperties": closed },
        "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "integer" } },
    } });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let definition = json!({ "metadata": { "name": "things.a.example" }, "spec": {
        "group": "a.example", "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" }, "versions": [version],
    } });
    cluster.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, &WriteOptions::client("test")).expect("a definition");
    let name = CustomName { group: "a.example", version: "v1", kind: "Thing", plural: "things", namespaced: true };
    let things = ResourceId::define(&name);
    (cluster, things)
}

fn thing(fields: &Value) -> Value {
    let mut thing = json!({ "apiVersion": "a.example/v1", "kind": "Thing", "metadata": { "name": "a" } });
    for (name, value) in fields.as_object().expect("fields") {
        thing[name] = value.clone();
    }
    thing
}

/// An object, and a patch with a given number of operations or entries.
type Made = fn(usize) -> (Value, Patch);

fn list(entries: usize) -> Value {
    (0..entries).collect::<Vec<_>>().into()
}

fn env(entries: usize, value: &str) -> Value {
    (0..entries).map(|at| json!({ "name": format!("N{at}"), "value": value })).collect()
}

fn pod(env: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
        "spec": { "containers": [{ "name": "c", "image": "x", "env": env }] } })
}

fn operations(entries: usize, operation: fn(usize) -> Value) -> Patch {
    Patch::Json((0..entries).map(operation).collect())
}

/// Managers that have written one field each, and that have applied one.
fn managers(entries: usize, operation: &str) -> Value {
    let manager = |at: usize| {
        json!({ "manager": format!("m{at}"), "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": format!("2026-01-01T00:{:02}:{:02}Z", at / 60 % 60, at % 60), "fieldsV1": { "f:data": { format!("f:k{at}"): {} } } })
    };
    (0..entries).map(manager).collect()
}

fn map(entries: usize, value: &str) -> Value {
    let data: Map<String, Value> = (0..entries).map(|at| (format!("k{at}"), json!(value))).collect();
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

const PATCHES: [(&str, Made); 13] = [
    ("adds at the front", |n| {
        (
            thing(&json!({ "free": { "l": list(n) } })),
            operations(n, |_| json!({ "op": "add", "path": "/free/l/0", "value": 1 })),
        )
    }),
    ("moves from the end to the front", |n| {
        (
            thing(&json!({ "free": { "l": list(n) } })),
            operations(n, |_| json!({ "op": "move", "from": "/free/l/-1", "path": "/free/l/0" })),
        )
    }),
    ("moves to the end", |n| {
        (
            thing(&json!({ "free": { "l": list(n) } })),
            operations(n, |_| json!({ "op": "move", "from": "/free/l/0", "path": "/free/l/-" })),
        )
    }),
    ("moves much back and forth", |n| {
        (
            thing(&json!({ "free": { "l": [list(n), 1] } })),
            operations(n, |_| json!({ "op": "move", "from": "/free/l/-1", "path": "/free/l/0" })),
        )
    }),
    ("copies of the last", |n| {
        (
            thing(&json!({ "free": { "l": list(n) } })),
            operations(n, |_| json!({ "op": "copy", "from": "/free/l/0", "path": "/free/l/-" })),
        )
    }),
    ("tests", |n| {
        (
            thing(&json!({ "free": { "l": list(n) } })),
            operations(n, |_| json!({ "op": "test", "path": "/free/l/0", "value": 0 })),
        )
    }),
    ("merge", |n| (map(n, "a"), Patch::Merge(json!({ "data": map(n, "b")["data"] })))),
    ("strategic merge", |n| (pod(&env(n, "a")), Patch::Strategic(pod(&env(n, "b"))))),
    ("strategic merge in another order", |n| {
        let order: Value = (0..n).rev().map(|at| json!({ "name": format!("N{at}") })).collect();
        let container = json!({ "name": "c", "env": env(n, "b"), "$setElementOrder/env": order });
        (pod(&env(n, "a")), Patch::Strategic(json!({ "spec": { "containers": [container] } })))
    }),
    ("strategic merge with many orders", |n| {
        let mut metadata = map(n, "b")["data"].clone();
        for at in 0..n {
            metadata[format!("$setElementOrder/k{at}")] = json!(["a"]);
        }
        (map(n, "a"), Patch::Strategic(json!({ "data": metadata })))
    }),
    ("apply of what is there", |n| (map(n, "a"), Patch::Apply { value: map(n, "b"), force: true })),
    ("apply beside very many who applied", |n| {
        let mut object = map(n, "a");
        object["metadata"]["managedFields"] = managers(n, "Apply");
        (object, Patch::Apply { value: map(n, "b"), force: true })
    }),
    ("merge beside very many who wrote", |n| {
        let mut patch = json!({ "data": map(n, "b")["data"] });
        patch["metadata"] = json!({ "managedFields": managers(n, "Update") });
        (map(n, "a"), Patch::Merge(patch))
    }),
];

fn kind_of(object: &Value, things: ResourceId) -> ResourceId {
    match object["kind"].as_str() {
        Some("Pod") => PODS,
        Some("ConfigMap") => CONFIG_MAPS,
        _ => things,
    }
}

#[test]
fn steps_of_patches_grow_no_faster_than_n_log_n() {
    let mut found = Vec::new();
    for (name, made) in PATCHES {
        let steps = |entries: usize| {
            let (cluster, things) = cluster();
            let (object, patch) = made(entries);
            let (kind, mut options) = (kind_of(&object, things), WriteOptions::client("test"));
            cluster.create(kind, "default", object, &options).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            options.dry_run = true;
            counted(|| cluster.patch(kind, Part::Main, "default", "a", patch, &options).map(drop))
        };
        let ((_, few), (outcome, many)) = (steps(FEW), steps(MANY));
        // A pod's environment does not change; that is looked for last.
        assert!(outcome.is_ok() || name.starts_with("strategic merge"), "{name}: {outcome:?}");
        if many < MANY as u64 {
            found.push(format!("{name}: {many} steps are fewer than its entries"));
        }
        if many > FLOOR + MOST * few {
            found.push(format!("{name}: {few} steps, then {many}"));
        }
    }
    assert_eq!(found, [""; 0]);
}

/// What costs more than its length says counts as much, so that it is no short request, and stops with its client.
#[test]
fn steps_count_what_schemas_and_expressions_cost() {
    let (cluster, things) = cluster();
    let mut options = WriteOptions::client("test");
    options.dry_run = true;
    for (field, entries) in [("numbers", 1_000), ("list", 400)] {
        let object = thing(&json!({ field: list(entries) }));
        let (_, steps) = counted(|| cluster.create(things, "default", object, &options).map(drop));
        assert!(steps > 20 * entries as u64, "{field}: {steps}");
    }
}

#[test]
fn a_patch_cannot_double_an_object_again_and_again() {
    let (cluster, things) = cluster();
    let options = WriteOptions::client("test");
    cluster.create(things, "default", thing(&json!({ "free": { "a": ["xxxxxxxx"] } })), &options).expect("made");
    let chain = |op: &str| operations_of(op, 60);
    for (patch, code) in [(chain("copy"), 422), (chain("move"), 422)] {
        let refused = cluster.patch(things, Part::Main, "default", "a", patch, &options).expect_err("refused");
        assert_eq!(refused.code, code, "{}", refused.message);
        assert!(refused.message.len() < 20_000, "{}", refused.message.len());
    }
}

fn operations_of(op: &str, count: usize) -> Patch {
    Patch::Json((0..count).map(|_| json!({ "op": op, "from": "/free/a", "path": "/free/a/-" })).collect())
}

/// Each operation nests what is there one level deeper. It is refused, whatever stands on the stack by then.
#[test]
fn a_patch_cannot_nest_an_object_deeper_than_a_body_may() {
    let (cluster, things) = cluster();
    let options = WriteOptions::client("test");
    cluster.create(things, "default", thing(&json!({ "free": { "a": {} } })), &options).expect("made");
    let nest = |_| {
        [
            json!({ "op": "add", "path": "/free/b", "value": {} }),
            json!({ "op": "move", "from": "/free/a", "path": "/free/b/c" }),
            json!({ "op": "move", "from": "/free/b", "path": "/free/a" }),
        ]
    };
    let patch = Patch::Json((0..3_300).flat_map(nest).collect());
    let refused = cluster.patch(things, Part::Main, "default", "a", patch, &options).expect_err("refused");
    assert_eq!(refused.code, 422, "{}", refused.message.len());
}

/// Most bytes of an answer: the texts, once as they are, and once as causes.
const LONGEST: usize = 16 << 20;

#[test]
fn texts_about_an_object_are_no_longer_than_a_request_however_long_its_names_are() {
    let (cluster, things) = cluster();
    let long = "x".repeat(20_000);
    let entries = |value: Value| -> Value {
        (0..2_000).map(|at| (format!("k{at}"), value.clone())).collect::<Map<_, _>>().into()
    };
    let (known, unknown) =
        (json!({ "free": { &long: entries(json!(1)) } }), json!({ "closed": { &long: entries(json!(1)) } }));
    let many: Value = (0..2_000).map(|at| (format!("{long}{at}"), json!({ "a": "x" }))).collect::<Map<_, _>>().into();
    let mut options = WriteOptions::client("one");
    cluster
        .patch(things, Part::Main, "default", "a", Patch::Apply { value: thing(&known), force: false }, &options)
        .expect("applied");
    let other = json!({ "free": { &long: entries(json!(2)) } });
    options.manager = "two";
    let conflict = cluster.patch(
        things,
        Part::Main,
        "default",
        "a",
        Patch::Apply { value: thing(&other), force: false },
        &options,
    );
    let undeclared = cluster.patch(
        things,
        Part::Main,
        "default",
        "a",
        Patch::Apply {
            value: thing(&json!({ "closed": { &long: { "a": (0..2_000).map(|_| json!("x")).collect::<Value>() } } })),
            force: false,
        },
        &options,
    );
    let mut named = thing(&unknown);
    named["metadata"]["name"] = json!("b");
    options.validation = FieldValidation::Strict;
    let strict = cluster.create(things, "default", named.clone(), &options);
    options.validation = FieldValidation::Warn;
    let warned = cluster.create_reporting(things, "default", named, &options).expect("made");
    let mut wrong = thing(&json!({ "closed": many }));
    wrong["metadata"]["name"] = json!("c");
    let invalid = cluster.create(things, "default", wrong, &options);
    let bytes: usize = warned.warnings.iter().map(String::len).sum();
    assert!((1..LONGEST).contains(&bytes), "{bytes}");
    for (name, answer) in [
        ("conflict", conflict.map(drop)),
        ("undeclared", undeclared.map(drop)),
        ("strict", strict.map(drop)),
        ("invalid", invalid.map(drop)),
    ] {
        let refused = answer.expect_err(name).to_value().to_string();
        assert!(refused.len() < LONGEST, "{name}: {}", refused.len());
    }
}
