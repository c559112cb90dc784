//! Conversion webhooks of custom resources. In Kubernetes' own suite they run in pods; here a closure is the webhook.

use std::sync::{Arc, Mutex};

use klab_cluster::Cluster;
use klab_cluster::webhook::{Call, CallError};
use serde_json::{Value, json};

use super::ground::Ground;

const GROUP: &str = "stable.example.com";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/stable.example.com/v1/namespaces/default/endpoints";
const V2: &str = "/apis/stable.example.com/v2/namespaces/default/endpoints";

type Seen = Arc<Mutex<Vec<Value>>>;

/// What upstream's webhook does: `hostPort` of `v1` is `host` and `port` of `v2`.
fn converted(object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if version.ends_with("/v2") {
        let both = text(&object["hostPort"]);
        let (host, port) = both.split_once(':').unwrap_or((&both, ""));
        (object["host"], object["port"]) = (json!(host), json!(port));
        object.as_object_mut().unwrap().remove("hostPort");
    } else {
        object["hostPort"] = json!(format!("{}:{}", text(&object["host"]), text(&object["port"])));
        object.as_object_mut().unwrap().retain(|field, _| field != "host" && field != "port");
    }
    object["apiVersion"] = json!(version);
    object
}

/// A cluster whose conversion webhook is `answer`, and what it was sent.
fn converting(answer: fn(&Value, Value) -> Result<Value, CallError>) -> (Ground, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let webhook = move |call: &Call| {
        assert_eq!(call.timeout.as_secs(), 30);
        let review = call.json();
        let request = &review["request"];
        noted.lock().unwrap().push(review.clone());
        let version = request["desiredAPIVersion"].as_str().unwrap();
        let objects = request["objects"].as_array().unwrap().iter().map(|object| converted(object, version));
        let response = json!({
            "uid": request["uid"], "result": { "status": "Success" }, "convertedObjects": objects.collect::<Vec<_>>(),
        });
        let answered = answer(request, response)?;
        Ok(json!({ "apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": answered }))
    };
    (Ground::of(Cluster::builder().nodes(1).webhooks(webhook).build().unwrap()), seen)
}

#[expect(clippy::unnecessary_wraps, reason = "others fail")]
fn faithful(_: &Value, response: Value) -> Result<Value, CallError> {
    Ok(response)
}

/// Endpoints of two versions, stored as `v1` or `v2`.
fn definition(stored: &str) -> Value {
    let text = json!({ "type": "string" });
    let version = |name: &str, fields: &[&str], column: &str| {
        let properties: Value = fields.iter().map(|field| ((*field).to_owned(), text.clone())).collect();
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } },
            "selectableFields": [{ "jsonPath": format!(".{column}") }],
            "additionalPrinterColumns": [{ "name": column, "type": "string", "jsonPath": format!(".{column}") }],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("endpoints.{GROUP}") },
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": { "plural": "endpoints", "kind": "Endpoint" },
            "conversion": { "strategy": "Webhook", "webhook": {
                "clientConfig": { "url": "https://127.0.0.1:9443/convert" }, "conversionReviewVersions": ["v1", "v1beta1"],
            } },
            "versions": [version("v1", &["hostPort"], "hostPort"), version("v2", &["host", "port"], "host")],
        },
    })
}

fn first(name: &str, both: &str) -> Value {
    json!({ "apiVersion": "stable.example.com/v1", "kind": "Endpoint", "metadata": { "name": name }, "hostPort": both })
}

fn second(name: &str, host: &str, port: &str) -> Value {
    json!({
        "apiVersion": "stable.example.com/v2", "kind": "Endpoint", "metadata": { "name": name }, "host": host, "port": port,
    })
}

fn in_v2(object: &Value) -> (&str, &str, &str) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    (text("apiVersion"), text("host"), text("port"))
}

