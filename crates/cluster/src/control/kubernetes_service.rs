//! The Service `kubernetes`, by which pods find the API server: put back when it is deleted.

// upstream: pkg/controlplane/controller/kubernetesservice/controller.go UpdateKubernetesService (v1.36)

use klab_api_machinery::resource::SERVICES;
use klab_api_machinery::views::{Service, metadata};
use serde_json::{Value, json};

use super::controller::Controller;
use super::plane::Plane;
use super::queue::Key;
use super::reconcile::{Change, Reconciler};
use crate::cluster::WriteOptions;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

/// Puts back the Service in front of the API server.
#[derive(Default)]
pub(super) struct KubernetesService {
    /// What it was like when it was last seen.
    last: Option<Value>,
}

impl Reconciler for KubernetesService {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let object = change.object;
        if &*object.name != NAME || &*object.namespace != NAMESPACE || !change.gone {
            return;
        }
        let value = object.value();
        self.last = Some(json!({
            "metadata": { "name": NAME, "labels": metadata(&value).0["labels"] }, "spec": Service(&value).spec().0,
        }));
        plane.queue.add(Key::at_large(Controller::KubernetesService));
    }

    fn sync(&mut self, plane: &mut Plane, _: &Key) {
        if let Some(service) = self.last.take()
            && plane.cluster.get(SERVICES, NAMESPACE, NAME).is_none()
        {
            let _made = plane.cluster.create(SERVICES, NAMESPACE, service, &WriteOptions::by("kube-apiserver"));
        }
    }
}
