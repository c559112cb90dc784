//! Volumes made on demand: hollow ones, by whom a storage class names.

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go provisionClaim, findProvisionablePlugin (v1.36)

use k8s_openapi::api::core::v1;
use klab_api_machinery::object::Object;
use klab_api_machinery::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use klab_api_machinery::value::map_mut;
use klab_api_machinery::views::{PersistentVolumeClaim as Claim, StorageClass as Class};
use serde_json::{Value, json};

use super::super::plane::Plane;
use super::super::pods::writes;
use super::super::view::NodeInfo;
use super::binding::{COMPONENT, PROVISIONED_BY, claim_reference};
use super::local_path;
use crate::cluster::Part;
use klab_scheduler::node_selector::NodeSelectorTerm;
use klab_scheduler::selector::Labels;
use klab_scheduler::typed::Typed;

const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const DISK_ZONE: &str = "topology.disk.csi.azure.com/zone";
/// Provisioners that were part of Kubernetes, and the CSI drivers that act for them now.
// upstream: staging/src/k8s.io/csi-translation-lib/plugins (v1.36)
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// Where a provisioner says that a volume is.
fn source(provisioner: &str, name: &str, claim: &Object) -> (&'static str, Value) {
    if !local_path::is(provisioner) {
        let migrated = MIGRATED.iter().find(|(old, _)| *old == provisioner);
        let driver = migrated.map_or(provisioner, |(_, driver)| driver);
        return ("csi", json!({ "driver": driver, "volumeHandle": name }));
    }
    ("hostPath", local_path::source(name, claim))
}

/// Where pods must be that use the volume, if anywhere.
fn place(provisioner: &str, node: Option<&NodeInfo>) -> Option<Value> {
    let node = &node?.object;
    let (key, value) = if local_path::is_of_kind(provisioner) {
        (local_path::HOST_NAME, node.label(local_path::HOST_NAME).unwrap_or(&node.name))
    } else {
        (DISK_ZONE, node.label(DISK_ZONE)?)
    };
    Some(json!({ "required": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": key, "operator": "In", "values": [value] }] },
    ]}}))
}

impl Plane {
    /// Makes a volume for a claim, within reach of the node if one is given, and binds the two.
    pub(super) fn provision(&mut self, object: &Object, claim: Claim<'_>, class: Class<'_>, node: Option<&NodeInfo>) {
        let (spec, provisioner) = (claim.spec(), class.provisioner().to_owned());
        if provisioner.starts_with("kubernetes.io/") && MIGRATED.iter().all(|(old, _)| *old != provisioner) {
            let message = format!("no volume plugin matched name: {provisioner}");
            self.note(object, COMPONENT, true, "ProvisioningFailed", &message);
            return;
        }
        if local_path::is_of_kind(&provisioner)
            && let Some(message) = local_path::fault(&provisioner, claim, class, node.is_some())
        {
            self.note(object, &provisioner, true, "ProvisioningFailed", &message);
            return;
        }
        let name = format!("pvc-{}", object.uid);
        let (kind, source) = source(&provisioner, &name, object);
        let mut volume = json!({
            "metadata": { "name": name, "annotations": { PROVISIONED_BY: provisioner } },
            "spec": {
                "capacity": { "storage": spec.resources().requests().get("storage") },
                "accessModes": spec.0["accessModes"],
                "persistentVolumeReclaimPolicy": class.reclaim_policy().unwrap_or("Delete"),
                "storageClassName": class.metadata().name(),
                "volumeMode": spec.volume_mode().unwrap_or("Filesystem"),
                kind: source,
                "claimRef": claim_reference(object),
            },
        });
        if let Some(place) = place(&provisioner, node) {
            volume["spec"]["nodeAffinity"] = place;
        }
        if let Some(node) = node.filter(|_| local_path::is_of_kind(&provisioner)) {
            volume["metadata"]["annotations"][local_path::SELECTED_NODE] = json!(&*node.object.name);
        }
        if let Some(node) = node {
            let node = node.object.name.to_string();
            self.annotate_claim(object, &[(SELECTED_NODE, &node), (PROVISIONER, &provisioner)]);
        } else {
            self.annotate_claim(object, &[(PROVISIONER, &provisioner)]);
        }
        let volume = match self.cluster.create(PERSISTENT_VOLUMES, "", volume, &writes()) {
            Ok(volume) => {
                let message = format!("Successfully provisioned volume {name}");
                self.note(object, &provisioner, false, "ProvisioningSucceeded", &message);
                volume
            }
            Err(status) if status.reason == "AlreadyExists" => {
                let Some(volume) = self.cluster.get(PERSISTENT_VOLUMES, "", &name) else { return };
                volume
            }
            Err(status) => {
                self.note(object, &provisioner, true, "ProvisioningFailed", &status.message);
                return;
            }
        };
        self.bind_claim(object, claim, &volume);
    }

    fn annotate_claim(&mut self, object: &Object, annotations: &[(&str, &str)]) {
        let _annotated = self.cluster.modify(
            PERSISTENT_VOLUME_CLAIMS,
            Part::Main,
            &object.namespace,
            &object.name,
            &writes(),
            |claim| {
                let map = map_mut(&mut claim["metadata"]["annotations"]);
                for (key, value) in annotations {
                    map.insert((*key).to_owned(), json!(value));
                }
            },
        );
    }
}

/// Whether pods on a node reach a volume.
pub(super) fn reaches(volume: &Object, node: &NodeInfo) -> bool {
    let Ok(volume) = v1::PersistentVolume::from_json(&volume.json) else { return false };
    let affinity = volume.spec.and_then(|spec| spec.node_affinity);
    let Some(required) = affinity.and_then(|affinity| affinity.required) else { return true };
    let labels: Labels = node.object.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let terms = required.node_selector_terms.iter().filter_map(|term| NodeSelectorTerm::from_api(term).ok());
    terms.into_iter().any(|term| term.matches(&labels, &node.object.name))
}
