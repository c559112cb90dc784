//! Endpoints and EndpointSlices of Services with selectors.

// upstream: pkg/controller/endpoint/endpoints_controller.go syncService (v1.36)
// upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go ShouldPodBeInEndpoints, ShouldSetHostname (v1.36)

mod backends;
mod mirroring;
mod slices;
mod subsets;
mod trigger;

use std::collections::BTreeSet;
use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{ENDPOINTS, PODS, SERVICES};
use klab_api_machinery::value::{map_mut, selects, service_selector};
use klab_api_machinery::views::Service;
use serde_json::Value;

use self::backends::Backends;
use self::trigger::Triggers;
use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use super::view::PodInfo;
use crate::cluster::{DeleteOptions, Part};

pub(super) use self::mirroring::Mirroring;

/// The Service a slice is of.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Who writes a slice.
const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// When what led to the last change happened.
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Fills EndpointSlices and Endpoints of Services.
#[derive(Default)]
pub(super) struct Endpoints {
    backends: Backends,
    triggers: Triggers,
    /// Services that are gone, whose Endpoints are to go too.
    orphaned: BTreeSet<ObjectName>,
}

impl Reconciler for Endpoints {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        match change.resource() {
            SERVICES => {
                plane.keep_selector(change, service_selector);
                if change.gone {
                    self.orphaned.insert(change.name());
                }
                plane.queue.add(key(change.name()));
            }
            PODS => {
                if change.gone {
                    self.backends.forget(&change.object.uid);
                }
                if change.concerns_selectors_of_pods() {
                    for object in change.versions() {
                        for service in plane.view.selecting(SERVICES, object) {
                            plane.queue.add(key(service));
                        }
                    }
                }
            }
            _ => {
                let object = change.object;
                let service = object.label(SERVICE_LABEL).unwrap_or(&object.name);
                plane.queue.add(key(ObjectName::new(&object.namespace, service)));
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        self.sync_service(plane, &key.name);
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

fn key(name: ObjectName) -> Key {
    Key::new(Controller::EndpointSlice, SERVICES, name)
}

/// A Service, and the pods it selects.
struct Selected<'a> {
    service: &'a Object,
    value: Service<'a>,
    pods: Vec<Arc<PodInfo>>,
    /// Whether pods count as ready whatever they say.
    publishes_unready: bool,
    /// When what leads to a change now happened, if that is known.
    trigger: Option<String>,
}

impl Selected<'_> {
    fn is_headless(&self) -> bool {
        self.value.spec().cluster_ip() == "None"
    }
}

impl Endpoints {
    fn sync_service(&mut self, plane: &mut Plane, name: &ObjectName) {
        let Some(service) = plane.cluster.get(SERVICES, &name.namespace, &name.name) else {
            self.triggers.forget(name);
            // Slices follow their owner; Endpoints have none.
            if self.orphaned.remove(name) {
                let _deleted = plane.cluster.delete(ENDPOINTS, &name.namespace, &name.name, &DeleteOptions::default());
            }
            return;
        };
        self.orphaned.remove(name);
        let value = service.value();
        let value = Service(&value);
        let spec = value.spec();
        // Without a selector the endpoints are someone else's; external names have none.
        if spec.selector().is_empty() || spec.type_() == "ExternalName" {
            return;
        }
        let selector = service_selector(&spec.0["selector"]);
        let mut pods: Vec<Arc<PodInfo>> =
            plane.view.pods_in(&name.namespace).filter(|pod| selects(&selector, &pod.object)).map(Arc::clone).collect();
        let trigger = self.triggers.of(&service, value, &pods);
        pods.retain(|pod| pod.ip.is_some() && !pod.finished());
        pods.sort_by(|left, right| left.ip.cmp(&right.ip));
        let publishes_unready = spec.publish_not_ready_addresses();
        let selected = Selected { service: &service, value, pods, publishes_unready, trigger };
        self.write_slices(plane, &selected);
        self.write_endpoints(plane, &selected);
    }
}

/// Sets or removes the annotation that tells when what led to a change happened.
fn set_trigger(object: &mut Value, trigger: Option<&str>) {
    let metadata = &mut object["metadata"];
    if let Some(trigger) = trigger {
        map_mut(&mut metadata["annotations"]).insert(TRIGGER.to_owned(), trigger.into());
    } else if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove(TRIGGER);
    }
}

/// Replaces an object.
fn overwrite(plane: &Plane, object: &Object, change: impl FnOnce(&mut Value)) {
    let _written =
        plane.cluster.modify(object.resource, Part::Main, &object.namespace, &object.name, &writes(), change);
}