// upstream test: [sig-api-machinery] CustomResourceConversionWebhook [Privileged:ClusterAdmin] should be able to convert from CR v1 to CR v2 [Conformance]
#[test]
fn an_object_is_shown_in_the_version_that_is_asked_for() {
    let (ground, seen) = converting(faithful);
    ground.post(DEFINITIONS, &definition("v1")).good();
    let made = ground.post(V1, &first("web", "local:8080")).good();
    assert_eq!(made["hostPort"], "local:8080");
    assert!(seen.lock().unwrap().is_empty(), "nothing to convert");
    let shown = ground.get(&format!("{V2}/web")).good();
    assert_eq!(in_v2(&shown), ("stable.example.com/v2", "local", "8080"));
    assert_eq!((&shown["hostPort"], &shown["metadata"]), (&Value::Null, &made["metadata"]));
    let review = seen.lock().unwrap()[0].clone();
    assert_eq!(
        (&review["kind"], &review["apiVersion"]),
        (&json!("ConversionReview"), &json!("apiextensions.k8s.io/v1"))
    );
    assert_eq!(review["request"]["desiredAPIVersion"], "stable.example.com/v2");
    assert_eq!(review["request"]["objects"][0]["metadata"]["resourceVersion"], Value::Null);

    // Written in the other version it is stored in the first one, and shown as it was sent.
    let made = ground.post(V2, &second("db", "remote", "5432")).good();
    assert_eq!(in_v2(&made), ("stable.example.com/v2", "remote", "5432"));
    assert_eq!(ground.get(&format!("{V1}/db")).good()["hostPort"], "remote:5432");
    let version = made["metadata"]["resourceVersion"].clone();
    let again = ground.put(&format!("{V2}/db"), &{
        let mut same = made.clone();
        same["port"] = json!("5433");
        same
    });
    let again = again.good();
    assert_eq!(in_v2(&again), ("stable.example.com/v2", "remote", "5433"));
    assert_ne!(again["metadata"]["resourceVersion"], version);
    let patched =
        ground.merge(&format!("{V2}/db"), &json!({ "port": "1", "metadata": { "labels": { "a": "b" } } })).good();
    assert_eq!(in_v2(&patched), ("stable.example.com/v2", "remote", "1"));
    assert_eq!(ground.get(&format!("{V1}/db")).good()["hostPort"], "remote:1");
    ground.delete(&format!("{V2}/db")).good();
    ground.get(&format!("{V1}/db")).refused(404);
}

// upstream test: [sig-api-machinery] CustomResourceConversionWebhook [Privileged:ClusterAdmin] should be able to convert a non homogeneous list of CRs [Conformance]
#[test]
fn a_list_of_both_versions_is_shown_in_either() {
    let (ground, seen) = converting(faithful);
    ground.post(DEFINITIONS, &definition("v1")).good();
    ground.post(V1, &first("one", "a:1")).good();
    ground.post(V1, &first("three", "c:3")).good();
    let versions = |stored: &str| json!({ "spec": { "versions": definition(stored)["spec"]["versions"] } });
    let changed = ground.merge(&format!("{DEFINITIONS}/endpoints.{GROUP}"), &versions("v2")).good();
    assert_eq!(changed["spec"]["versions"][1]["storage"], true);
    let now = ground.get(&format!("{DEFINITIONS}/endpoints.{GROUP}")).good();
    assert_eq!(now["status"]["storedVersions"], json!(["v1", "v2"]));
    ground.post(V2, &second("two", "b", "2")).good();
    seen.lock().unwrap().clear();

    let list = ground.get(V2).good();
    let items: Vec<_> = list["items"].as_array().unwrap().iter().map(in_v2).collect();
    let v2 = "stable.example.com/v2";
    assert_eq!(items, [(v2, "a", "1"), (v2, "c", "3"), (v2, "b", "2")]);
    let asked = seen.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "one request for the list");
    assert_eq!(asked[0]["request"]["objects"].as_array().unwrap().len(), 2, "what is stored in v2 is not asked about");
    let list = ground.get(V1).good();
    let items: Vec<_> = list["items"].as_array().unwrap().iter().map(|one| one["hostPort"].clone()).collect();
    assert_eq!(items, ["a:1", "c:3", "b:2"]);

    // Fields that selectors name are those of the version.
    let chosen = ground.get(&format!("{V2}?fieldSelector=host%3Dc")).good();
    assert_eq!(chosen["items"].as_array().unwrap().len(), 1);
    assert_eq!(chosen["items"][0]["metadata"]["name"], "three");
    ground.get(&format!("{V1}?fieldSelector=host%3Dc")).refused(400);

    // A write of any kind stores an object anew, in the version that is stored now.
    ground.merge(&format!("{V1}/one"), &json!({})).good();
    seen.lock().unwrap().clear();
    assert_eq!(in_v2(&ground.get(&format!("{V2}/one")).good()), (v2, "a", "1"));
    assert!(seen.lock().unwrap().is_empty());

    // A version in which there were objects must stay.
    let gone = json!({ "spec": { "versions": [definition("v2")["spec"]["versions"][1]] } });
    let refusal = ground.merge(&format!("{DEFINITIONS}/endpoints.{GROUP}"), &gone).refused(422);
    assert!(refusal.contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"));
}

