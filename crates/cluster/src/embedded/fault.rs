//! Injected faults: refusals that the next matching requests get instead of an answer, so that tests see clients cope.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use klab_api_machinery::resource::Resource;
use klab_api_machinery::status::Status;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api::{Body, RequestInfo, status_response};
use crate::cluster;

/// What a request does, as in the rules of a Role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many objects.
    List,
    /// Follows changes.
    Watch,
    /// Makes an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes parts of an object; server-side apply is a patch, too.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes many objects.
    DeleteCollection,
}

impl Verb {
    /// As roles have it: `deletecollection`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A refusal, and the requests that get it: the next one for objects, if nothing else is said.
///
/// The request has no effect. Requests for kinds that the cluster does not serve are answered as ever.
#[derive(Debug, Clone)]
pub struct Fault {
    refusal: Refusal,
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    times: usize,
}

#[derive(Debug, Clone)]
enum Refusal {
    /// Says which object it is about.
    Conflict,
    /// Says which kind of request it is about.
    Expired,
    Status(Status),
}

impl Fault {
    fn of(refusal: Refusal) -> Self {
        Self { refusal, verb: None, resource: None, namespace: None, name: None, times: 1 }
    }

    /// 409: somebody else was faster. `AlreadyExists` where an object is to be made, else `Conflict`.
    pub fn conflict() -> Self {
        Self::of(Refusal::Conflict)
    }

    /// 410 `Expired`: the resourceVersion of a list or watch is too old. A watch begins and then ends with an event that
    /// says so, as a real API server's does.
    pub fn expired() -> Self {
        Self::of(Refusal::Expired)
    }

    /// 429: the server has too much to do, and asks to be left alone for a second.
    pub fn too_many_requests() -> Self {
        let message = "the server has received too many requests and has asked us to try again later";
        let details = json!({ "retryAfterSeconds": 1 });
        Self::status(Status { details, ..Status::new(429, "TooManyRequests", message) })
    }

    /// 500.
    pub fn internal_error() -> Self {
        let details = json!({ "causes": [{ "message": "injected fault" }] });
        Self::status(Status { details, ..Status::new(500, "InternalError", "Internal error occurred: injected fault") })
    }

    /// Any other refusal.
    pub fn status(status: Status) -> Self {
        Self::of(Refusal::Status(status))
    }

    /// Only requests that do this.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only requests for this resource, named as in the rules of a Role: `deployments`, `deployments/status`. A group
    /// may follow the plural: `deployments.apps`.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Only requests within this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only requests for the object of this name; a request that makes an object names it in its body.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// This number of requests.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, request: &RequestInfo) -> bool {
        let is = |wanted: &Option<String>, have: &str| wanted.as_deref().is_none_or(|wanted| wanted == have);
        self.verb.is_none_or(|verb| verb.as_str() == request.verb)
            && self.resource.as_deref().is_none_or(|wanted| is_resource(wanted, request))
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
    }

    fn response(&self, request: &RequestInfo) -> Response<Body> {
        let status = match &self.refusal {
            Refusal::Conflict => conflict(request.resource.row(), request),
            Refusal::Expired => expired(request),
            Refusal::Status(status) => status.clone(),
        };
        if request.verb == "watch" && status.code == 410 {
            return Response::new(Body::whole(format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status.to_value())));
        }
        status_response(&status)
    }
}

fn is_resource(wanted: &str, request: &RequestInfo) -> bool {
    let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
    let row = request.resource.row();
    (resource == row.plural || resource == row.qualified()) && subresource == request.subresource
}

fn conflict(row: &Resource, request: &RequestInfo) -> Status {
    if request.verb == "create" && request.subresource.is_empty() {
        Status::already_exists(row, &request.name)
    } else {
        Status::conflict(row, &request.name)
    }
}

fn expired(request: &RequestInfo) -> Status {
    let what = if request.verb == "watch" { "watch" } else { "list" };
    Status::new(410, "Expired", format!("The resourceVersion for the provided {what} is too old."))
}

/// A fault that was injected.
#[derive(Debug, Clone)]
pub struct Injected(Arc<Armed>);

#[derive(Debug)]
struct Armed {
    fault: Fault,
    left: watch::Sender<usize>,
}

impl Injected {
    /// How many requests are still to get it.
    pub fn left(&self) -> usize {
        *self.0.left.borrow()
    }

    /// Returns when all its requests have come.
    pub async fn used_up(&self) {
        // An error means that the sender is gone, which this reference keeps.
        let _ = self.0.left.subscribe().wait_for(|left| *left == 0).await;
    }
}

/// The faults of a cluster that wait for requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Vec<Arc<Armed>>>);

