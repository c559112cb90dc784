//! Admission policies: rules that refuse or change objects, parameters, variables, type checks; match conditions.

use serde_json::{Value, json};

use super::ground::Ground;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn policy(kind: &str, name: &str, resource: (&str, &str), spec: &Value) -> Value {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name },
        "spec": { "matchConstraints": { "resourceRules": [{
            "apiGroups": [resource.0], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource.1],
        }] } },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        policy["spec"][field] = value.clone();
    }
    policy
}

fn validating(ground: &Ground, name: &str, resource: (&str, &str), spec: &Value, binding: &Value) -> Value {
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let made = ground.post(&path, &policy("ValidatingAdmissionPolicy", name, resource, spec)).good();
    let mut bound = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name }, "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    for (field, value) in binding.as_object().into_iter().flatten() {
        bound["spec"][field] = value.clone();
    }
    ground.post(&format!("{GROUP}/validatingadmissionpolicybindings"), &bound).good();
    made
}

fn mutating(ground: &Ground, name: &str, resource: (&str, &str), mutations: &Value) {
    let spec = json!({ "mutations": mutations, "reinvocationPolicy": "Never" });
    let path = format!("{GROUP}/mutatingadmissionpolicies");
    ground.post(&path, &policy("MutatingAdmissionPolicy", name, resource, &spec)).good();
    let bound = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": { "name": name }, "spec": { "policyName": name },
    });
    ground.post(&format!("{GROUP}/mutatingadmissionpolicybindings"), &bound).good();
}

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "nginx:1.27" }] },
            },
        },
    })
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "limit": "3" } })
}

// upstream test: [sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should validate against a Deployment [Conformance]
#[test]
fn a_policy_refuses_what_breaks_its_rule() {
    let ground = Ground::with_nodes(0);
    let rules = json!({ "validations": [
        { "expression": "object.spec.replicas > 1", "messageExpression": "'wants more than ' + string(object.spec.replicas)" },
        { "expression": "object.spec.replicas < 100", "reason": "Forbidden" },
    ] });
    validating(&ground, "replicas", ("apps", "deployments"), &rules, &json!({}));
    let message = ground.post(DEPLOYMENTS, &deployment("one", 1)).refused(422);
    assert_eq!(
        message,
        "deployments.apps \"one\" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: wants more than 1"
    );
    ground.post(DEPLOYMENTS, &deployment("two", 2)).good();
    let message = ground.merge(&format!("{DEPLOYMENTS}/two"), &json!({ "spec": { "replicas": 100 } })).refused(403);
    assert!(message.ends_with("denied request: failed expression: object.spec.replicas < 100"), "{message}");
    ground.delete(&format!("{GROUP}/validatingadmissionpolicybindings/replicas")).good();
    ground.post(DEPLOYMENTS, &deployment("one", 1)).good();
}

// upstream test: [sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should allow expressions to refer variables. [Conformance]
#[test]
fn rules_refer_to_variables_and_parameters() {
    let ground = Ground::with_nodes(0);
    let spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
        "variables": [
            { "name": "replicas", "expression": "object.spec.replicas" },
            { "name": "limit", "expression": "int(params.data.limit)" },
            { "name": "fits", "expression": "variables.replicas <= variables.limit" },
        ],
        "validations": [{ "expression": "variables.fits" }],
    });
    let reference =
        json!({ "paramRef": { "name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny" } });
    validating(&ground, "limited", ("apps", "deployments"), &spec, &reference);
    let message = ground.post(DEPLOYMENTS, &deployment("web", 1)).refused(422);
    assert!(message.ends_with("no params found for policy binding with `Deny` parameterNotFoundAction"), "{message}");
    ground.post(MAPS, &map("limits")).good();
    ground.post(DEPLOYMENTS, &deployment("web", 3)).good();
    ground.post(DEPLOYMENTS, &deployment("more", 4)).refused(422);
}

