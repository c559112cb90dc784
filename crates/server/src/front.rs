//! What a public server asks and answers beside its clusters: pages, joining, who may do what now.

use std::net::SocketAddr;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use klab_api_machinery::status::Status;

use super::credentials::Digest;

/// What goes wrong with a body under way.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BodyError(pub String);

/// The body of an answer of a front.
pub type FrontBody = UnsyncBoxBody<Bytes, BodyError>;

/// Who asks something of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A client with the cluster's own credentials.
    Owner,
    /// A client with a token that the front knows.
    Guest,
}

/// What stands before the clusters of a public server.
pub trait Front: Send + Sync + 'static {
    /// Answers a request that is for no cluster, which came from the machine at `from`.
    fn answer(&self, request: Request<Incoming>, from: SocketAddr) -> BoxFuture<'static, Response<FrontBody>>;

    /// Whether a token that is not the cluster's own opens it, too.
    fn admits(&self, _cluster: &str, _token: &Digest) -> bool {
        false
    }

    /// Why a request for a cluster is not answered now; none where it is. Its body has not arrived.
    fn refusal(&self, _cluster: &str, _asker: Asker, _request: &Parts) -> Option<Status> {
        None
    }
}
