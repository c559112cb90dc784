//! What is said of wrong classes, slices and claims.

use serde_json::{Value, json};

use super::super::Errors;
use super::{claim, claim_update, class, slice, slice_update, status, template};

fn texts(check: fn(&Value, &mut Errors), value: &Value) -> Vec<String> {
    Errors::found(|errors| check(value, errors))
}

fn request(exactly: Value) -> Value {
    json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
}

#[test]
fn requests_are_checked_field_by_field() {
    let good = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    assert!(texts(claim, &request(good)).is_empty());
    let mode = json!({"deviceClassName": "gpu", "allocationMode": "Some"});
    let place = "spec.devices.requests[0].exactly";
    assert_eq!(
        texts(claim, &request(mode)),
        [format!("{place}.allocationMode: Unsupported value: \"Some\": supported values: \"All\", \"ExactCount\"")]
    );
    let all = json!({"deviceClassName": "", "allocationMode": "All", "count": 2, "tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]});
    assert_eq!(
        texts(claim, &request(all)),
        [
            format!("{place}.deviceClassName: Required value"),
            format!("{place}.count: Invalid value: 2: must not be specified when allocationMode is 'All'"),
            format!("{place}.tolerations[0].value: Invalid value: \"x\": must be empty for operator `Exists`"),
        ]
    );
    let none = json!({"spec": {"devices": {"requests": [{"name": "r"}]}}});
    let message = "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required";
    assert_eq!(texts(claim, &none), [message]);
}

#[test]
fn names_of_requests_differ_and_are_known_to_those_who_refer_to_them() {
    let one = json!({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}});
    let value = json!({"spec": {"devices": {"requests": [one, one],
        "constraints": [{"requests": ["r", "nope"], "matchAttribute": "model"}, {"requests": ["r"]}]}}});
    let reference =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let qualified = "a fully qualified name must be a domain and a name separated by a slash";
    let either = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
    assert_eq!(
        texts(claim, &value),
        [
            "spec.devices.requests[1]: Duplicate value: \"r\"".to_owned(),
            format!("spec.devices.constraints[0].requests[1]: Invalid value: \"nope\": {reference}"),
            format!("spec.devices.constraints[0].matchAttribute: Invalid value: \"model\": {qualified}"),
            format!("spec.devices.constraints[1]: Required value: {either}"),
        ]
    );
    let inner = json!({"spec": {"metadata": {}, "spec": value["spec"]}});
    assert!(texts(template, &inner)[0].starts_with("spec.spec.devices.requests[1]"));
}

#[test]
fn a_claim_stays_as_it_is() {
    let value = request(json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}));
    let other = request(json!({"deviceClassName": "a&b", "allocationMode": "ExactCount", "count": 1}));
    let mut errors = Errors::default();
    claim_update(&value, &value, &mut errors);
    assert!(errors.is_empty());
    claim_update(&value, &other, &mut errors);
    let shown = r#"{"Devices":{"Requests":[{"Name":"r","Exactly":{"DeviceClassName":"a\u0026b","Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}"#;
    assert_eq!(errors.texts(), [format!("spec: Invalid value: {shown}: field is immutable")]);
}

#[test]
fn expressions_must_compile() {
    let value = json!({"spec": {"selectors": [{"cel": {"expression": "device.driver"}}, {}],
        "extendedResourceName": "cpu"}});
    let texts = texts(class, &value);
    let place = "spec.selectors[0].cel.expression: Invalid value: \"device.driver\"";
    assert_eq!(texts[0], format!("{place}: must evaluate to bool or the unknown type, not string"));
    assert_eq!(texts[1], "spec.selectors[1].cel: Required value");
    assert_eq!(texts[2], "spec.extendedResourceName: Invalid value: \"cpu\": must be a valid extended resource name");
}

#[test]
fn slices_say_in_one_way_where_their_devices_are() {
    let slice_of = |extra: Value| {
        let mut value = json!({"spec": {"driver": "gpu.example.com", "pool": {"name": "p", "resourceSliceCount": 1}}});
        value["spec"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        value
    };
    let rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    assert!(texts(slice, &slice_of(json!({"nodeName": "n"}))).is_empty());
    assert_eq!(texts(slice, &slice_of(json!({}))), [format!("spec: Required value: {rule}")]);
    assert_eq!(
        texts(slice, &slice_of(json!({"nodeName": "n", "allNodes": true}))),
        [format!("spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {rule}, but multiple fields are set")]
    );
    let mut errors = Errors::default();
    slice_update(&slice_of(json!({"nodeName": "n"})), &slice_of(json!({"nodeName": "m"})), &mut errors);
    assert_eq!(errors.texts(), ["spec.nodeName: Invalid value: \"m\": field is immutable"]);
}

#[test]
fn devices_are_checked_one_by_one() {
    let device = json!({"name": "G", "attributes": {"a-b": {"int": 1}, "v": {"version": "1"}, "n": {}},
        "capacity": {"memory": {"value": "1", "requestPolicy": {"default": "1"}}},
        "taints": [{"key": "", "effect": "Never"}], "nodeName": "n"});
    let value = json!({"spec": {"driver": "gpu.example.com", "nodeName": "n", "devices": [device, {"name": "a"}, {"name": "a"}],
        "pool": {"name": "p", "resourceSliceCount": 1}}});
    let texts = texts(slice, &value);
    for part in [
        "spec.devices[0].name: Invalid value: \"G\"",
        "spec.devices[0].attributes: Invalid value: \"a-b\": a valid C identifier must start",
        "spec.devices[0].attributes[v].version: Invalid value: \"1\": must be a string compatible with semver.org",
        "spec.devices[0].attributes[n]: Invalid value: \"\": exactly one value must be specified",
        "spec.devices[0].capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true",
        "spec.devices[0].taints[0].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
        "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set",
        "spec.devices[2]: Duplicate value: \"a\"",
    ] {
        assert!(texts.iter().any(|text| text.starts_with(part)), "{part} in {texts:#?}");
    }
}

#[test]
fn a_status_keeps_to_its_claim() {
    let claim = |status: Value| {
        let mut value = request(json!({"deviceClassName": "gpu"}));
        value["status"] = status;
        value
    };
    let told = |old: Value, new: Value| Errors::found(|errors| status(&claim(old), &claim(new), errors));
    let pod = json!([{"resource": "pods", "name": "p", "uid": "1"}]);
    assert_eq!(
        told(json!({}), json!({"reservedFor": pod})),
        ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
    );
    let result = |device: &str| json!({"request": "r", "driver": "d.example.com", "pool": "p", "device": device});
    let given = |device: &str| json!({"allocation": {"devices": {"results": [result(device)]}}});
    assert!(told(json!({}), given("a")).is_empty());
    assert!(told(given("a"), json!({})).is_empty());
    assert!(told(given("a"), given("b"))[0].ends_with("field is immutable"));
    let mut with_status = given("a");
    with_status["devices"] = json!([{"driver": "d.example.com", "pool": "p", "device": "b"}]);
    let message = "status.devices[0]: Invalid value: \"d.example.com/p/b\": must be an allocated device in the claim";
    assert_eq!(told(given("a"), with_status), [message]);
}
