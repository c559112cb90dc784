//! The HTTP face of an embedded cluster, the same in process (under `kube::Client`) and on a socket.
//!
//! ```text
//! request ─ path, query, negotiate ─▶ read | watch | write | subresource | … ─▶ Cluster ─▶ answer, present ─▶ response
//! ```

mod access;
pub(crate) mod add_objects;
mod answer;
mod call;
mod channels;
#[cfg(feature = "client")]
pub(crate) mod client;
mod custom;
mod discovery;
mod exec;
mod executed;
mod fairness;
mod handshake;
mod health;
mod impersonation;
mod issuer;
mod leases;
mod log_socket;
mod logs;
mod metrics;
mod negotiate;
mod pages;
mod path;
mod present;
mod pretty;
mod prometheus;
mod proxy;
mod query;
mod read;
mod request_cost;
mod request_info;
mod review;
mod streams;
mod subprotocol;
mod subresource;
mod table;
mod terminal;
pub(crate) mod token;
mod unstored;
mod upgrade;
mod usage;
pub(crate) mod versions;
mod watch;
mod write;

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use klab_api_machinery::registry;
use klab_api_machinery::resource;
use klab_api_machinery::status::Status;

pub use self::answer::status as status_response;
pub use self::health::VERSION_ANNOTATION;
pub use self::request_info::changes;
pub use self::token::user_of;
pub use self::upgrade::{Stream, Upgrade};
pub use self::usage::Metrics;
pub use super::body::{Body, keeping};

use self::answer::{method_not_allowed, no_such_resource, page_not_found};
use self::call::{Call, Shared, Target};
use self::path::{Path, ResourcePath};
use self::query::Query;
#[cfg(feature = "client")]
pub(crate) use self::request_info::RequestInfo;
use super::cluster::{Cluster, group_versions, resource_at};
pub use super::dynamic_admission::PendingWebhooks;
pub use super::rbac::User;

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
        Self {
            shared: Arc::new_cyclic(|itself| Shared {
                itself: std::sync::Weak::clone(itself),
                cluster,
                metrics: RwLock::new(Metrics::Absent),
                address,
                executed: executed::Executed::default(),
            }),
        }
    }

    /// What `kubectl top` shows from now on.
    pub fn set_metrics(&self, metrics: Metrics) {
        *self.shared.metrics.write().unwrap_or_else(PoisonError::into_inner) = metrics;
    }

    /// The cluster behind this API.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.shared.cluster
    }

    /// Whether the caller holds the only handle to it, and at most `most` handles to its cluster exist, its own among them.
    pub fn is_held_by(&self, most: usize) -> bool {
        Arc::strong_count(&self.shared) == 1 && Arc::strong_count(&self.shared.cluster) <= most
    }

    /// Answers one request. The user is taken from the request's extensions, where the server that authenticated it
    /// puts a [`User`]; in process, where there is no other, it is the administrator.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = match receive(request).await {
            Ok(arrived) => arrived,
            Err(status) => return answer::status(&status),
        };
        let pending_webhooks = PendingWebhooks::default();
        loop {
            let response = self.respond(&parts, body.clone(), &pending_webhooks);
            if !self.resolve_webhooks(&pending_webhooks).await {
                return response;
            }
        }
    }

    /// Answers a request whose body has arrived. The answer is none while the request has to wait for webhooks: see
    /// [`Api::resolve_webhooks`].
    pub fn respond(&self, parts: &Parts, body: Bytes, pending_webhooks: &PendingWebhooks) -> Response<Body> {
        self.shared.answer(parts, body, pending_webhooks)
    }

    /// Asks the webhooks that a request has to wait for. Says whether there were any: then the request is to be answered
    /// again.
    pub async fn resolve_webhooks(&self, pending_webhooks: &PendingWebhooks) -> bool {
        self.cluster().resolve_webhooks(pending_webhooks).await
    }

    /// Whether a request may take more than a few milliseconds.
    pub fn is_long(&self, parts: &Parts, body: &Bytes) -> bool {
        self.shared.is_long(parts, body)
    }
}

/// The path before those of the API, where a request came by a server that has several: documents that name paths of the server
/// name it, as older clients (kubectl before 1.28) put nothing before them.
#[derive(Debug, Clone)]
pub struct PathBefore(pub String);

/// A request whose body has arrived; the answer 413 where the body is larger than an API server takes.
///
/// # Errors
/// When the body is too large or does not arrive.
pub async fn receive<B>(request: Request<B>) -> Result<(Parts, Bytes), Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    receive_at_most(request, MAX_BODY).await
}

/// [`receive`] of a body of at most `most` bytes.
///
/// # Errors
/// When the body is too large or does not arrive.
pub async fn receive_at_most<B>(request: Request<B>, most: usize) -> Result<(Parts, Bytes), Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let most = most.min(MAX_BODY);
    match Limited::new(body, most).collect().await {
        Ok(body) => Ok((parts, body.to_bytes())),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {most}")))
        }
        Err(error) => Err(Status::bad_request(format!("the request body could not be read: {error}"))),
    }
}

