//! The classes that claims and Ingresses get which name none.

// upstream: pkg/volume/util/storageclass.go GetDefaultClass; plugin/pkg/admission/network/defaultingressclass/admission.go
// Admit, getDefaultClass (v1.36)

use std::cmp::Reverse;

use klab_api_machinery::resource::{INGRESS_CLASSES, ResourceId, STORAGE_CLASSES};
use klab_api_machinery::views::{Ingress, PersistentVolumeClaim, metadata};
use serde_json::{Value, json};

use crate::transaction::Transaction;

const OF_STORAGE: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const OF_INGRESSES: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];
/// How an Ingress named its class before there was a field for it.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Gives a new claim the default storage class.
pub(crate) fn add_storage_class(transaction: &Transaction<'_>, claim: &mut Value) {
    let spec = PersistentVolumeClaim(claim).spec();
    if spec.storage_class_name().is_some() || !spec.is_set() {
        return;
    }
    if let Some(class) = default_of(transaction, STORAGE_CLASSES, OF_STORAGE) {
        claim["spec"]["storageClassName"] = json!(class);
    }
}

/// The default among classes: the newest of those that say they are it, and of equally old ones the first by name.
fn default_of(transaction: &Transaction<'_>, kind: ResourceId, annotations: &[&str]) -> Option<String> {
    let classes = transaction.state.store.list(kind, None).filter_map(|class| {
        let value = class.value();
        let own = metadata(&value);
        let is_default = annotations.iter().any(|annotation| own.annotations().get(annotation) == Some("true"));
        is_default.then(|| (Reverse(own.creation_timestamp()), class.name.clone()))
    });
    classes.min().map(|(_, name)| name.to_string())
}

/// Gives a new Ingress the default class.
pub(crate) fn of_ingress(transaction: &Transaction<'_>, ingress: &mut Value) {
    let named = Ingress(ingress).spec().ingress_class_name().is_some()
        || metadata(ingress).annotations().get(INGRESS_CLASS).is_some();
    if !named
        && let Some(class) = default_of(transaction, INGRESS_CLASSES, OF_INGRESSES)
        && let Some(spec) = ingress.as_object_mut().map(|ingress| ingress.entry("spec").or_insert_with(|| json!({})))
    {
        spec["ingressClassName"] = json!(class);
    }
}