// upstream test: [sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should type check validation expressions
#[test]
fn expressions_are_held_against_the_types_of_their_kinds() {
    let ground = Ground::with_nodes(0);
    let rules = json!({ "validations": [
        { "expression": "object.spec.replicas > 1" },
        { "expression": "object.spec.replicas > '1'" },
        { "expression": "object.spec.maxRetries < 10", "messageExpression": "'too many: ' + object.metadata.nam" },
    ] });
    let made = validating(&ground, "typed", ("apps", "deployments"), &rules, &json!({}));
    let status = &made["status"];
    assert_eq!(status["observedGeneration"], 1);
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().unwrap();
    let places: Vec<&str> = warnings.iter().filter_map(|warning| warning["fieldRef"].as_str()).collect();
    assert_eq!(
        places,
        ["spec.validations[1].expression", "spec.validations[2].expression", "spec.validations[2].messageExpression"]
    );
    let said = |at: usize| warnings[at]["warning"].as_str().unwrap();
    assert!(
        said(0).starts_with("apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload"),
        "{}",
        said(0)
    );
    assert!(said(1).contains("undefined field 'maxRetries'"), "{}", said(1));
    let path = format!("{GROUP}/validatingadmissionpolicies/typed");
    let changed = ground.merge(&path, &json!({ "spec": { "validations": [{ "expression": "true" }] } })).good();
    assert_eq!(changed["status"], json!({ "observedGeneration": 2, "typeChecking": {} }));
}

// upstream test: [sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should type check a CRD
#[test]
fn expressions_are_held_against_the_schemas_of_definitions() {
    let ground = Ground::with_nodes(0);
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
    } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "crontabs.stable.example.com" },
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced", "names": { "kind": "CronTab", "plural": "crontabs" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    });
    ground.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).good();
    let rules = json!({ "validations": [
        { "expression": "object.spec.replicas > 1 && object.metadata.labels.size() > 0" },
        { "expression": "object.spec.replicas > '1'" },
        { "expression": "object.spec.replicass > 1" },
    ] });
    let made = validating(&ground, "typed", ("stable.example.com", "crontabs"), &rules, &json!({}));
    let warnings = made["status"]["typeChecking"]["expressionWarnings"].as_array().unwrap();
    let said: Vec<(&str, &str)> = (warnings.iter())
        .filter_map(|warning| Some((warning["fieldRef"].as_str()?, warning["warning"].as_str()?)))
        .collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0].0, "spec.validations[1].expression");
    let overload = "stable.example.com/v1, Kind=CronTab: ERROR: <input>:1:22: found no matching overload";
    assert!(said[0].1.starts_with(overload), "{}", said[0].1);
    assert!(said[1].1.contains("undefined field 'replicass'"), "{}", said[1].1);
}

// upstream test: [sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should mutate a Deployment [Conformance]
#[test]
fn a_policy_applies_a_part_of_an_object() {
    let ground = Ground::with_nodes(0);
    let expression = "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}";
    let mutation = json!([{ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } }]);
    mutating(&ground, "more", ("apps", "deployments"), &mutation);
    let made = ground.post(DEPLOYMENTS, &deployment("web", 2)).good();
    assert_eq!(made["spec"]["replicas"], 3);
    assert_eq!(made["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:1.27", "the rest stays");
}

// upstream test: [sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should mutate a Deployment with annotations [Conformance]
#[test]
fn a_policy_patches_an_object() {
    let ground = Ground::with_nodes(0);
    let add = "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'team': 'a'}}, \
               JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('example.com/x'), value: 'y'}]";
    let label = "Object{metadata: Object.metadata{labels: {'env': 'prod'}}}";
    let mutations = json!([
        { "patchType": "JSONPatch", "jsonPatch": { "expression": add } },
        { "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": label } },
    ]);
    mutating(&ground, "notes", ("apps", "deployments"), &mutations);
    let made = ground.post(DEPLOYMENTS, &deployment("web", 1)).good();
    assert_eq!(made["metadata"]["annotations"], json!({ "team": "a", "example.com/x": "y" }));
    assert_eq!(made["metadata"]["labels"], json!({ "env": "prod" }));
}

