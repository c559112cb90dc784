//! A request as it is worked on: the API it came to, what it says, who asks, and the objects it is for.

use std::sync::{Arc, RwLock};

use bytes::Bytes;
use http::request::Parts;
use klab_api_machinery::resource::ResourceId;

use super::super::cluster::Cluster;
use super::super::dynamic_admission::PendingWebhooks;
use super::super::rbac::User;
use super::fairness::Class;
use super::query::Query;
use super::usage::Metrics;

/// What the calls of one API share.
pub(super) struct Shared {
    pub(super) cluster: Arc<Cluster>,
    pub(super) metrics: RwLock<Metrics>,
    /// `127.0.0.1:6443`, for the documents that name the server; empty in process.
    pub(super) address: String,
    pub(super) itself: std::sync::Weak<Self>,
    /// Commands that are being executed in containers.
    pub(super) executed: super::executed::Executed,
}

/// A request whose body has arrived.
pub(super) struct Call<'a> {
    pub(super) api: &'a Shared,
    pub(super) parts: &'a Parts,
    pub(super) body: Bytes,
    pub(super) query: Query,
    pub(super) user: User,
    /// What webhooks have said to it.
    pub(super) pending_webhooks: &'a PendingWebhooks,
    /// The flow it belongs to, once it is known who asks.
    pub(super) class: Option<Class>,
}

/// Which objects or which object a call is for.
pub(super) struct Target {
    /// As served; [`Target::stored`] is where the objects are.
    pub(super) resource: ResourceId,
    /// Whether it is a version of a custom resource that its definition has.
    pub(super) custom: bool,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
}

impl Target {
    pub(super) fn stored(&self) -> ResourceId {
        self.resource.row().stored_as.unwrap_or(self.resource)
    }

    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

impl Shared {
    /// A way to tell whether it is still there.
    pub(super) fn itself(&self) -> std::sync::Weak<Self> {
        std::sync::Weak::clone(&self.itself)
    }
}

impl Call<'_> {
    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.api.cluster
    }
}
