//! Defaults of claims and of devices.

// upstream: pkg/apis/resource/v1/defaults.go (v1.36)

use serde_json::Value;

use super::field::{each, set};

/// A ResourceClaim.
pub fn claim(value: &mut Value) {
    requests(&mut value["spec"]);
}

/// A ResourceClaimTemplate.
pub fn template(value: &mut Value) {
    if value["spec"]["spec"].is_object() {
        requests(&mut value["spec"]["spec"]);
    }
}

fn requests(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else { return };
    for request in each(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            count(exactly);
        }
        each(request, "firstAvailable").for_each(count);
    }
}

fn count(request: &mut Value) {
    set(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" && request["count"].as_i64().unwrap_or(0) == 0 {
        request["count"] = Value::from(1);
    }
}
