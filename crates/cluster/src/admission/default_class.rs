//! The classes that claims and Ingresses get which name none.

// upstream: pkg/volume/util/storageclass.go GetDefaultClass; plugin/pkg/admission/network/defaultingressclass/admission.go
// Admit, getDefaultClass (v1.36)

use std::cmp::Reverse;

use klab_api_machinery::resource::{INGRESS_CLASSES, ResourceId, STORAGE_CLASSES};
use serde_json::{Value, json};

use crate::transaction::Transaction;

const OF_STORAGE: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const OF_INGRESSES: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];
/// How an Ingress named its class before there was a field for it.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Gives a new claim the default storage class.
pub(crate) fn add_storage_class(transaction: &Transaction<'_>, claim: &mut Value) {
    if !claim["spec"]["storageClassName"].is_null() || !claim["spec"].is_object() {
        return;
    }
    if let Some(class) = default_of(transaction, STORAGE_CLASSES, OF_STORAGE) {
        claim["spec"]["storageClassName"] = json!(class);
    }
}

/// The default among classes: the newest of those that say they are it, and of equally old ones the first by name.
fn default_of(transaction: &Transaction<'_>, kind: ResourceId, annotations: &[&str]) -> Option<String> {
    let classes = transaction.state.store.list(kind, None).filter_map(|class| {
        let metadata = &class.value()["metadata"];
        let is_default = annotations.iter().any(|annotation| metadata["annotations"][*annotation] == "true");
        let made = metadata["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        is_default.then(|| (Reverse(made), class.name.clone()))
    });
    classes.min().map(|(_, name)| name.to_string())
}

/// Gives a new Ingress the default class.
pub(crate) fn of_ingress(transaction: &Transaction<'_>, ingress: &mut Value) {
    let named = !ingress["spec"]["ingressClassName"].is_null()
        || ingress["metadata"]["annotations"].get(INGRESS_CLASS).is_some();
    if !named
        && let Some(class) = default_of(transaction, INGRESS_CLASSES, OF_INGRESSES)
        && let Some(spec) = ingress.as_object_mut().map(|ingress| ingress.entry("spec").or_insert_with(|| json!({})))
    {
        spec["ingressClassName"] = json!(class);
    }
}
