//! What makes an object invalid, in Kubernetes' own words.
//!
//! Objects come tidied and defaulted, so fields have their types; rules look only at what the types cannot say.

mod config;
mod container;
mod errors;
mod field;
mod job;
mod metadata;
mod names;
mod node;
mod placement;
mod pod;
mod pod_update;
mod service;
mod workload;

use serde_json::Value;

use super::resource::{self as kinds, ResourceId};
use super::schema::Path;

pub(crate) use errors::Errors;

/// What is wrong with an object, new or about to replace `old`.
pub(crate) fn check(resource: ResourceId, old: Option<&Value>, new: &Value, errors: &mut Errors) {
    // Upstream looks at the metadata of a changed object in several places, and each reports what it finds.
    let times = match (old, resource) {
        (None, _) => 1,
        (Some(_), kinds::NODES) => 4,
        (Some(_), kinds::CONFIG_MAPS | kinds::SECRETS | kinds::SERVICES) => 3,
        (Some(_), _) => 2,
    };
    let mut found = Errors::default();
    metadata::check(resource, old.is_none(), &new["metadata"], &mut found);
    (0..times).for_each(|_| errors.extend(&found));
    match resource {
        kinds::PODS => match old {
            None => pod::create(new, errors),
            Some(old) => pod_update::check(old, new, errors),
        },
        kinds::POD_TEMPLATES => pod::template(&new["template"], &Path::Root.field("template"), errors),
        kinds::DEPLOYMENTS => workload::deployment(new, errors),
        kinds::REPLICA_SETS => workload::replica_set(new, errors),
        kinds::REPLICATION_CONTROLLERS => workload::replication_controller(new, errors),
        kinds::DAEMON_SETS => workload::daemon_set(new, errors),
        kinds::STATEFUL_SETS => workload::stateful_set(new, errors),
        kinds::JOBS => job::job(new, errors),
        kinds::CRON_JOBS => job::cron_job(new, errors),
        kinds::SERVICES => service::check(new, errors),
        kinds::NODES => node::check(new, errors),
        kinds::CONFIG_MAPS => config::config_map(new, errors),
        kinds::SECRETS => config::secret(new, errors),
        kinds::RESOURCE_QUOTAS => config::quota(new, errors),
        kinds::LIMIT_RANGES => config::limit_range(new, errors),
        kinds::PRIORITY_CLASSES => config::priority_class(new, errors),
        kinds::POD_DISRUPTION_BUDGETS => config::disruption_budget(new, errors),
        kinds::HORIZONTAL_POD_AUTOSCALERS => config::autoscaler(new, errors),
        kinds::ROLES => config::role(new, true, errors),
        kinds::CLUSTER_ROLES => config::role(new, false, errors),
        kinds::ROLE_BINDINGS => config::role_binding(new, true, errors),
        kinds::CLUSTER_ROLE_BINDINGS => config::role_binding(new, false, errors),
        kinds::PERSISTENT_VOLUME_CLAIMS => config::claim(new, errors),
        kinds::CUSTOM_RESOURCE_DEFINITIONS => config::definition(new, errors),
        _ => {}
    }
    let Some(old) = old else { return };
    match resource {
        kinds::DEPLOYMENTS | kinds::REPLICA_SETS | kinds::DAEMON_SETS => workload::same_selector(old, new, errors),
        kinds::STATEFUL_SETS => workload::stateful_set_update(old, new, errors),
        kinds::JOBS => job::update(old, new, errors),
        kinds::SERVICES => service::update(old, new, errors),
        kinds::CONFIG_MAPS | kinds::SECRETS => config::frozen(resource, old, new, errors),
        kinds::PRIORITY_CLASSES => config::priority_class_update(old, new, errors),
        kinds::RESOURCE_QUOTAS => config::quota_update(old, new, errors),
        kinds::ROLE_BINDINGS | kinds::CLUSTER_ROLE_BINDINGS => config::role_binding_update(old, new, errors),
        kinds::PERSISTENT_VOLUME_CLAIMS => config::claim_update(old, new, errors),
        kinds::STORAGE_CLASSES => config::storage_class_update(old, new, errors),
        _ => {}
    }
}

/// Whether a text can be the name of a namespace.
pub(crate) fn is_namespace_name(text: &str) -> bool {
    names::label(text).is_empty()
}

/// Whether a text can be the name of most objects.
pub(crate) fn is_object_name(text: &str) -> bool {
    names::subdomain(text).is_empty()
}
