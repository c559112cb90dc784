//! Custom resources: rules, defaults, pruning, versions, selectable fields, published schemas.

use serde_json::{Value, json};

use super::ground::Ground;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/shop.example.com/v1/namespaces/default/widgets";

/// A definition of widgets whose `v1` has this schema for `spec`; `v1beta1` keeps whatever there is.
fn definition(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.shop.example.com" },
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced", "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "selectableFields": [{ "jsonPath": ".spec.host" }],
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
                },
                {
                    "name": "v1beta1", "served": true, "storage": false,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                },
            ],
        },
    })
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

fn with(spec: &Value) -> Ground {
    let ground = Ground::with_nodes(0);
    ground.post(DEFINITIONS, &definition(spec)).good();
    ground
}

// upstream test: [sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST NOT fail validation for create of a custom resource that satisfies the x-kubernetes-validations rules
// upstream test: [sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail validation for create of a custom resource that does not satisfy the x-kubernetes-validations rules
// upstream test: [sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail update of a custom resource that does not satisfy a x-kubernetes-validations transition rule
#[test]
fn rules_decide_about_objects_and_their_changes() {
    let ground = with(&json!({
        "type": "object", "properties": { "x": { "type": "integer" }, "y": { "type": "integer" } },
        "x-kubernetes-validations": [
            { "rule": "self.x > self.y" },
            { "rule": "self.x >= oldSelf.x", "message": "x may not shrink", "fieldPath": ".x" },
        ],
    }));
    ground.post(WIDGETS, &widget("good", &json!({ "x": 2, "y": 1 }))).good();
    let refusal = ground.post(WIDGETS, &widget("bad", &json!({ "x": 1, "y": 2 }))).refused(422);
    assert_eq!(
        refusal,
        "Widget.shop.example.com \"bad\" is invalid: spec: Invalid value: failed rule: self.x > self.y"
    );
    let refusal = ground.merge(&format!("{WIDGETS}/good"), &json!({ "spec": { "x": 1, "y": 0 } })).refused(422);
    assert!(refusal.ends_with("spec.x: Invalid value: x may not shrink"), "{refusal}");
}

// upstream test: [sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail create of a custom resource definition that contains an x-kubernetes-validations rule that contains a syntax error
// upstream test: [sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail create of a custom resource definition that contains a x-kubernetes-validations rule that refers to a property that do not exist
// upstream test: [sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail create of a custom resource definition that contains an x-kubernetes-validations rule that exceeds the estimated cost limit
#[test]
fn rules_are_compiled_when_a_definition_is_made() {
    let ground = Ground::with_nodes(0);
    let refusal = |rule: &str| {
        let spec = json!({
            "type": "object", "x-kubernetes-validations": [{ "rule": rule }],
            "properties": { "x": { "type": "array", "items": { "type": "string" } } },
        });
        ground.post(DEFINITIONS, &definition(&spec)).refused(422)
    };
    assert!(refusal("self = 42").contains("Syntax error: token recognition error at: '= '"));
    assert!(refusal("self.z == 1").contains("undefined field 'z'"));
    let costly = refusal("self.x.all(s, self.x.all(t, s == t))");
    assert!(costly.contains("estimated rule cost exceeds budget by factor of more than 100x"), "{costly}");
}

// upstream test: [sig-api-machinery] CRDValidationRatcheting [Privileged:ClusterAdmin] [FeatureGate:CRDValidationRatcheting] MUST NOT fail to update a resource due to JSONSchema errors on unchanged correlatable fields
// upstream test: [sig-api-machinery] CRDValidationRatcheting [Privileged:ClusterAdmin] [FeatureGate:CRDValidationRatcheting] MUST fail to update a resource due to JSONSchema errors on changed fields
// upstream test: [sig-api-machinery] CRDValidationRatcheting [Privileged:ClusterAdmin] [FeatureGate:CRDValidationRatcheting] MUST NOT fail to update a resource due to CRD Validation Rule errors on unchanged correlatable fields
#[test]
fn what_was_there_before_a_stricter_definition_may_stay() {
    let ground =
        with(&json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } } }));
    ground.post(WIDGETS, &widget("old", &json!({ "a": "x", "b": "y" }))).good();
    let mut stricter = definition(&json!({ "type": "object", "properties": {
        "a": { "type": "string", "enum": ["z"] },
        "b": { "type": "string", "maxLength": 9, "x-kubernetes-validations": [{ "rule": "self == 'z'" }] },
    }}));
    let current = ground.get(&format!("{DEFINITIONS}/widgets.shop.example.com")).good();
    stricter["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
    ground.put(&format!("{DEFINITIONS}/widgets.shop.example.com"), &stricter).good();
    let path = format!("{WIDGETS}/old");
    ground.merge(&path, &json!({ "metadata": { "labels": { "seen": "yes" } } })).good();
    ground.merge(&path, &json!({ "spec": { "a": "z" } })).good();
    let refusal = ground.merge(&path, &json!({ "spec": { "a": "q" } })).refused(422);
    assert!(refusal.contains("spec.a: Unsupported value: \"q\": supported values: \"z\""), "{refusal}");
    let refusal = ground.merge(&path, &json!({ "spec": { "b": "q" } })).refused(422);
    assert!(refusal.ends_with("spec.b: Invalid value: \"q\": failed rule: self == 'z'"), "{refusal}");
}

