//! Changes of a ResourceClaim's status.

// upstream: pkg/apis/resource/validation/validation.go validateResourceClaimStatusUpdate, validateAllocationResult,
// validateDeviceStatus (v1.36)

use std::collections::HashSet;

use klab_cel::names;
use serde_json::{Value, json};

use super::super::volume_sources::driver;
use super::super::{Errors, Place, placement};
use super::claim::Names;
use super::{common, internal};
use crate::views::{AllocatedDeviceStatus, AllocationResult, ResourceClaim};

const MAX_RESERVED: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_INTERFACE: usize = 256;
const MAX_HARDWARE: usize = 128;
const MAX_ADDRESSES: usize = 16;

/// What is wrong with the new status of a claim.
pub fn status(old: &Value, new: &Value, errors: &mut Errors) {
    let claim = Place::<ResourceClaim<'_>>::root(new);
    let (before, after) = (ResourceClaim(old).status(), claim.status());
    let (reserved, devices, allocation) = (after.reserved_for(), after.devices(), after.allocation());
    if reserved.at_most(MAX_RESERVED, errors) {
        for consumer in reserved.each() {
            consumer.resource().needed(errors);
            consumer.name().needed(errors);
            consumer.uid().needed(errors);
        }
        common::distinct(&reserved, |consumer| consumer.uid().json.clone(), errors);
    }
    let results: HashSet<String> =
        allocation.devices().results().each().map(|result| id(AllocatedDeviceStatus(result.0))).collect();
    devices.each().for_each(|device| device_status(&device, &results, errors));
    common::distinct(&devices, |device| json!(id(**device)), errors);
    if !reserved.is_empty() && !allocation.is_set() {
        errors.forbidden(&reserved, "may not be specified when `allocated` is not set");
    } else if claim.metadata().deletion_timestamp().is_set() {
        let had: HashSet<&Value> = before.reserved_for().map(|consumer| consumer.0).collect();
        if !reserved.each().all(|consumer| had.contains(consumer.json)) {
            let message = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.forbidden(&reserved, message);
        }
    }
    if !allocation.is_set() {
        return;
    }
    if !before.allocation().is_set() {
        allocated(&allocation, &Names::of(*claim.spec().devices()), errors);
    } else if before.allocation() != *allocation {
        errors.invalid_as(allocation, &internal::allocation(*allocation), "field is immutable");
    }
}

/// A device as status entries and results name it.
fn id(device: AllocatedDeviceStatus<'_>) -> String {
    let share = device.share_id().map(|share| format!("/{share}")).unwrap_or_default();
    format!("{}/{}/{}{share}", device.driver(), device.pool(), device.device())
}

fn allocated(allocation: &Place<'_, AllocationResult<'_>>, known: &Names<'_>, errors: &mut Errors) {
    let devices = allocation.devices();
    let (results, configs) = (devices.results(), devices.config());
    if results.at_most(MAX_RESULTS, errors) {
        for result in results.each() {
            known.check(&result.request(), errors);
            // It names a device as the status does.
            let device = result.cast();
            identity(&device, errors);
            common::binding_conditions(&result.binding_conditions(), &result.binding_failure_conditions(), errors);
            share(&device, errors);
        }
    }
    if configs.at_most(2 * common::MAX_CONFIG, errors) {
        for config in configs.each() {
            let requests = config.requests();
            config.source().needed_of(&["FromClaim", "FromClass"], errors);
            requests.each().for_each(|name| known.check(&name, errors));
            common::distinct(&requests, |name| name.json.clone(), errors);
            common::configuration(&config.opaque(), errors);
        }
    }
    if allocation.node_selector().is_set() {
        placement::node_selector(&allocation.node_selector(), errors);
    }
}

fn identity(device: &Place<'_, AllocatedDeviceStatus<'_>>, errors: &mut Errors) {
    driver(&device.driver(), errors);
    common::pool(&device.pool(), errors);
    device.device().check(names::label, errors);
}

fn share(device: &Place<'_, AllocatedDeviceStatus<'_>>, errors: &mut Errors) {
    let Some(uid) = *device.share_id() else { return };
    let parts: Vec<&str> = uid.split('-').collect();
    let sized = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]);
    let lower = uid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    if !sized || !lower {
        let message = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                       hexadecimal characters";
        errors.invalid_at(&device.share_id(), message);
    }
}

/// What a driver says of a device that the claim has.
fn device_status(device: &Place<'_, AllocatedDeviceStatus<'_>>, allocated: &HashSet<String>, errors: &mut Errors) {
    identity(device, errors);
    share(device, errors);
    let own = id(**device);
    if !allocated.contains(&own) {
        errors.invalid(device, &json!(own), "must be an allocated device in the claim");
    }
    device.conditions().at_most(MAX_CONDITIONS, errors);
    if device.data().is_set() {
        common::raw(&device.data(), errors);
    }
    let network = device.network_data();
    for (name, most) in [(network.interface_name(), MAX_INTERFACE), (network.hardware_address(), MAX_HARDWARE)] {
        name.no_longer_than(most, errors);
    }
    let addresses = network.ips();
    if addresses.at_most(MAX_ADDRESSES, errors) {
        for address in addresses.each() {
            let is_valid = address.split_once('/').is_some_and(|(ip, bits)| {
                ip.parse::<std::net::IpAddr>()
                    .is_ok_and(|ip| bits.parse::<u8>().is_ok_and(|bits| bits <= if ip.is_ipv4() { 32 } else { 128 }))
            });
            if !is_valid {
                let message = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
                errors.invalid_at(&address, message);
            }
        }
        common::distinct(&addresses, |address| address.json.clone(), errors);
    }
}