impl Faults {
    /// Has a fault wait for its requests.
    pub(super) fn arm(&self, fault: Fault) -> Injected {
        let armed = Arc::new(Armed { left: watch::Sender::new(fault.times), fault });
        if armed.fault.times > 0 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&armed));
        }
        Injected(armed)
    }

    /// The answer to a request for which there is a fault.
    pub(super) fn answer(&self, cluster: &cluster::Cluster, parts: &Parts, body: &Bytes) -> Option<Response<Body>> {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.is_empty() {
            return None;
        }
        let mut request = RequestInfo::read(cluster, parts)?;
        if request.verb == "create" && request.name.is_empty() {
            request.name = name_in(body);
        }
        let at = faults.iter().position(|armed| armed.fault.matches(&request))?;
        let armed = Arc::clone(&faults[at]);
        let mut left = 0;
        armed.left.send_modify(|count| {
            *count = count.saturating_sub(1);
            left = *count;
        });
        if left == 0 {
            faults.remove(at);
        }
        Some(armed.fault.response(&request))
    }
}

/// The name of the object that a body holds.
fn name_in(body: &Bytes) -> String {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
    use kube::{Api, Error};

    use super::*;
    use crate::Cluster;

    fn config_map(name: &str) -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
    }

    fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, String, String) {
        let Error::Api(status) = answer.unwrap_err() else { panic!("not refused") };
        (status.code, status.reason.clone(), status.message.clone())
    }

    fn clients() -> (Cluster, Api<ConfigMap>) {
        let cluster = Cluster::builder().build().unwrap();
        let maps = Api::default_namespaced(cluster.client());
        (cluster, maps)
    }

    #[tokio::test]
    async fn so_many_requests_that_match_are_refused_and_have_no_effect() {
        let (cluster, maps) = clients();
        let new = PostParams::default();
        let fault = Fault::internal_error().verb(Verb::Create).resource("configmaps").name("a").times(2);
        let injected = cluster.inject(fault);
        maps.create(&new, &config_map("b")).await.unwrap();
        for left in [1, 0] {
            let (code, reason, _) = refusal(maps.create(&new, &config_map("a")).await);
            assert_eq!((code, reason.as_str(), injected.left()), (500, "InternalError", left));
        }
        injected.used_up().await;
        assert!(maps.get_opt("a").await.unwrap().is_none());
        maps.create(&new, &config_map("a")).await.unwrap();
    }

    #[tokio::test]
    async fn a_conflict_names_the_object() {
        let (cluster, maps) = clients();
        cluster.inject(Fault::conflict().times(2));
        let (code, reason, message) = refusal(maps.create(&PostParams::default(), &config_map("a")).await);
        assert_eq!(
            (code, reason.as_str(), message.as_str()),
            (409, "AlreadyExists", "configmaps \"a\" already exists")
        );
        let (code, reason, message) = refusal(maps.replace("a", &PostParams::default(), &config_map("a")).await);
        assert_eq!((code, reason.as_str()), (409, "Conflict"));
        assert!(
            message.starts_with("Operation cannot be fulfilled on configmaps \"a\": the object has been modified;")
        );
    }

    #[tokio::test]
    async fn subresources_groups_and_namespaces_are_told_apart() {
        let (cluster, _) = clients();
        let status = cluster.inject(Fault::too_many_requests().resource("deployments.apps/status"));
        let elsewhere = cluster.inject(Fault::too_many_requests().resource("deployments").namespace("elsewhere"));
        let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
        let patch = Patch::Merge(json!({ "status": { "replicas": 1 } }));
        assert_eq!(refusal(deployments.patch("web", &PatchParams::default(), &patch).await).0, 404);
        let refused = deployments.patch_status("web", &PatchParams::default(), &patch).await;
        let Err(Error::Api(refused)) = refused else { panic!("not refused") };
        assert_eq!((refused.code, refused.details.map(|details| details.retry_after_seconds)), (429, Some(1)));
        assert_eq!((status.left(), elsewhere.left()), (0, 1));
        let there: Api<Deployment> = Api::namespaced(cluster.client(), "elsewhere");
        assert_eq!(refusal(there.list(&ListParams::default()).await).0, 429);
    }

    #[tokio::test]
    async fn a_watch_is_told_in_its_stream_and_a_list_at_once() {
        let (cluster, maps) = clients();
        cluster.inject(Fault::expired().verb(Verb::Watch));
        cluster.inject(Fault::expired().verb(Verb::List));
        assert_eq!(refusal(maps.list(&ListParams::default()).await).1, "Expired");
        let mut events = Box::pin(maps.watch(&WatchParams::default(), "1").await.unwrap());
        let Some(Ok(WatchEvent::Error(status))) = events.next().await else { panic!("no error") };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        assert!(events.next().await.is_none(), "the watch is over");
    }

    #[tokio::test]
    async fn a_fault_for_no_request_is_used_up() {
        let (cluster, maps) = clients();
        let injected = cluster.inject(Fault::conflict().times(0));
        injected.used_up().await;
        maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    }
}
