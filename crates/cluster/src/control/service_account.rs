//! What each namespace always has: its service account `default`.

// upstream: pkg/controller/serviceaccount/serviceaccounts_controller.go syncNamespace (v1.36)

use klab_api_machinery::resource::{NAMESPACES, SERVICE_ACCOUNTS};
use serde_json::json;

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};

/// Gives each namespace its first service account.
#[derive(Default)]
pub(super) struct ServiceAccounts;

impl Reconciler for ServiceAccounts {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let namespace = match change.resource() {
            SERVICE_ACCOUNTS if change.gone && &*change.object.name == "default" => &change.object.namespace,
            NAMESPACES if !change.gone => &change.object.name,
            _ => return,
        };
        plane.queue.add(Key::new(Controller::ServiceAccount, NAMESPACES, ObjectName::new("", namespace)));
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &key.name.name;
        let Some(namespace) = plane.cluster.get(NAMESPACES, "", name) else { return };
        if !namespace.deleting && plane.cluster.get(SERVICE_ACCOUNTS, name, "default").is_none() {
            let account = json!({ "metadata": { "name": "default" } });
            let _made = plane.cluster.create(SERVICE_ACCOUNTS, name, account, &writes());
        }
    }
}