// upstream test: [sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] custom resource defaulting for requests and from storage works [Conformance]
#[test]
fn defaults_are_filled_in_on_writes_and_on_reads() {
    let ground = with(&json!({ "type": "object", "properties": { "a": { "type": "string", "default": "A" } } }));
    let made = ground.post(WIDGETS, &widget("w", &json!({}))).good();
    assert_eq!(made["spec"], json!({ "a": "A" }));
    let patch = json!({ "spec": { "versions": [
        definition(&json!({ "type": "object", "properties": {
            "a": { "type": "string", "default": "A" }, "b": { "type": "string", "default": "B" },
        }}))["spec"]["versions"][0],
    ]}});
    ground.merge(&format!("{DEFINITIONS}/widgets.shop.example.com"), &patch).good();
    assert_eq!(ground.get(&format!("{WIDGETS}/w")).good()["spec"], json!({ "a": "A", "b": "B" }));
}

// upstream test: [sig-api-machinery] CustomResourceFieldSelectors [Privileged:ClusterAdmin] CustomResourceFieldSelectors MUST list and watch custom resources matching the field selector [Conformance]
#[test]
fn selectable_fields_select() {
    let ground = with(&json!({ "type": "object", "properties": { "host": { "type": "string" } } }));
    for (name, host) in [("one", "a"), ("two", "b")] {
        ground.post(WIDGETS, &widget(name, &json!({ "host": host }))).good();
    }
    let found = ground.get(&format!("{WIDGETS}?fieldSelector=spec.host%3Db")).good();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert_eq!(found["items"][0]["metadata"]["name"], "two");
    let events = ground.events(&format!("{WIDGETS}?watch=1&fieldSelector=spec.host%3Da"), &[]);
    assert_eq!(events.len(), 1, "{events:?}");
    let refusal = ground.get(&format!("{WIDGETS}?fieldSelector=spec.size%3D1")).refused(400);
    assert_eq!(refusal, "field label not supported: spec.size");
}

// upstream test: [sig-api-machinery] FieldValidation should create/apply an invalid CR with extra properties for CRD with validation schema [Conformance]
// upstream test: [sig-api-machinery] FieldValidation should create/apply a valid CR for CRD with validation schema [Conformance]
// upstream test: [sig-api-machinery] FieldValidation should create/apply a CR with unknown fields for CRD with no validation schema [Conformance]
#[test]
fn unknown_fields_are_refused_named_or_dropped() {
    let ground = with(&json!({ "type": "object", "properties": { "size": { "type": "integer" } } }));
    let odd = widget("odd", &json!({ "size": 1, "colour": "x" }));
    let refusal = ground.post(&format!("{WIDGETS}?fieldValidation=Strict"), &odd).refused(400);
    assert!(refusal.ends_with("strict decoding error: unknown field \"spec.colour\""), "{refusal}");
    let warned = ground.post(&format!("{WIDGETS}?fieldValidation=Warn"), &odd);
    assert_eq!(warned.good()["spec"], json!({ "size": 1 }));
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"spec.colour\\\"\""]);
    let applied = ground.apply(&format!("{WIDGETS}/odd"), "", odd.to_string()).refused(500);
    assert!(applied.ends_with(".spec.colour: field not declared in schema"), "{applied}");
    let free = json!({ "apiVersion": "shop.example.com/v1beta1", "kind": "Widget", "metadata": { "name": "free" },
        "anything": { "goes": [1] } });
    let path = "/apis/shop.example.com/v1beta1/namespaces/default/widgets?fieldValidation=Strict";
    // The version that is stored does not know it, so it is gone for all.
    // upstream: apiextensions-apiserver pkg/apiserver/customresource_handler.go schemaCoercingConverter
    let made = ground.post(path, &free);
    assert_eq!((made.warnings(), &made.good()["anything"]), (Vec::new(), &Value::Null));
}

