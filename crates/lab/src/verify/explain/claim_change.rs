//! What may be changed about claims and who has devices.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;

/// Claims that ask for something else.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClaimChange {
    /// The claims as changed.
    pub(crate) claims: Vec<Arc<ResourceClaim>>,
    /// What is changed, request by request of the first pod's claims.
    pub(crate) requests: Vec<RequestChange>,
}

/// What is changed of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestChange {
    /// `ResourceClaim c`, or the template that the claim is made from.
    pub(crate) object: String,
    pub(crate) request: String,
    pub(crate) wish: Alternative,
}

/// What a request asks for instead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Alternative {
    /// A number of devices in place of another.
    Fewer { from: usize, to: usize },
    /// Devices with these taints, too.
    Tolerate(Vec<String>),
}

/// Devices that are given back.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Release {
    /// Pods that go; nothing makes them again.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Claims that go; no pod uses them.
    pub(crate) claims: Vec<Arc<ResourceClaim>>,
}
