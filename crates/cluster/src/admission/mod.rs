//! Admission: what a cluster adds to an object, or refuses it for, because of the other objects it holds.

mod forbidden;
mod limit_range;
mod pods;
mod priority;
mod quota;
mod resources;

use serde_json::{Value, json};

use super::cluster::{Transaction, time_text};
use super::resource::{self as kinds, ResourceId};
use super::status::Status;

pub(crate) use quota::Bookkeeping;
pub(crate) use resources::quality_of_service;

impl Transaction<'_> {
    /// Fills in what depends on other objects: accounts, priorities, tolerations, limits.
    ///
    /// # Errors
    /// 403 when something the object refers to does not exist.
    pub(crate) fn admit_new(&mut self, resource: ResourceId, namespace: &str, value: &mut Value) -> Result<(), Status> {
        match resource {
            kinds::PODS => {
                self.add_service_account(namespace, value)?;
                self.add_priority(value)?;
                pods::add_default_tolerations(value);
                self.add_default_limits(namespace, value);
                value["status"]["qosClass"] = json!(quality_of_service(value));
                pods::mark_gated(value, &time_text(self.now));
                if let Some(node) = value["spec"]["nodeName"].as_str().map(str::to_owned) {
                    self.copy_topology(&node, value);
                }
                Ok(())
            }
            kinds::PERSISTENT_VOLUME_CLAIMS => {
                self.add_storage_class(value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Refuses what the limits and classes of the cluster do not allow. Runs after validation; quota comes later still.
    ///
    /// # Errors
    /// 403 with the reason.
    pub(crate) fn check_new(&self, resource: ResourceId, namespace: &str, value: &Value) -> Result<(), Status> {
        match resource {
            kinds::PODS | kinds::PERSISTENT_VOLUME_CLAIMS => self.check_limits(resource, namespace, value),
            kinds::PRIORITY_CLASSES => self.check_default_class(value),
            _ => Ok(()),
        }
    }

    fn add_storage_class(&self, claim: &mut Value) {
        const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
        if !claim["spec"]["storageClassName"].is_null() || !claim["spec"].is_object() {
            return;
        }
        let class = self
            .state
            .store
            .list(kinds::STORAGE_CLASSES, None)
            .find(|class| class.value()["metadata"]["annotations"][DEFAULT] == "true");
        if let Some(class) = class {
            claim["spec"]["storageClassName"] = json!(class.name);
        }
    }
}
