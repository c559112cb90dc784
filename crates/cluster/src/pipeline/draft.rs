//! A version of an object on its way into the cluster.

use std::sync::Arc;

use klab_api_machinery::defaults::Addresses;
use klab_api_machinery::managed_fields::ManagedFields;
use klab_api_machinery::object::Object;
use klab_api_machinery::part::Part;
use klab_api_machinery::resource::ResourceId;
use klab_api_machinery::validation::Errors;
use serde_json::Value;

use klab_fields::Managed;

/// A version of an object on its way into the cluster: what the stages of a write change and look at.
pub(crate) struct Draft<'a> {
    /// The kind that is written.
    pub(crate) resource: ResourceId,
    /// The version of the kind in which the object is stored.
    pub(crate) stored_as: ResourceId,
    pub(crate) part: Part,
    pub(crate) namespace: &'a str,
    pub(crate) name: String,
    /// Whether the API server chose the name.
    pub(crate) is_name_generated: bool,
    /// The version that it replaces, and that version's JSON.
    pub(crate) replaced: Option<(&'a Arc<Object>, &'a Value)>,
    pub(crate) new: Value,
    /// Of a resize, the new version before what it may not change is put back.
    pub(crate) asked: Option<Value>,
    /// The managers of its fields where server-side apply has determined them.
    pub(crate) applied: Option<Managed>,
    /// Whether it comes from server-side apply.
    pub(crate) is_applied: bool,
    /// The managers of its fields.
    pub(crate) managed: Option<ManagedFields>,
    /// The version that it replaces, as webhooks and policies see it, where they are asked.
    pub(crate) shown: Option<Value>,
    /// What is wrong with it.
    pub(crate) errors: Errors,
    /// Of a new Service, the addresses in use once it is stored.
    pub(crate) addresses: Option<Addresses>,
    /// The object, where a stage finds that nothing is left to store.
    pub(crate) settled: Option<Arc<Object>>,
}

impl<'a> Draft<'a> {
    /// A new object. `applied` are the managers of its fields if it comes from server-side apply.
    pub(crate) fn new(resource: ResourceId, namespace: &'a str, new: Value, applied: Option<Managed>) -> Self {
        Self {
            resource,
            stored_as: resource,
            part: Part::Main,
            namespace,
            name: String::new(),
            is_name_generated: false,
            replaced: None,
            new,
            asked: None,
            is_applied: applied.is_some(),
            applied,
            managed: None,
            shown: None,
            errors: Errors::default(),
            addresses: None,
            settled: None,
        }
    }

    /// The next version of an object, whose JSON is `old`.
    pub(crate) fn over(
        current: &'a Arc<Object>,
        part: Part,
        old: &'a Value,
        new: Value,
        applied: Option<Managed>,
    ) -> Self {
        let name = current.name.to_string();
        Self {
            part,
            name,
            replaced: Some((current, old)),
            ..Self::new(current.resource, &current.namespace, new, applied)
        }
    }

    /// Whether it replaces no version.
    pub(crate) fn is_new(&self) -> bool {
        self.replaced.is_none()
    }

    /// The version that it replaces.
    pub(crate) fn old(&self) -> Option<&'a Value> {
        self.replaced.map(|(_, old)| old)
    }

    /// Whether it differs from what it replaces.
    pub(crate) fn is_changed(&self) -> bool {
        self.old().is_none_or(|old| *old != self.new)
    }
}
