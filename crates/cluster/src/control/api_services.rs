//! APIServices that somebody makes: whether what they lead to could answer.

// upstream: staging/src/k8s.io/kube-aggregator/pkg/controllers/status/{remote,local}/*_available_controller.go sync (v1.36)

use std::collections::BTreeSet;

use klab_api_machinery::resource::{API_SERVICES, ENDPOINT_SLICES, SERVICES};
use klab_api_machinery::value::{selects, set_condition, time_text};
use klab_api_machinery::views::{APIService, APIServiceSpec, EndpointSlice, Service};
use klab_scheduler::selector::Selector;
use serde_json::json;

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::cluster::Part;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Says of APIServices whether they are available.
#[derive(Default)]
pub(super) struct ApiServices {
    known: BTreeSet<ObjectName>,
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::ApiServiceAvailability, API_SERVICES, name)
}

impl Reconciler for ApiServices {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == API_SERVICES {
            if change.gone {
                self.known.remove(&change.name());
                return;
            }
            self.known.insert(change.name());
            return plane.queue.add(key(change.name()));
        }
        for name in &self.known {
            plane.queue.add(key(name.clone()));
        }
    }

    fn sync(&mut self, plane: &mut Plane, of: &Key) {
        let name = &*of.name.name;
        let Some(object) = plane.cluster.get(API_SERVICES, "", name) else { return };
        let value = object.value();
        let (status, reason, message) = availability(plane, APIService(&value).spec());
        let had = APIService(&value).status().conditions().of_type("Available");
        if had.is_some_and(|had| [had.status(), had.reason(), had.message()] == [status, reason, &message]) {
            return;
        }
        let now = time_text(plane.now());
        let _said = plane.cluster.modify(API_SERVICES, Part::Status, "", name, &writes(), |value| {
            let available = json!({
                "type": "Available", "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
            });
            set_condition(&mut value["status"]["conditions"], available);
        });
    }

    fn forget(&mut self) {
        self.known.clear();
    }
}

fn availability(plane: &Plane, spec: APIServiceSpec<'_>) -> (&'static str, &'static str, String) {
    let service = spec.service();
    if !service.is_set() {
        return ("True", "Local", "Local APIServices are always available".to_owned());
    }
    let (namespace, name, port) = (service.namespace(), service.name(), service.port().unwrap_or(443));
    let Some(found) = plane.cluster.get(SERVICES, namespace, name) else {
        return ("False", "ServiceNotFound", format!("service/{name} in \"{namespace}\" is not present"));
    };
    let found = found.value();
    let found = Service(&found).spec();
    if found.type_() == "ClusterIP" {
        let Some(entry) = found.ports().find(|one| one.port() == port) else {
            let message = format!("service/{name} in \"{namespace}\" is not listening on port {port}");
            return ("False", "ServicePortError", message);
        };
        let wanted = Selector::from_json(&json!({ "matchLabels": { SERVICE_LABEL: name } }));
        let mut slices = plane.cluster.list(ENDPOINT_SLICES, Some(namespace)).0;
        slices.retain(|slice| selects(&wanted, slice));
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for service/{name} in \"{namespace}\"");
            return ("False", "EndpointsNotFound", message);
        }
        let port_name = entry.name();
        let answers = slices.iter().map(|slice| slice.value()).any(|slice| {
            let slice = EndpointSlice(&slice);
            slice.endpoints().any(|one| one.conditions().ready() != Some(false))
                && slice.ports().any(|one| one.name().unwrap_or_default() == port_name && one.port().is_some())
        });
        if !answers {
            let message = format!(
                "endpointslices for service/{name} in \"{namespace}\" have no addresses with port name \"{port_name}\""
            );
            return ("False", "MissingEndpoints", message);
        }
    }
    let path = format!("/apis/{}/{}", spec.group(), spec.version());
    let message = format!(
        "failing or missing response from https://{name}.{namespace}.svc:{port}{path}: the embedded cluster does not forward \
         requests to aggregated API servers"
    );
    ("False", "FailedDiscoveryCheck", message)
}
