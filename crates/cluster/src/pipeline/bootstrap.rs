//! What a cluster holds before anyone writes to it.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::{CONFIG_MAPS, NAMESPACES, PRIORITY_CLASSES, ResourceId};
use serde_json::{Value, json};

use super::root_certificate::{ROOT_CERTIFICATE, root_certificate};
use super::write::{create, modify};
use crate::transaction::Transaction;

/// How servers beside the API server know whom to trust.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
/// Since when the use of old tokens is written down.
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Namespace of the cluster's own parts.
const SYSTEM: &str = "kube-system";

/// The namespaces every cluster has, in the order the API server makes them.
const NAMESPACE_NAMES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// Makes the standard namespaces and the two system priority classes.
pub(crate) fn standard_objects(transaction: &mut Transaction<'_>) {
    for name in NAMESPACE_NAMES {
        make(transaction, NAMESPACES, "", json!({ "metadata": { "name": name } }));
    }
    for (name, value, purpose) in [
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ] {
        make(
            transaction,
            PRIORITY_CLASSES,
            "",
            json!({ "metadata": { "name": name }, "value": value, "description": purpose }),
        );
    }
    publish_authentication(transaction);
}

/// Writes what the API server itself publishes in kube-system.
// upstream: pkg/controlplane/controller/clusterauthenticationtrust/cluster_authentication_trust_controller.go,
// pkg/controlplane/controller/legacytokentracking/controller.go (v1.36)
fn publish_authentication(transaction: &mut Transaction<'_>) {
    let certificate = transaction.state.root_certificate.clone();
    let today = transaction.now.strftime("%Y-%m-%d").to_string();
    for (name, data) in [
        (
            AUTHENTICATION,
            json!({
                "client-ca-file": certificate, "requestheader-client-ca-file": certificate,
                "requestheader-allowed-names": "[\"front-proxy-client\"]",
                "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
                "requestheader-group-headers": "[\"X-Remote-Group\"]",
                "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]",
            }),
        ),
        (TOKEN_TRACKING, json!({ "since": today })),
    ] {
        if transaction.state.store.get(CONFIG_MAPS, SYSTEM, name).is_none() {
            make(transaction, CONFIG_MAPS, SYSTEM, json!({ "metadata": { "name": name }, "data": data }));
        } else if name == AUTHENTICATION {
            let written = modify(transaction, CONFIG_MAPS, Part::Main, SYSTEM, name, |value| value["data"] = data);
            debug_assert!(written.is_ok(), "{written:?}");
        }
    }
}

/// Writes the current root certificate into every namespace.
pub(crate) fn publish_root_certificate(transaction: &mut Transaction<'_>) {
    if transaction.state.store.get(NAMESPACES, "", SYSTEM).is_some() {
        publish_authentication(transaction);
    }
    let namespaces: Vec<Arc<Object>> = transaction.state.store.list(NAMESPACES, None).cloned().collect();
    for namespace in namespaces {
        let config_map = root_certificate(&transaction.state.root_certificate);
        if transaction.state.store.get(CONFIG_MAPS, &namespace.name, ROOT_CERTIFICATE).is_some() {
            let data = config_map["data"].clone();
            let written = modify(transaction, CONFIG_MAPS, Part::Main, &namespace.name, ROOT_CERTIFICATE, |value| {
                value["data"] = data;
            });
            debug_assert!(written.is_ok(), "{written:?}");
        } else if !namespace.deleting {
            make(transaction, CONFIG_MAPS, &namespace.name, config_map);
        }
    }
}

fn make(transaction: &mut Transaction<'_>, resource: ResourceId, namespace: &str, value: Value) {
    let made = create(transaction, resource, namespace, value);
    debug_assert!(made.is_ok(), "{made:?}");
}