#[test]
fn versions_share_their_objects() {
    let ground = with(&json!({ "type": "object", "properties": { "size": { "type": "integer" } } }));
    ground.post(WIDGETS, &widget("w", &json!({ "size": 1 }))).good();
    let other = WIDGETS.replace("/v1/", "/v1beta1/");
    let seen = ground.get(&format!("{other}/w")).good();
    assert_eq!((&seen["apiVersion"], &seen["spec"]["size"]), (&json!("shop.example.com/v1beta1"), &json!(1)));
    let events = ground.events(&format!("{other}?watch=1&resourceVersion=0"), &[]);
    assert_eq!(events[0]["object"]["apiVersion"], "shop.example.com/v1beta1", "{events:?}");
    ground.delete(&format!("{other}/w")).good();
    ground.get(&format!("{WIDGETS}/w")).refused(404);
}

// upstream test: [sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] Simple CustomResourceDefinition creating/deleting custom resource definition objects works [Conformance]
#[test]
fn a_definition_waits_for_the_last_of_its_objects() {
    let ground = with(&json!({ "type": "object", "properties": { "size": { "type": "integer" } } }));
    let mut held = widget("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["test-finalizer"]);
    ground.post(WIDGETS, &held).good();
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    ground.delete(&path).good();
    let waiting = ground.get(&path).good();
    assert_eq!(waiting["status"]["conditions"][2]["reason"], "InstanceDeletionInProgress", "{waiting}");
    let refusal = ground.post(WIDGETS, &widget("late", &json!({}))).refused(403);
    assert!(refusal.ends_with("create not allowed while custom resource definition is terminating"), "{refusal}");
    ground.merge(&format!("{WIDGETS}/held"), &json!({ "metadata": { "finalizers": null } })).good();
    ground.get(&path).refused(404);
}

// upstream test: [sig-api-machinery] OpenAPIV3 should publish OpenAPI V3 for CustomResourceDefinition
// upstream test: [sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for CRD with validation schema [Conformance]
#[test]
fn schemas_are_published() {
    let ground = with(
        &json!({ "type": "object", "description": "What it is.", "properties": { "size": { "type": "integer" } } }),
    );
    let index = ground.get("/openapi/v3").good();
    let url = index["paths"]["apis/shop.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = ground.get(url).good();
    let schema = &document["components"]["schemas"]["com.example.shop.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["description"], "What it is.");
    let second = ground.get("/openapi/v2");
    let definitions = &second.good()["definitions"];
    assert_eq!(
        definitions["com.example.shop.v1.Widget"]["properties"]["spec"]["properties"]["size"]["type"],
        "integer"
    );
    assert!(definitions["io.k8s.api.core.v1.Pod"]["properties"]["spec"].is_object());
    let tag = second.headers["etag"].to_str().unwrap();
    assert_eq!(ground.send("GET", "/openapi/v2", &[("if-none-match", tag)], "").status, 304);
    // client-go asks for a message: a type's name and its fields are in it.
    let message = [("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    let bytes = ground.send("GET", "/openapi/v2", &message, "").bytes;
    assert!(bytes.windows(26).any(|part| part == b"com.example.shop.v1.Widget"), "{}", bytes.len());
    // kubectl parses the documents for every object it applies, and gets small ones.
    let applies = [message[0], ("kubectl-command", "kubectl apply")];
    assert!(ground.send("GET", "/openapi/v2", &applies, "").bytes.is_empty());
    let small = ground.send("GET", "/openapi/v3", &[("kubectl-command", "kubectl apply")], "").good();
    let url = small["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    assert!(ground.get(url).bytes.len() < 20_000);
}

// upstream test: [sig-api-machinery] CustomResourceValidationRules [Privileged:ClusterAdmin] MUST fail create of a custom resource that exceeds the runtime cost limit for x-kubernetes-validations rule execution
#[test]
fn a_rule_that_costs_too_much_refuses_the_object() {
    let ground = with(&json!({
        "type": "object", "properties": { "x": { "type": "array", "maxItems": 55, "items": { "type": "integer" } } },
        "x-kubernetes-validations": [{ "rule": "self.x.all(a, self.x.all(b, self.x.all(c, a + b + c >= 0)))" }],
    }));
    ground.post(WIDGETS, &widget("small", &json!({ "x": [1, 2, 3] }))).good();
    let numbers: Vec<i32> = (0..55).collect();
    let refusal = ground.post(WIDGETS, &widget("large", &json!({ "x": numbers }))).refused(422);
    assert!(
        refusal.contains("no further validation rules will be run due to call cost exceeds limit for rule"),
        "{refusal}"
    );
}

// upstream test: [sig-api-machinery] FieldValidation should detect unknown and duplicate fields of a typed object [Conformance]
// upstream test: [sig-api-machinery] FieldValidation should detect duplicates in a CR when preserving unknown fields [Conformance]
#[test]
fn fields_that_are_there_twice_are_named() {
    let ground = with(&json!({ "type": "object", "properties": { "size": { "type": "integer" } } }));
    let typed = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":1,"replicas":2,
        "unknownField":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"nginx:1.27"}]}}}}"#;
    let path = "/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict";
    let refusal = ground.send("POST", path, &[], typed).refused(400);
    let words = "strict decoding error: unknown field \"spec.unknownField\", duplicate field \"spec.replicas\"";
    assert!(refusal.ends_with(words), "{refusal}");
    let yaml = "apiVersion: shop.example.com/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  size: 1\n  size: 2\n";
    let refusal = ground.apply(&format!("{WIDGETS}/w"), "&fieldValidation=Strict", yaml).refused(400);
    assert!(refusal.contains("line 7: key \"size\" already set in map"), "{refusal}");
    let applied = ground.apply(&format!("{WIDGETS}/w"), "&fieldValidation=Warn", yaml).good();
    assert_eq!(applied["spec"]["size"], 2);
}

