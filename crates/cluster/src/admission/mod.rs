//! Admission: what a cluster adds to an object, or refuses it for, because of the other objects it holds.

mod forbidden;
mod limit_range;
pub(crate) mod pods;
mod priority;
mod quota;
mod resources;
pub(crate) mod usage;

use serde_json::{Value, json};

use super::cluster::Transaction;
use super::resource::STORAGE_CLASSES;

pub(crate) use quota::Bookkeeping;

impl Transaction<'_> {
    /// Gives a new claim the default storage class.
    pub(crate) fn add_storage_class(&self, claim: &mut Value) {
        const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
        if !claim["spec"]["storageClassName"].is_null() || !claim["spec"].is_object() {
            return;
        }
        let class = self
            .state
            .store
            .list(STORAGE_CLASSES, None)
            .find(|class| class.value()["metadata"]["annotations"][DEFAULT] == "true");
        if let Some(class) = class {
            claim["spec"]["storageClassName"] = json!(class.name);
        }
    }
}
