//! Claims of devices: admin access is for namespaces that say so, and what a driver said of a device goes with it.

// upstream: pkg/registry/resource/utils.go AuthorizedForAdmin, AuthorizedForAdminStatus (v1.36)
// upstream: pkg/registry/resource/resourceclaim/strategy.go dropDeallocatedStatusDevices (v1.36)

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use klab_api_machinery::resource::NAMESPACES;
use klab_api_machinery::schema::Path;
use klab_api_machinery::validation::Errors;
use klab_api_machinery::value::time_text;
use klab_api_machinery::views::{
    AllocatedDeviceStatus, AllocationResult, DeviceRequestAllocationResult, DeviceTaint, ResourceClaim,
    ResourceClaimSpec, ResourceClaimStatus, Views, metadata,
};
use serde_json::{Value, json};

use crate::rbac::{Attributes, ResourceSubject, Subject, User, authorize};
use crate::transaction::Transaction;

const ADMIN_ACCESS: &str = "resource.kubernetes.io/admin-access";

/// Says of the taints of a ResourceSlice since when they are there.
pub(crate) fn date_taints(new: &mut Value, now: Timestamp) {
    let now = time_text(now);
    let devices = new["spec"].get_mut("devices").and_then(Value::as_array_mut).into_iter().flatten();
    let taints = devices.filter_map(|device| device.get_mut("taints").and_then(Value::as_array_mut)).flatten();
    for taint in taints {
        if DeviceTaint(taint).time_added().is_none() {
            taint["timeAdded"] = json!(now);
        }
    }
}

fn gives_admin_access(transaction: &Transaction<'_>, object: &Value) -> bool {
    let namespace = transaction.state.store.get(NAMESPACES, "", metadata(object).namespace());
    namespace.is_some_and(|namespace| namespace.label(ADMIN_ACCESS) == Some("true"))
}

/// Refuses admin access that a new claim or template asks for in its `spec`, where the namespace does not give it.
pub(crate) fn check_admin_requests(transaction: &Transaction<'_>, object: &Value, spec: &Value, errors: &mut Errors) {
    let mut requests = ResourceClaimSpec(spec).devices().requests();
    let first = requests.position(|request| request.exactly().admin_access() == Some(true));
    if let Some(at) = first.filter(|_| !gives_admin_access(transaction, object)) {
        // As upstream, without `exactly`, and for templates as for claims.
        refuse(&Path::Root.field("spec").field("devices").field("requests").index(at), errors);
    }
}

/// A change of a claim's status.
pub(crate) fn admit_claim_status(transaction: &Transaction<'_>, old: &Value, new: &mut Value, errors: &mut Errors) {
    let admin = |claim: &Value| results(claim).position(|result| result.admin_access() == Some(true));
    if let Some(at) = admin(new).filter(|_| admin(old).is_none() && !gives_admin_access(transaction, new)) {
        let status = Path::Root.field("status");
        refuse(&status.field("allocation").field("devices").field("results").index(at), errors);
    }
    forget_taken_back(old, new);
    if let Some(user) = transaction.options.user.filter(|_| errors.is_empty()) {
        check_status_rights(transaction, user, old, new, errors);
    }
}

/// Who gives devices must be allowed to, and who says something of devices, driver by driver.
// upstream: pkg/registry/resource/utils.go AuthorizedForBinding, AuthorizedForDeviceStatus (v1.36)
fn check_status_rights(transaction: &Transaction<'_>, user: &User, old: &Value, new: &Value, errors: &mut Errors) {
    let (before, after) = (ResourceClaim(old).status(), ResourceClaim(new).status());
    if (before.allocation() != after.allocation() || !before.reserved_for().eq(after.reserved_for()))
        && let Some(refusal) = refusal(transaction, user, &["update", "patch"], "binding", "", "")
    {
        let message = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
             verb=\"update\" permission: {refusal}"
        );
        errors.forbidden("status.allocation", message);
    }
    if !after.allocation().is_set() {
        return;
    }
    let namespace = metadata(new).namespace();
    let near = node_of(after.allocation()).is_some_and(|node| is_account_on(user, node));
    let verbs: &[&str] =
        if near { &["associated-node:update", "arbitrary-node:update"] } else { &["arbitrary-node:update"] };
    let also = ["associated-node:patch", "arbitrary-node:patch"];
    let all: Vec<&str> = verbs.iter().chain(&also[usize::from(!near)..]).copied().collect();
    for driver in changed_drivers(before, after) {
        if let Some(refusal) = refusal(transaction, user, &all, "driver", namespace, &driver) {
            let message = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {refusal}",
                verbs.join(" ")
            );
            errors.forbidden("status.devices", message);
        }
    }
}