// upstream test: [sig-api-machinery] OpenAPIV3 should round trip OpenAPI V3 for all built-in group versions
#[test]
fn documents_say_nothing_that_go_would_not_write_again() {
    fn empty(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (name, inner) in map {
                    let said = ["required", "schemas", "properties", "enum"].contains(&name.as_str());
                    let nothing = inner.as_array().is_some_and(Vec::is_empty)
                        || inner.as_object().is_some_and(serde_json::Map::is_empty);
                    if said && nothing {
                        found.push(format!("{path}.{name}"));
                    }
                    empty(inner, &format!("{path}.{name}"), found);
                }
            }
            Value::Array(list) => list.iter().for_each(|inner| empty(inner, path, found)),
            _ => {}
        }
    }
    let ground = Ground::with_nodes(0);
    let index = ground.get("/openapi/v3").good();
    let mut found = Vec::new();
    for (name, path) in index["paths"].as_object().unwrap() {
        empty(&ground.get(path["serverRelativeURL"].as_str().unwrap()).good(), name, &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
}

// upstream test: [sig-api-machinery] ServerSideApply should work for CRDs
#[test]
fn lists_of_custom_resources_are_applied_entry_by_entry_where_the_definition_says_so() {
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {
            "type": "object", "required": ["port"],
            "properties": {
                "name": { "type": "string" }, "port": { "type": "integer" },
                "protocol": { "type": "string", "default": "TCP" },
            },
        },
    });
    let ground = with(&json!({
        "type": "object",
        "properties": {
            "ports": ports,
            "hosts": { "type": "array", "items": { "type": "string" } },
            "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "limits": {
                "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": { "type": "integer" },
            },
        },
    }));
    let one = format!("{WIDGETS}/one");
    let applied = |manager: &str, metadata: Value, spec: &Value| {
        let mut config = widget("one", spec);
        if !metadata.is_null() {
            config["metadata"]["finalizers"] = metadata;
        }
        let kind = [("content-type", "application/apply-patch+yaml")];
        ground.send("PATCH", &format!("{one}?fieldManager={manager}"), &kind, config.to_string())
    };
    let first = json!({ "ports": [{ "port": 80, "name": "http" }], "tags": ["a"], "limits": { "x": 1 } });
    applied("first", json!(["shop.example.com/one"]), &first).good();
    // Another one's finalizer, port and tag are no conflict; where a whole is owned, they are.
    ground
        .merge(&one, &json!({ "metadata": { "finalizers": ["shop.example.com/one", "shop.example.com/two"] } }))
        .good();
    let second = json!({ "ports": [{ "port": 443, "name": "https" }], "tags": ["b"] });
    applied("second", Value::Null, &second).good();
    let conflict = applied("second", Value::Null, &json!({ "limits": { "y": 2 } })).refused(409);
    assert_eq!(conflict, "Apply failed with 1 conflict: conflict with \"first\": .spec.limits");
    let conflict = applied("second", Value::Null, &json!({ "ports": [{ "port": 80, "name": "web" }] })).refused(409);
    assert!(conflict.ends_with("conflict with \"first\": .spec.ports[port=80,protocol=\"TCP\"].name"), "{conflict}");
    // What is no longer applied goes, and nothing else.
    let left = applied("first", json!(["shop.example.com/one"]), &json!({ "limits": { "x": 1 } })).good();
    let expected = json!({
        "ports": [{ "port": 443, "name": "https", "protocol": "TCP" }], "tags": ["b"], "limits": { "x": 1 },
    });
    assert_eq!(left["spec"], expected);
    assert_eq!(left["metadata"]["finalizers"], json!(["shop.example.com/one", "shop.example.com/two"]));
}