impl Shared {
    fn answer(&self, parts: &Parts, body: Bytes, pending_webhooks: &PendingWebhooks) -> Response<Body> {
        let query = Query::parse(parts.uri.query());
        let user = parts.extensions.get().cloned().unwrap_or_else(User::admin);
        let mut call = Call { api: self, parts, body, query, user, pending_webhooks, class: None };
        let mut response = call.answer().unwrap_or_else(|status| answer::status(&status));
        if let Some(class) = &call.class {
            class.tell(&mut response);
        }
        let is_document = parts.uri.path().starts_with("/open") || parts.uri.path().starts_with("/.well-known");
        if !is_document && pretty::is_wanted(parts, &call.query) { pretty::printed(response) } else { response }
    }
}

impl Call<'_> {
    fn answer(&mut self) -> Result<Response<Body>, Status> {
        let Some(path) = path::parse(self.parts.uri.path()) else {
            return Err(Status::bad_request("the request path is not valid"));
        };
        self.admit(&path)?;
        self.classify(&path);
        if !self.query.flag("watch") {
            self.query.check_timeout()?;
        }
        if let Path::Resource(path) = path {
            return self.resource(path);
        }
        if !matches!(self.parts.method, Method::GET | Method::HEAD) {
            return Err(method_not_allowed());
        }
        match path {
            Path::Root => Ok(self.root()),
            Path::Version => Ok(health::version(self.cluster())),
            Path::Health(check, Some(one)) if (&*check, &*one) == ("readyz", health::SETTLED) => {
                Ok(health::settled(self.cluster()))
            }
            Path::Health(check, one) => {
                let faults = self.cluster().control_faults();
                Ok(health::check(&check, one.as_deref(), self.query.flag("verbose"), &faults))
            }
            Path::Metrics => Ok(prometheus::metrics(self.cluster())),
            Path::ServiceLevels => Ok(prometheus::slis(self.cluster())),
            Path::CoreVersions => self.core_versions(),
            Path::Groups => self.groups(),
            Path::Group(group) => Ok(self.group(&group)),
            Path::Resources(group, version) => Ok(self.resources(&group, &version)),
            Path::OpenApi2 => Ok(super::openapi::version2(self.cluster(), &self.parts.headers)),
            Path::OpenApi3(None) => Ok(super::openapi::index(self.cluster(), &self.parts.headers, self.path_before())),
            Path::OpenApi3(Some(group_version)) => Ok(super::openapi::document(
                self.cluster(),
                &group_version,
                self.query.get("hash"),
                &self.parts.headers,
            )
            .unwrap_or_else(page_not_found)),
            Path::Issuer => Ok(issuer::configuration(&self.api.address, self.path_before())),
            Path::Keys => Ok(self.keys()),
            Path::Resource(_) | Path::Unknown => Ok(page_not_found()),
        }
    }

    fn path_before(&self) -> &str {
        self.parts.extensions.get::<PathBefore>().map_or("", |before| &*before.0)
    }

    /// A path below `/api/v1` or `/apis/<group>/<version>`.
    fn resource(&self, path: ResourcePath) -> Result<Response<Body>, Status> {
        if path.group == metrics::GROUP {
            return self.metrics(&path);
        }
        let Some(resource) = resource_at(self.cluster(), &path.group, &path.version, &path.plural) else {
            if group_versions(self.cluster()).contains(&(&*path.group, &*path.version)) {
                return Err(no_such_resource());
            }
            return Ok(page_not_found());
        };
        let row = resource.row();
        if path.namespace.is_some() && !row.namespaced {
            return Err(no_such_resource());
        }
        // Who asks by the old form of a watch may watch, and no more.
        if path.watch && path.subresource.is_some() {
            return Err(no_such_resource());
        }
        if path.watch && self.parts.method != Method::GET {
            return Err(method_not_allowed());
        }
        let custom = row.custom && self.cluster().definition(resource).is_some();
        let target = Target { resource, custom, namespace: path.namespace, name: path.name };
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
        let answered = match (&self.parts.method, target.name.is_some()) {
            (&Method::GET, _) if watched => self.watch(&target),
            (&Method::GET | &Method::HEAD, true) => self.get(&target),
            (&Method::GET | &Method::HEAD, false) => self.list(&target),
            (&Method::POST, false) => self.create(&target),
            (&Method::PUT, true) => self.update(&target),
            (&Method::PATCH, true) => self.patch(&target),
            (&Method::DELETE, true) => self.delete(&target),
            (&Method::DELETE, false) if row.verbs.contains(&"deletecollection") => self.delete_collection(&target),
            _ => Err(method_not_allowed()),
        };
        // A request for a deprecated kind gets a warning, whatever its outcome.
        match (answered, registry::of(resource).warning) {
            (Err(status), Some(warning)) => {
                let mut response = answer::status(&status);
                answer::warn(&mut response, warning);
                Ok(response)
            }
            (answered, _) => answered,
        }
    }
}
