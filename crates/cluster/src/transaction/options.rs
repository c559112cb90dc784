//! How objects are written and deleted, and what came of it.

use std::sync::Arc;

use klab_api_machinery::object::Object;
use klab_api_machinery::resource::ResourceId;

use super::guard::Guard;
use crate::dynamic_admission::PendingWebhooks;
use crate::rbac::User;

/// Who writes, and how.
#[derive(Debug, Clone)]
pub struct WriteOptions<'a> {
    /// Field manager recorded in `managedFields`: `kubectl-create`, `kube-controller-manager`, …
    pub manager: &'a str,
    /// Do everything but store.
    pub dry_run: bool,
    /// Whether a client writes, which is called what it says; parts of the cluster itself are called after the process
    /// that they are a part of upstream.
    pub client: bool,
    /// What happens to fields the kind does not have.
    pub validation: FieldValidation,
    /// What reading the body found already, in the words for clients: `duplicate field "spec.replicas"`.
    pub problems: &'a [String],
    /// Whether these problems come before those of its fields: of YAML and of patches.
    pub(crate) twice_first: bool,
    /// The version of a custom resource that the request is for, where its objects may be kept under another one.
    pub(crate) served: Option<ResourceId>,
    /// Whom the new object is shown before it is stored, where whether somebody may write depends on it.
    pub(crate) guard: Option<&'a dyn Guard>,
    /// Whom it is for, where that is known.
    pub(crate) user: Option<&'a User>,
    /// What webhooks have said to it; none for writes that no webhook is asked about.
    pub(crate) pending_webhooks: Option<&'a PendingWebhooks>,
}

impl<'a> WriteOptions<'a> {
    /// A real write by `manager`, a part of the cluster itself.
    pub fn by(manager: &'a str) -> Self {
        Self {
            manager,
            dry_run: false,
            client: false,
            validation: FieldValidation::Ignore,
            problems: &[],
            twice_first: false,
            served: None,
            guard: None,
            user: None,
            pending_webhooks: None,
        }
    }

    /// A real write by `manager`, a client.
    pub fn client(manager: &'a str) -> Self {
        Self { client: true, validation: FieldValidation::Warn, ..Self::by(manager) }
    }
}

impl WriteOptions<'_> {
    /// What `managedFields` call the writer; none if it is empty.
    pub(crate) fn called(&self) -> &str {
        if self.client { self.manager } else { process_of(self.manager) }
    }
}

/// The process that a part of the cluster belongs to upstream. Controllers that apply what they write have names of
/// their own.
fn process_of(part: &str) -> &str {
    match part {
        "clusterrole-aggregation-controller" | "cluster-autoscaler" | "kubelet" => part,
        "default-scheduler" => "kube-scheduler",
        "horizontal-pod-autoscaler" | "controllermanager" | "resource_claim" => CONTROLLERS,
        _ if part.ends_with("-controller") => CONTROLLERS,
        _ => part,
    }
}

const CONTROLLERS: &str = "kube-controller-manager";

/// What happens to unknown and duplicate fields (`fieldValidation` of the request).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped and named in warnings: what an API server does when nothing is said.
    #[default]
    Warn,
    /// The write is refused.
    Strict,
}

/// An accepted write.
#[derive(Debug, Clone)]
pub struct Written {
    /// The object as stored (as it would be stored, in a dry run).
    pub object: Arc<Object>,
    /// Whether the write made the object.
    pub created: bool,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// What happens to dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Propagation {
    /// The object goes at once, the garbage collector follows.
    #[default]
    Background,
    /// Dependents first.
    Foreground,
    /// Dependents stay and lose the owner reference.
    Orphan,
}

/// How to delete.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Grace period in seconds; `None` takes the pod's own.
    pub grace_seconds: Option<i64>,
    /// For dependents; `None` takes the kind's default (which is [`Propagation::Orphan`] for Jobs, as upstream).
    pub propagation: Option<Propagation>,
    /// Only if the object still has this uid.
    pub uid: Option<String>,
    /// Only if the object still has this resourceVersion.
    pub resource_version: Option<String>,
    /// Do everything but delete.
    pub dry_run: bool,
}

/// What a delete did.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The object is gone; its last version.
    Gone(Arc<Object>),
    /// The object stays for now (graceful deletion or finalizers), with a deletionTimestamp.
    Terminating(Arc<Object>),
}

impl Deleted {
    /// The object in its last known version.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Gone(object) | Self::Terminating(object) => object,
        }
    }
}
