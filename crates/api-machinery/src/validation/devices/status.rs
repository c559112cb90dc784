//! Changes of a ResourceClaim's status.

// upstream: pkg/apis/resource/validation/validation.go validateResourceClaimStatusUpdate, validateAllocationResult,
// validateDeviceStatus (v1.36)

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::field::{entries, text};
use super::super::{Errors, Place, placement};
use super::claim::Names;
use super::{common, internal};
use crate::schema::Path;

const MAX_RESERVED: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_INTERFACE: usize = 256;
const MAX_HARDWARE: usize = 128;
const MAX_ADDRESSES: usize = 16;

/// What is wrong with the new status of a claim.
pub fn status(old: &Value, new: &Value, errors: &mut Errors) {
    let path = Path::Root.field("status");
    let (before, after) = (&old["status"], &new["status"]);
    let reserved = path.field("reservedFor");
    if common::within(after, "reservedFor", MAX_RESERVED, &reserved, errors) {
        for (at, consumer) in entries(after, "reservedFor") {
            let path = reserved.index(at);
            for field in ["resource", "name", "uid"] {
                if text(consumer, field).is_empty() {
                    errors.required(path.field(field), "");
                }
            }
        }
        common::distinct(after, "reservedFor", |consumer| consumer["uid"].clone(), &reserved, errors);
    }
    let list = path.field("devices");
    let results: HashSet<String> =
        entries(&after["allocation"]["devices"], "results").map(|(_, result)| id(result)).collect();
    for (at, device) in entries(after, "devices") {
        device_status(device, &results, &list.index(at), errors);
    }
    common::distinct(after, "devices", |device| json!(id(device)), &list, errors);
    if entries(after, "reservedFor").next().is_some() {
        if after["allocation"].is_null() {
            errors.forbidden(reserved, "may not be specified when `allocated` is not set");
        } else if !new["metadata"]["deletionTimestamp"].is_null() {
            let had: HashSet<&Value> = entries(before, "reservedFor").map(|(_, consumer)| consumer).collect();
            if !entries(after, "reservedFor").all(|(_, consumer)| had.contains(consumer)) {
                let message =
                    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
                errors.forbidden(reserved, message);
            }
        }
    }
    let allocation = path.field("allocation");
    match (&before["allocation"], &after["allocation"]) {
        (_, Value::Null) => {}
        (Value::Null, new_one) => {
            allocated(new_one, &Names::of(&new["spec"]["devices"]), &allocation, errors);
        }
        (old_one, new_one) if old_one != new_one => {
            errors.invalid_as(allocation, &internal::allocation(new_one), "field is immutable");
        }
        _ => {}
    }
}

/// A device as status entries and results name it.
fn id(device: &Value) -> String {
    let share = device["shareID"].as_str().map(|share| format!("/{share}")).unwrap_or_default();
    format!("{}/{}/{}{share}", text(device, "driver"), text(device, "pool"), text(device, "device"))
}

fn allocated(allocation: &Value, known: &Names<'_>, path: &Path<'_>, errors: &mut Errors) {
    let devices = &allocation["devices"];
    let at_devices = path.field("devices");
    let list = at_devices.field("results");
    if common::within(devices, "results", MAX_RESULTS, &list, errors) {
        for (at, result) in entries(devices, "results") {
            let path = list.index(at);
            known.check(&result["request"], &path.field("request"), errors);
            identity(result, &path, errors);
            common::binding_conditions(result, &path, errors);
            share(result, &path, errors);
        }
    }
    let list = at_devices.field("config");
    if common::within(devices, "config", 2 * common::MAX_CONFIG, &list, errors) {
        for (at, config) in entries(devices, "config") {
            let path = list.index(at);
            match text(config, "source") {
                "" => errors.required(path.field("source"), ""),
                "FromClass" | "FromClaim" => {}
                _ => errors.unsupported(path.field("source"), &config["source"], &["FromClaim", "FromClass"]),
            }
            let requests = path.field("requests");
            for (at, name) in entries(config, "requests") {
                known.check(name, &requests.index(at), errors);
            }
            common::distinct(config, "requests", Value::clone, &requests, errors);
            common::configuration(config, &path, errors);
        }
    }
    if allocation["nodeSelector"].is_object() {
        placement::node_selector(&Place::new(path.field("nodeSelector"), &allocation["nodeSelector"]), errors);
    }
}

fn identity(device: &Value, path: &Path<'_>, errors: &mut Errors) {
    common::driver(&device["driver"], &path.field("driver"), errors);
    common::pool(&device["pool"], &path.field("pool"), errors);
    common::label(&device["device"], &path.field("device"), errors);
}

fn share(device: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(uid) = device["shareID"].as_str() else { return };
    let parts: Vec<&str> = uid.split('-').collect();
    let sized = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]);
    let lower = uid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    if !sized || !lower {
        let message = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                       hexadecimal characters";
        errors.invalid(path.field("shareID"), &device["shareID"], message);
    }
}

/// What a driver says of a device that the claim has.
fn device_status(device: &Value, allocated: &HashSet<String>, path: &Path<'_>, errors: &mut Errors) {
    identity(device, path, errors);
    share(device, path, errors);
    let own = id(device);
    if !allocated.contains(&own) {
        errors.invalid(path, &json!(own), "must be an allocated device in the claim");
    }
    common::within(device, "conditions", MAX_CONDITIONS, &path.field("conditions"), errors);
    if !device["data"].is_null() {
        common::raw(&device["data"], &path.field("data"), errors);
    }
    let network = &device["networkData"];
    let at_network = path.field("networkData");
    for (field, most) in [("interfaceName", MAX_INTERFACE), ("hardwareAddress", MAX_HARDWARE)] {
        if text(network, field).len() > most {
            errors.too_long(at_network.field(field), most, "bytes");
        }
    }
    let list = at_network.field("ips");
    if common::within(network, "ips", MAX_ADDRESSES, &list, errors) {
        for (at, address) in entries(network, "ips") {
            let parts = address.as_str().and_then(|address| address.split_once('/'));
            let valid = parts.is_some_and(|(ip, bits)| {
                ip.parse::<std::net::IpAddr>()
                    .is_ok_and(|ip| bits.parse::<u8>().is_ok_and(|bits| bits <= if ip.is_ipv4() { 32 } else { 128 }))
            });
            if !valid {
                let message = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
                errors.invalid(list.index(at), address, message);
            }
        }
        common::distinct(network, "ips", Value::clone, &list, errors);
    }
}