#[test]
fn warnings_errors_and_failure_policies() {
    let ground = Ground::with_nodes(0);
    let rule = json!({ "validations": [{ "expression": "object.metadata.labels['team'] != ''" }] });
    validating(&ground, "strict", ("", "configmaps"), &rule, &json!({}));
    let message = ground.post(MAPS, &map("a")).refused(422);
    assert!(message.ends_with("resulted in error: no such key: labels"), "{message}");
    ground
        .merge(
            &format!("{GROUP}/validatingadmissionpolicies/strict"),
            &json!({ "spec": { "failurePolicy": "Ignore" } }),
        )
        .good();
    ground.post(MAPS, &map("a")).good();
    let rule = json!({ "validations": [{ "expression": "object.data.limit == '4'", "message": "not four" }] });
    validating(&ground, "loud", ("", "configmaps"), &rule, &json!({ "validationActions": ["Warn", "Audit"] }));
    assert_eq!(
        ground.post(MAPS, &map("b")).warnings(),
        ["299 - \"Validation failed for ValidatingAdmissionPolicy 'loud' with binding 'loud': not four\""]
    );
}

#[test]
fn whoever_asks_decides_where_a_rule_asks_the_authorizer() {
    let ground = Ground::with_nodes(0);
    let rule = json!({ "validations": [{
        "expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
    }, { "expression": "authorizer.requestResource.check('delete').allowed()" }] });
    validating(&ground, "trusted", ("", "configmaps"), &rule, &json!({}));
    ground.post(MAPS, &map("a")).good();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "maps" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] }],
    });
    ground.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).good();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "maps" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane" }],
    });
    ground.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding).good();
    let answer = ground.send("POST", MAPS, &[("impersonate-user", "jane")], map("b").to_string());
    let message = answer.refused(422);
    assert!(message.contains("failed expression: authorizer.group('').resource('secrets')"), "{message}");
}

// upstream test: [sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should reject validating webhook configurations with invalid match conditions [Conformance]
// upstream test: [sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should reject mutating webhook configurations with invalid match conditions [Conformance]
#[test]
fn match_conditions_of_webhooks_must_compile() {
    let ground = Ground::with_nodes(0);
    for kind in ["Validating", "Mutating"] {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
            "metadata": { "name": "broken" },
            "webhooks": [{
                "name": "broken.example.com", "clientConfig": { "url": "https://127.0.0.1:8443/x" },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "matchConditions": [
                    { "name": "invalid-expression-1", "expression": "... [] bad expression" },
                    { "name": "twice", "expression": "1 + 1" },
                    { "name": "twice", "expression": "true" },
                ],
            }],
        });
        let path = format!("{GROUP}/{}webhookconfigurations", kind.to_lowercase());
        let message = ground.post(&path, &configuration).refused(422);
        for wanted in [
            "webhooks[0].matchConditions[0].expression: Invalid value: \"... [] bad expression\": compilation failed: ",
            "webhooks[0].matchConditions[1].expression: Invalid value: \"1 + 1\": must evaluate to bool but got int",
            "webhooks[0].matchConditions[2].name: Duplicate value: \"twice\"",
        ] {
            assert!(message.contains(wanted), "{message}");
        }
    }
}

#[test]
fn match_conditions_decide_whether_a_webhook_is_asked() {
    let ground = Ground::with_nodes(0);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "hot" },
        "webhooks": [{
            "name": "hot.example.com", "clientConfig": { "url": "https://127.0.0.1:8443/x" },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "matchConditions": [{ "name": "hot", "expression": "object.metadata.name.startsWith('hot')" }],
        }],
    });
    ground.post(&format!("{GROUP}/validatingwebhookconfigurations"), &configuration).good();
    ground.post(MAPS, &map("cold")).good();
    let message = ground.post(MAPS, &map("hot")).refused(500);
    assert!(message.starts_with("Internal error occurred: failed calling webhook \"hot.example.com\""), "{message}");
}