#[test]
fn a_watch_and_a_table_are_in_the_version_that_is_asked_for() {
    let (ground, _) = converting(faithful);
    ground.post(DEFINITIONS, &definition("v1")).good();
    let before = ground.post(V1, &first("one", "a:1")).good()["metadata"]["resourceVersion"].clone();
    let initial = ground.events(&format!("{V2}?watch=true&fieldSelector=host%3Da"), &[]);
    ground.merge(&format!("{V1}/one"), &json!({ "hostPort": "a:2" })).good();
    ground.merge(&format!("{V1}/one"), &json!({ "hostPort": "b:2" })).good();
    let path = format!("{V2}?watch=true&fieldSelector=host%3Da&resourceVersion={}", before.as_str().unwrap());
    let later = ground.events(&path, &[]);
    let v2 = "stable.example.com/v2";
    let events = initial.iter().chain(&later);
    let seen: Vec<_> = events.map(|event| (event["type"].as_str().unwrap(), in_v2(&event["object"]))).collect();
    assert_eq!(seen, [("ADDED", (v2, "a", "1")), ("MODIFIED", (v2, "a", "2")), ("DELETED", (v2, "b", "2"))]);
    let form = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = ground.send("GET", V2, &form, "").good();
    assert_eq!(table["rows"][0]["cells"], json!(["one", "b"]));
}

#[test]
fn managers_of_different_versions_own_what_they_set() {
    let (ground, _) = converting(faithful);
    ground.post(DEFINITIONS, &definition("v1")).good();
    let apply = |version: &str, manager: &str, object: &Value| {
        let path = format!("{version}/web?fieldManager={manager}");
        ground.send("PATCH", &path, &[("content-type", "application/apply-patch+yaml")], object.to_string())
    };
    apply(V1, "old", &first("web", "a:1")).good();
    let again = apply(V2, "new", &second("web", "a", "1")).good();
    let owners = again["metadata"]["managedFields"].as_array().unwrap().iter();
    let owners: Vec<_> = owners.map(|one| (one["manager"].clone(), one["apiVersion"].clone())).collect();
    let (v1, v2) = (json!("stable.example.com/v1"), json!("stable.example.com/v2"));
    assert_eq!(owners, [(json!("new"), v2), (json!("old"), v1)]);
    // The port is a part of what the first one owns in its version.
    let refusal = apply(V2, "new", &second("web", "a", "2")).refused(409);
    assert!(refusal.ends_with("conflict with \"old\": .hostPort"), "{refusal}");
}

