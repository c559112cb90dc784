//! What each namespace always has: `kube-root-ca.crt`, the certificate by which pods know the API server.

// upstream: pkg/controller/certificates/rootcacertpublisher/publisher.go syncNamespace (v1.36)

use klab_api_machinery::resource::{CONFIG_MAPS, NAMESPACES};
use klab_api_machinery::value::map_mut;
use klab_api_machinery::views::metadata;

use super::controller::Controller;
use super::plane::Plane;
use super::pods::writes;
use super::queue::{Key, ObjectName};
use super::reconcile::{Change, Reconciler};
use crate::cluster::{Part, ROOT_CERTIFICATE};

/// Why pods trust what it holds.
const DESCRIPTION: &str = "kubernetes.io/description";

/// Puts back the certificate that is deleted or changed.
#[derive(Default)]
pub(super) struct RootCertificates;

impl Reconciler for RootCertificates {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        let object = change.object;
        // It is made with its namespace; here are those that somebody touches.
        if &*object.name == ROOT_CERTIFICATE && (change.gone || change.previous.is_some()) {
            let namespace = ObjectName::new("", &object.namespace);
            plane.queue.add(Key::new(Controller::RootCertificatePublisher, NAMESPACES, namespace));
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let namespace = &*key.name.name;
        let lives = plane.cluster.get(NAMESPACES, "", namespace).is_some_and(|namespace| !namespace.deleting);
        if !lives {
            return;
        }
        let wanted = plane.cluster.root_certificate();
        let Some(object) = plane.cluster.get(CONFIG_MAPS, namespace, ROOT_CERTIFICATE) else {
            let _made = plane.cluster.create(CONFIG_MAPS, namespace, wanted, &writes());
            return;
        };
        let have = object.value();
        let is_described = metadata(&have).annotations().get(DESCRIPTION).is_some_and(|text| !text.is_empty());
        if have["data"] == wanted["data"] && is_described {
            return;
        }
        let put_back = |value: &mut serde_json::Value| {
            value["data"] = wanted["data"].clone();
            let said = metadata(&wanted).annotations().get(DESCRIPTION).into();
            map_mut(&mut value["metadata"]["annotations"]).insert(DESCRIPTION.to_owned(), said);
        };
        let _written = plane.cluster.modify(CONFIG_MAPS, Part::Main, namespace, ROOT_CERTIFICATE, &writes(), put_back);
    }
}