/// Why a user may do none of this to a part of claims that there is only for permissions.
fn refusal(
    transaction: &Transaction<'_>,
    user: &User,
    verbs: &[&str],
    part: &str,
    namespace: &str,
    name: &str,
) -> Option<String> {
    let allowed = |verb: &&str| {
        let subject = ResourceSubject {
            group: "resource.k8s.io",
            resource: "resourceclaims",
            subresource: part,
            namespace,
            name,
            fields: "",
        };
        authorize(&transaction.state.store, user, &Attributes { verb, to: Subject::Resource(subject) }).allowed
    };
    if verbs.iter().any(allowed) {
        return None;
    }
    let named = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{namespace}\"")
    };
    let verb = verbs.first().copied().unwrap_or_default();
    Some(format!(
        "resourceclaims.resource.k8s.io{named} is forbidden: User \"{}\" cannot {verb} resource \"resourceclaims/{part}\" in \
         API group \"resource.k8s.io\" {place}",
        user.name
    ))
}

/// The one node on which the devices of a claim can be used.
fn node_of(allocation: AllocationResult<'_>) -> Option<&str> {
    let term = only(allocation.node_selector().node_selector_terms())?;
    let field = only(term.match_fields())?;
    let named = field.key() == "metadata.name" && field.operator() == "In";
    only(field.values()).filter(|_| term.match_expressions().is_empty() && named)
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

/// Whether a user is a service account whose pod is on a node.
fn is_account_on(user: &User, node: &str) -> bool {
    let nodes = user.extra.get("authentication.kubernetes.io/node-name");
    user.name.starts_with("system:serviceaccount:") && nodes.is_some_and(|nodes| nodes.as_slice() == [node])
}

/// The drivers of which something is said, or is said no more.
fn changed_drivers(before: ResourceClaimStatus<'_>, after: ResourceClaimStatus<'_>) -> BTreeSet<String> {
    let (before, after): (Vec<_>, Vec<_>) = (before.devices().collect(), after.devices().collect());
    let gone = before.iter().filter(|device| !after.contains(device));
    let come = after.iter().filter(|device| !before.contains(device));
    gone.chain(come).map(|device: &AllocatedDeviceStatus<'_>| device.driver().to_owned()).collect()
}

fn refuse(path: &Path<'_>, errors: &mut Errors) {
    let message =
        format!("admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace");
    errors.forbidden(path.field("adminAccess"), message);
}

fn results(claim: &Value) -> Views<'_, DeviceRequestAllocationResult<'_>> {
    ResourceClaim(claim).status().allocation().devices().results()
}

/// What was said of devices that were taken back is forgotten.
fn forget_taken_back(old: &Value, new: &mut Value) {
    let identity = |device: &Value| ["driver", "pool", "device", "shareID"].map(|field| device[field].clone());
    let have: HashSet<_> = results(new).map(|result| identity(result.0)).collect();
    let gone: HashSet<_> = results(old).map(|result| identity(result.0)).filter(|had| !have.contains(had)).collect();
    if gone.is_empty() {
        return;
    }
    let Some(status) = new["status"].as_object_mut() else { return };
    if let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) {
        devices.retain(|device| !gone.contains(&identity(device)));
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}
