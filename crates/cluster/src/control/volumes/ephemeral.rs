//! Claims of ephemeral volumes: made for the pod that has the volume, which owns them, so that they go with it.

// upstream: pkg/controller/volume/ephemeral/controller.go syncHandler, handleVolume (v1.36)

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use klab_api_machinery::value::controller_reference;
use klab_api_machinery::views::{Pod, Volume};
use serde_json::json;

use super::super::controller::Controller;
use super::super::plane::Plane;
use super::super::pods::writes;
use super::super::queue::{Key, ObjectName};
use super::super::reconcile::{Change, Reconciler};
use super::binding::{claim_of_ephemeral, claims_of};

const COMPONENT: &str = "ephemeral_volume";

/// Makes the claims of ephemeral volumes.
#[derive(Default)]
pub(in super::super) struct EphemeralVolumes;

fn key(pod: ObjectName) -> Key {
    Key::new(Controller::EphemeralVolume, PODS, pod)
}

impl Reconciler for EphemeralVolumes {
    fn changed(&mut self, plane: &mut Plane, change: &Change<'_>) {
        if change.resource() == PODS {
            // Volumes of a pod stay as they are.
            if !change.gone && !change.object.deleting && change.pod.before.is_none() && has_ephemeral(change.object) {
                plane.queue.add(key(change.name()));
            }
        } else if change.gone {
            // A pod that is not deleted gets it again.
            let gone = change.name();
            let needs = |pod: &Object| !pod.deleting && has_ephemeral(pod) && claims_of(pod).contains(&gone);
            let pods = plane.view.pods_in(&gone.namespace).filter(|pod| needs(&pod.object));
            let pods: Vec<ObjectName> = pods.map(|pod| pod.name()).collect();
            for pod in pods {
                plane.queue.add(key(pod));
            }
        }
    }

    fn sync(&mut self, plane: &mut Plane, key: &Key) {
        let name = &key.name;
        let Some(pod) = plane.cluster.get(PODS, &name.namespace, &name.name).filter(|pod| !pod.deleting) else {
            return;
        };
        let value = pod.value();
        for volume in Pod(&value).spec().volumes() {
            let Some(claim) = claim_of_ephemeral(&pod, volume) else { continue };
            if let Err(fault) = ensure(plane, &pod, volume, &claim) {
                let message = format!("ephemeral volume {}: {fault}", volume.name());
                plane.note(&pod, COMPONENT, true, "FailedBinding", &message);
                plane.retry_later(key.clone());
                return;
            }
        }
        plane.refused.remove(key);
    }
}

/// Whether a pod has ephemeral volumes. Reading the text first spares decoding the many pods that have none.
pub(super) fn has_ephemeral(pod: &Object) -> bool {
    std::str::from_utf8(&pod.json).is_ok_and(|json| json.contains("\"ephemeral\":{"))
}

/// Makes the claim of a volume where it is not there.
fn ensure(plane: &Plane, pod: &Object, volume: Volume<'_>, name: &str) -> Result<(), String> {
    let namespace = &*pod.namespace;
    if let Some(claim) = plane.cluster.get(PERSISTENT_VOLUME_CLAIMS, namespace, name) {
        let is_own = claim.controller().is_some_and(|owner| owner.uid == pod.uid);
        let fault =
            || format!("PVC {namespace}/{name} was not created for pod {namespace}/{} (pod is not owner)", pod.name);
        return if is_own { Ok(()) } else { Err(fault()) };
    }
    let template = volume.ephemeral().volume_claim_template();
    let given = template.metadata().0;
    let claim = json!({
        "metadata": {
            "name": name, "ownerReferences": [controller_reference(pod)], "annotations": given["annotations"],
            "labels": given["labels"],
        },
        "spec": template.spec().0,
    });
    let made = plane.cluster.create(PERSISTENT_VOLUME_CLAIMS, namespace, claim, &writes());
    made.map(drop).map_err(|status| format!("create PVC {name}: {status}"))
}