/// Managers stand beside what is stored; a webhook has no say in them.
#[test]
fn who_owns_what_stays_with_an_object_whichever_version_it_is_shown_in() {
    let (ground, _) = converting(|_, mut response| {
        let objects = response["convertedObjects"].as_array_mut().unwrap();
        for object in objects {
            object["metadata"]["managedFields"] = json!([{ "manager": "webhook" }]);
        }
        Ok(response)
    });
    ground.post(DEFINITIONS, &definition("v1")).good();
    let entry = |manager: &str, operation: &str, version: &str, fields: Value| {
        json!([manager, operation, format!("{GROUP}/{version}"), fields])
    };
    let owners = |object: &Value| -> Vec<Value> {
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        entries.map(|one| json!([one["manager"], one["operation"], one["apiVersion"], one["fieldsV1"]])).collect()
    };
    let apply = [("content-type", "application/apply-patch+yaml")];
    let applied = || {
        let body = first("web", "a:1").to_string();
        ground.send("PATCH", &format!("{V1}/web?fieldManager=old"), &apply, body).good()
    };
    let made = applied();
    let old = entry("old", "Apply", "v1", json!({ "f:hostPort": {} }));
    assert_eq!(owners(&made), std::slice::from_ref(&old));
    let shown = ground.get(&format!("{V2}/web")).good();
    let listed = ground.get(V2).good()["items"][0].clone();
    let watched = ground.events(&format!("{V2}?watch=true"), &[])[0]["object"].clone();
    let metadata = [("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")];
    let partial = ground.send("GET", &format!("{V2}/web"), &metadata, "").good();
    for object in [&shown, &listed, &watched, &partial] {
        assert_eq!(object["metadata"], made["metadata"]);
    }

    // What the other version calls a label is nothing of the one who owns the fields; nothing new is no new version.
    let merge = [("content-type", "application/merge-patch+json")];
    let patched =
        |patch: Value| ground.send("PATCH", &format!("{V2}/web?fieldManager=new"), &merge, patch.to_string()).good();
    let labelled = patched(json!({ "metadata": { "labels": { "a": "b" } } }));
    let new = entry("new", "Update", "v2", json!({ "f:metadata": { "f:labels": { ".": {}, "f:a": {} } } }));
    assert_eq!(owners(&labelled), [old, new]);
    for same in [patched(json!({ "port": "1" })), applied()] {
        assert_eq!(same["metadata"]["resourceVersion"], labelled["metadata"]["resourceVersion"]);
        assert_eq!(owners(&same), owners(&labelled));
    }

    // The port is a part of what the first one owns in its version: it loses that.
    let changed = patched(json!({ "port": "2" }));
    let fields = json!({ "f:metadata": { "f:labels": { ".": {}, "f:a": {} } }, "f:port": {} });
    let new = entry("new", "Update", "v2", fields);
    assert_eq!(owners(&changed), std::slice::from_ref(&new));
    assert_eq!(owners(&ground.get(&format!("{V1}/web")).good()), [new]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of answers")]
fn what_is_no_conversion_is_an_error_in_the_words_of_api_servers() {
    let (ground, _) = converting(|request, mut response| {
        let name = request["objects"][0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let objects = &mut response["convertedObjects"];
        match &*name {
            "unreachable" => return Err(CallError::Unreachable("context deadline exceeded".to_owned())),
            "refused" => response["result"] = json!({ "status": "Failure", "message": "no such host" }),
            "silent" => response["result"] = json!({ "status": "Failure" }),
            "stranger" => response["uid"] = json!("x"),
            "few" => *objects = json!([]),
            "version" => objects[0]["apiVersion"] = json!("stable.example.com/v3"),
            "kind" => objects[0]["kind"] = json!("Other"),
            "name" => objects[0]["metadata"]["name"] = json!("other"),
            "uid" => objects[0]["metadata"]["uid"] = json!("u"),
            "bare" => drop(objects[0].as_object_mut().unwrap().remove("metadata")),
            "label" => objects[0]["metadata"]["labels"] = json!({ "a b": "c" }),
            "number" => objects[0]["metadata"]["annotations"] = json!({ "a": 1 }),
            // What a conversion cannot change stays as it was; labels and unknown fields are its own.
            _ => {
                objects[0]["metadata"]["finalizers"] = json!(["example.com/mine"]);
                objects[0]["metadata"]["labels"] = json!({ "by": "webhook" });
                objects[0]["unknown"] = json!(1);
            }
        }
        Ok(response)
    });
    ground.post(DEFINITIONS, &definition("v1")).good();
    let failed = "conversion webhook for stable.example.com/v1, Kind=Endpoint failed: ";
    let returned = "conversion webhook for stable.example.com/v1, Kind=Endpoint returned ";
    for (name, message) in [
        (
            "unreachable",
            format!("{failed}Post \"https://127.0.0.1:9443/convert?timeout=30s\": context deadline exceeded"),
        ),
        ("refused", format!("{failed}no such host")),
        ("silent", format!("{failed}response.result.status was 'Failure', not 'Success'")),
        ("few", format!("{returned}0 objects, expected 1")),
        (
            "version",
            format!(
                "{returned}invalid object at index 0: invalid groupVersion (expected stable.example.com/v2, received stable.example.com/v3)"
            ),
        ),
        ("kind", format!("{returned}invalid object at index 0: invalid kind (expected Endpoint, received Other)")),
        ("name", format!("{returned}invalid object: must have the same name: name != other")),
        ("bare", format!("{returned}invalid object: must have the same name: bare != ")),
        (
            "number",
            format!(
                "{returned}invalid metadata: metadata.annotations[a] must be a string, but is int64 in converted object"
            ),
        ),
    ] {
        ground.post(V1, &first(name, "a:1")).good();
        let answer = ground.get(&format!("{V2}/{name}"));
        assert_eq!(answer.refused(500), message);
        assert_eq!(answer.json()["reason"], Value::Null);
        // It is as it was in its own version.
        assert_eq!(ground.get(&format!("{V1}/{name}")).good()["hostPort"], "a:1");
        ground.delete(&format!("{V2}/{name}")).refused(500);
        ground.delete(&format!("{V1}/{name}")).good();
    }
    for (name, part) in [
        ("stranger", "expected response.uid="),
        ("uid", "must have the same UID: "),
        ("label", "metadata.labels: Invalid value: \"a b\""),
    ] {
        ground.post(V1, &first(name, "a:1")).good();
        let refusal = ground.get(&format!("{V2}/{name}")).refused(500);
        assert!(refusal.contains(part), "{refusal}");
        ground.delete(&format!("{V1}/{name}")).good();
    }
    // Nothing is stored that cannot be converted.
    ground.post(V2, &second("unreachable", "a", "1")).refused(500);
    ground.get(&format!("{V1}/unreachable")).refused(404);

    ground.post(V1, &first("good", "a:1")).good();
    let good = ground.get(&format!("{V2}/good")).good();
    assert_eq!((&good["metadata"]["labels"]["by"], &good["metadata"]["finalizers"]), (&json!("webhook"), &Value::Null));
    assert_eq!(good["unknown"], Value::Null);
    ground.delete(&format!("{V1}/good")).good();
    ground.post(V1, &first("refused", "a:1")).good();
    let broken = ground.events(&format!("{V2}?watch=true"), &[]);
    let last = &broken.last().unwrap()["object"];
    assert_eq!((&last["code"], &last["reason"]), (&json!(500), &json!("InternalError")));
    assert_eq!(last["message"], format!("Internal error occurred: {failed}no such host"));
}

#[test]
fn a_cluster_that_calls_no_webhooks_says_so() {
    let ground = Ground::of(Cluster::builder().nodes(1).build().unwrap());
    ground.post(DEFINITIONS, &definition("v1")).good();
    ground.post(V1, &first("web", "a:1")).good();
    let refusal = ground.get(&format!("{V2}/web")).refused(500);
    assert!(refusal.contains("this cluster calls no webhooks"), "{refusal}");
    // Namespaces and definitions can go all the same.
    ground.delete(&format!("{DEFINITIONS}/endpoints.{GROUP}")).good();
    ground.get(&format!("{V1}/web")).refused(404);
}

#[test]
fn the_conversion_of_a_definition_is_checked() {
    let (ground, _) = converting(faithful);
    let with = |conversion: Value| {
        let mut definition = definition("v1");
        definition["spec"]["conversion"] = conversion;
        ground.post(DEFINITIONS, &definition)
    };
    let client = json!({ "url": "https://127.0.0.1:9443/convert" });
    let path = "spec.conversion";
    for (conversion, error) in [
        (
            json!({ "strategy": "Other" }),
            format!("{path}.strategy: Unsupported value: \"Other\": supported values: \"None\", \"Webhook\""),
        ),
        (
            json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"] } }),
            format!("{path}.webhookClientConfig: Required value: required when strategy is set to Webhook"),
        ),
        (
            json!({ "strategy": "Webhook", "webhook": { "clientConfig": client } }),
            format!("{path}.conversionReviewVersions: Required value"),
        ),
        (
            json!({ "strategy": "Webhook", "webhook": { "clientConfig": client, "conversionReviewVersions": ["v9"] } }),
            format!(
                "{path}.conversionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1"
            ),
        ),
        (
            json!({ "strategy": "Webhook", "webhook": { "clientConfig": {}, "conversionReviewVersions": ["v1"] } }),
            format!("{path}.webhookClientConfig: Required value: exactly one of url or service is required"),
        ),
        (
            json!({ "strategy": "Webhook", "webhook": { "clientConfig": { "url": "http://a" }, "conversionReviewVersions": ["v1"] } }),
            format!(
                "{path}.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"
            ),
        ),
        (
            json!({ "strategy": "None", "webhook": { "clientConfig": client, "conversionReviewVersions": ["v1"] } }),
            format!("{path}.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook"),
        ),
    ] {
        let refusal = with(conversion).refused(422);
        assert!(refusal.contains(&error), "{refusal}");
    }
    let service = json!({ "service": { "namespace": "default", "name": "hook" } });
    let made = with(json!({
        "strategy": "Webhook", "webhook": { "clientConfig": service, "conversionReviewVersions": ["v1"] },
    }))
    .good();
    assert_eq!(made["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"], 443);
    ground.post(V1, &first("web", "a:1")).good();
    let refusal = ground.get(&format!("{V2}/web")).refused(500);
    let post = "Post \"https://hook.default.svc:443?timeout=30s\": service \"hook\" not found";
    assert_eq!(refusal, format!("conversion webhook for {GROUP}/v1, Kind=Endpoint failed: {post}"));
}
