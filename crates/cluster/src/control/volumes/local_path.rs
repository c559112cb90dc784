//! Folders on nodes as volumes, which kind's provisioner makes.

// upstream: rancher/local-path-provisioner provisioner.go provisionFor (v0.0.31), as kind deploys it;
// sig-storage-lib-external-provisioner controller/controller.go provisionClaimOperation (v11)

use klab_api_machinery::object::Object;
use klab_api_machinery::views::{PersistentVolumeClaim as Claim, StorageClass as Class};
use klab_cel::names;
use serde_json::{Value, json};

/// The label by which a volume is tied to its node.
pub(super) const HOST_NAME: &str = "kubernetes.io/hostname";
/// Where a volume says on which node it is.
pub(super) const SELECTED_NODE: &str = "local.path.provisioner/selected-node";

/// Whether a provisioner makes folders: one whose name no CSI driver could have, as `rancher.io/local-path`.
pub(super) fn is(provisioner: &str) -> bool {
    let migrated = provisioner.starts_with("kubernetes.io/");
    !migrated && (provisioner.len() > 63 || !names::subdomain(&provisioner.to_lowercase()).is_empty())
}

/// Whether a provisioner is kind's, which makes a folder on the node of the pod that waits for it.
pub(super) fn is_of_kind(provisioner: &str) -> bool {
    provisioner == "rancher.io/local-path"
}

/// The folder of a volume.
pub(super) fn source(name: &str, claim: &Object) -> Value {
    let folder = format!("/var/local-path-provisioner/{name}_{}_{}", claim.namespace, claim.name);
    json!({ "path": folder, "type": "DirectoryOrCreate" })
}

/// Why there is no volume for a claim, if there is none.
pub(super) fn fault(provisioner: &str, claim: Claim<'_>, class: Class<'_>, on_node: bool) -> Option<String> {
    let spec = claim.spec();
    if spec.volume_mode() == Some("Block") {
        return Some(format!("{provisioner} does not support block volume provisioning"));
    }
    let because = if spec.selector().is_set() {
        "claim.Spec.Selector is not supported"
    } else if !spec.access_modes().all(|mode| matches!(mode, "ReadWriteOnce" | "ReadWriteOncePod")) {
        "NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes"
    } else if !on_node {
        "configuration error, no node was specified"
    } else {
        return None;
    };
    let name = class.metadata().name();
    Some(format!("failed to provision volume with StorageClass {name:?}: {because}"))
}
