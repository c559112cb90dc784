//! The HTTP face of an embedded cluster, the same in process (under `kube::Client`) and on a socket.
//!
//! ```text
//! request ─ path, query, negotiate ─▶ read | watch | write | subresource | … ─▶ Cluster ─▶ answer, present ─▶ response
//! ```

mod access;
pub(crate) mod add_objects;
mod answer;
mod body;
pub(crate) mod builtin;
mod call;
#[cfg(feature = "client")]
pub(crate) mod client;
mod custom;
mod custom_schema;
mod discovery;
mod health;
mod impersonation;
mod metrics;
mod negotiate;
mod path;
mod present;
mod query;
mod read;
mod request_info;
mod review;
mod selector;
mod streams;
mod subresource;
mod usage;
pub(crate) mod versions;
mod watch;
#[cfg(feature = "server")]
mod weight;
mod write;

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};

pub use self::answer::status as status_response;
pub use self::body::Body;
pub(crate) use self::custom::{group_versions, resources_of};
pub use self::health::VERSION_ANNOTATION;
pub use self::usage::Metrics;

use self::answer::{method_not_allowed, no_such_resource, page_not_found};
use self::call::{Call, Shared, Target};
use self::path::{Path, ResourcePath};
use self::query::Query;
#[cfg(feature = "client")]
pub(crate) use self::request_info::RequestInfo;
use super::cluster::Cluster;
pub use super::rbac::User;
use super::resource;
use super::status::Status;

/// Largest request body, as in the real API server.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// The API of one embedded cluster.
#[derive(Clone)]
pub struct Api {
    shared: Arc<Shared>,
}

impl Api {
    /// The API of `cluster`, without metrics.k8s.io.
    pub fn new(cluster: Arc<Cluster>) -> Self {
        Self::at(cluster, String::new())
    }

    /// The API of `cluster` behind a server that listens at `address`.
    pub fn at(cluster: Arc<Cluster>, address: String) -> Self {
        Self { shared: Arc::new(Shared { cluster, metrics: RwLock::new(Metrics::Absent), address }) }
    }

    /// What `kubectl top` shows from now on.
    pub fn set_metrics(&self, metrics: Metrics) {
        *self.shared.metrics.write().unwrap_or_else(PoisonError::into_inner) = metrics;
    }

    /// The cluster behind this API.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.shared.cluster
    }

    /// Answers one request. The user is taken from the request's extensions, where the server that authenticated it
    /// puts a [`User`]; in process, where there is nobody else, it is the administrator.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match receive(request).await {
            Ok((parts, body)) => self.respond(&parts, body),
            Err(status) => answer::status(&status),
        }
    }

    /// Answers a request whose body has arrived.
    pub(crate) fn respond(&self, parts: &Parts, body: Bytes) -> Response<Body> {
        self.shared.answer(parts, body)
    }

    /// Whether a request may take more than a few milliseconds.
    #[cfg(feature = "server")]
    pub(crate) fn is_long(&self, parts: &Parts, body: &Bytes) -> bool {
        self.shared.is_long(parts, body)
    }
}

/// A request whose body has arrived.
pub(crate) async fn receive<B>(request: Request<B>) -> Result<(Parts, Bytes), Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok((parts, body.to_bytes())),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {MAX_BODY}")))
        }
        Err(error) => Err(Status::bad_request(format!("the request body could not be read: {error}"))),
    }
}

impl Shared {
    fn answer(&self, parts: &Parts, body: Bytes) -> Response<Body> {
        let query = Query::parse(parts.uri.query());
        let user = parts.extensions.get().cloned().unwrap_or_else(User::admin);
        let mut call = Call { api: self, parts, body, query, user };
        call.answer().unwrap_or_else(|status| answer::status(&status))
    }
}

impl Call<'_> {
    fn answer(&mut self) -> Result<Response<Body>, Status> {
        let Some(path) = path::parse(self.parts.uri.path()) else {
            return Err(Status::bad_request("the request path is not valid"));
        };
        self.admit(&path)?;
        if let Path::Resource(path) = path {
            return self.resource(path);
        }
        if !matches!(self.parts.method, Method::GET | Method::HEAD) {
            return Err(method_not_allowed());
        }
        match path {
            Path::Root => Ok(self.root()),
            Path::Version => Ok(health::version(self.cluster())),
            Path::Health(check, one) => {
                let faults = self.cluster().control_faults();
                Ok(health::check(&check, one.as_deref(), self.query.flag("verbose"), &faults))
            }
            Path::CoreVersions => self.core_versions(),
            Path::Groups => self.groups(),
            Path::Group(group) => Ok(self.group(&group)),
            Path::Resources(group, version) => Ok(self.resources(&group, &version)),
            Path::OpenApi2 => Ok(super::openapi::version2(&self.parts.headers)),
            Path::OpenApi3(None) => Ok(super::openapi::index(self.cluster(), &self.parts.headers)),
            Path::OpenApi3(Some(group_version)) => Ok(super::openapi::document(
                self.cluster(),
                &group_version,
                self.query.get("hash"),
                &self.parts.headers,
            )
            .unwrap_or_else(page_not_found)),
            Path::Resource(_) | Path::Unknown => Ok(page_not_found()),
        }
    }

    /// A path below `/api/v1` or `/apis/<group>/<version>`.
    fn resource(&self, path: ResourcePath) -> Result<Response<Body>, Status> {
        if path.group == metrics::GROUP {
            return self.metrics(&path);
        }
        let Some(resource) = custom::find(self.cluster(), &path.group, &path.version, &path.plural) else {
            if custom::group_versions(self.cluster()).contains(&(&*path.group, &*path.version)) {
                return Err(no_such_resource());
            }
            return Ok(page_not_found());
        };
        let row = resource.row();
        if path.namespace.is_some() && !row.namespaced {
            return Err(no_such_resource());
        }
        let target = Target { resource, namespace: path.namespace, name: path.name };
        if row.namespaced && target.name.is_some() && target.namespace.is_none() {
            return Err(no_such_resource());
        }
        if let Some(subresource) = path.subresource {
            return self.subresource(&target, &subresource, &path.rest);
        }
        if resource == resource::COMPONENT_STATUSES {
            return self.component_statuses(&target);
        }
        if !row.is_stored() {
            return self.review(&target);
        }
        let watched = path.watch || (target.name.is_none() && self.query.flag("watch"));
        match (&self.parts.method, target.name.is_some()) {
            (&Method::GET, _) if watched => self.watch(&target),
            (&Method::GET | &Method::HEAD, true) => self.get(&target),
            (&Method::GET | &Method::HEAD, false) => self.list(&target),
            (&Method::POST, false) => self.create(&target),
            (&Method::PUT, true) => self.update(&target),
            (&Method::PATCH, true) => self.patch(&target),
            (&Method::DELETE, true) => self.delete(&target),
            (&Method::DELETE, false) if row.verbs.contains(&"deletecollection") => self.delete_collection(&target),
            _ => Err(method_not_allowed()),
        }
    }
}
