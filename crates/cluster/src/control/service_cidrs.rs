//! Ranges of Services' addresses: each says that it is ready, and stays while Services have addresses of no other.

// upstream: pkg/controller/servicecidrs/servicecidrs_controller.go sync, canDeleteCIDR (v1.36)

use std::net::IpAddr;

use jiff::SignedDuration;
use klab_api_machinery::ip_range::IpRange;
use klab_api_machinery::resource::{SERVICE_CIDRS, SERVICES};
use klab_api_machinery::value::{list_mut, set_condition, time_text};
use klab_api_machinery::views::{Service, ServiceCIDR, metadata};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::terminating::TerminatingObjects;
use crate::clock::later;
use crate::cluster::{Part, SERVICE_CIDR, WriteOptions, service_range};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// How long one without addresses stays, so that all that gives out addresses has seen its deletion.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// Looks after ranges.
#[derive(Default)]
pub(super) struct ServiceCidrs {
    /// Ranges that are being deleted.
    leaving: TerminatingObjects,
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::ServiceCidr, SERVICE_CIDRS, name)
}

impl Reconciler for ServiceCidrs {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == SERVICE_CIDRS {
            self.leaving.note(change);
            plane.queue.add(key(change.name()));
        }
        for name in self.leaving.names() {
            plane.queue.add(key(name));
        }
    }

    fn sync(&mut self, plane: &mut Plane, of: &Key) {
        let name = &*of.name.name;
        let Some(range) = plane.cluster.get(SERVICE_CIDRS, "", name) else {
            if name == SERVICE_CIDR {
                make_default(plane);
            }
            return;
        };
        let value = range.value();
        if !range.deleting {
            if !metadata(&value).finalizers().any(|one| one == FINALIZER) {
                let _kept = plane.cluster.modify(SERVICE_CIDRS, Part::Main, "", name, &writes(), |value| {
                    list_mut(&mut value["metadata"]["finalizers"]).push(json!(FINALIZER));
                });
            }
            return say(plane, name, "True", "", "Kubernetes Service CIDR is ready");
        }
        if is_needed(plane, name, &value) {
            let message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
            return say(plane, name, "False", "Terminating", message);
        }
        let since = metadata(&value).deletion_timestamp().unwrap_or_else(|| plane.now());
        if later(since, GRACE) > plane.now() {
            return plane.queue.add_at(key(of.name.clone()), later(since, GRACE));
        }
        plane.release(SERVICE_CIDRS, &of.name, FINALIZER);
    }

    fn forget(&mut self) {
        self.leaving.forget();
    }
}

/// Puts back the range that a cluster begins with.
// upstream: pkg/controlplane/controller/defaultservicecidr/default_servicecidr_controller.go sync (v1.36)
fn make_default(plane: &Plane) {
    let range = json!({
        "metadata": { "name": SERVICE_CIDR }, "spec": { "cidrs": [service_range(&plane.cluster)] },
    });
    let _made = plane.cluster.create(SERVICE_CIDRS, "", range, &WriteOptions::by("kube-apiserver"));
}

/// Says whether a range is ready.
fn say(plane: &Plane, name: &str, status: &str, reason: &str, message: &str) {
    let now = time_text(plane.now());
    let Some(range) = plane.cluster.get(SERVICE_CIDRS, "", name) else { return };
    let value = range.value();
    let had = ServiceCIDR(&value).status().conditions().of_type("Ready");
    if had.is_some_and(|had| [had.status(), had.reason(), had.message()] == [status, reason, message]) {
        return;
    }
    let _said = plane.cluster.modify(SERVICE_CIDRS, Part::Status, "", name, &writes(), |value| {
        let ready = json!({
            "type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
        });
        set_condition(&mut value["status"]["conditions"], ready);
    });
}

/// Whether there would be Services whose addresses are in no range.
fn is_needed(plane: &Plane, name: &str, range: &Value) -> bool {
    let own = IpRange::all_in(range);
    let mut others: Vec<IpRange> = Vec::new();
    for other in plane.cluster.list(SERVICE_CIDRS, None).0 {
        if *other.name != *name {
            others.extend(IpRange::all_in(&other.value()));
        }
    }
    if own.iter().all(|own| others.iter().any(|other| other.contains(own.first, own.length))) {
        return false;
    }
    let services = plane.cluster.list(SERVICES, None).0;
    services.iter().any(|service| {
        let value = service.value();
        Service(&value).spec().cluster_ips().filter_map(|one| one.parse::<IpAddr>().ok()).any(|one| {
            let whole = if one.is_ipv4() { 32 } else { 128 };
            let within = |ranges: &[IpRange]| ranges.iter().any(|range| range.contains(one, whole));
            within(&own) && !within(&others)
        })
    })
}
