//! A client for a lab on somebody else's cluster: what klab did not make there is neither changed nor removed through it,
//! whichever part of klab asks.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::api::ApiResource;
use kube::client::Body;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use klab_lab::names::{LAB_LABEL, MANAGED_BY_LABEL, MANAGER, PREFIX};

/// How many owners are looked up from a pod: ReplicaSet, Deployment, and what an operator may put above.
const MAX_OWNERS: usize = 4;

/// Whose an object is that is about to be applied.
#[derive(Debug, PartialEq, Eq)]
pub enum Ownership {
    /// No other owner's: there is no object; or it is the lab's, or a namespace that need only be there.
    Free,
    /// Somebody else's.
    Taken,
}

/// Looks whether an object could be applied for a lab.
///
/// # Errors
/// When the cluster does not answer, or refuses to say.
pub async fn place(client: &Client, lab: &str, path: &str, wanted: &Value) -> Result<Ownership, BoxError> {
    let Some(found) = get(client, path).await? else { return Ok(Ownership::Free) };
    let is_namespace = Object::of(path).is_some_and(|object| object.resource == "namespaces");
    let is_free = is_namespace && asks_for_nothing(wanted) || is_of(client, lab, &found).await?;
    Ok(if is_free { Ownership::Free } else { Ownership::Taken })
}

/// Lets reading and making pass, and of changing and removing what concerns objects of the lab.
pub fn guarded(client: Client, lab: &str) -> Client {
    let namespace = client.default_namespace().to_owned();
    let lab = lab.to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, lab) = (client.clone(), lab.clone());
        Box::pin(async move { pass(&client, &lab, request).await }) as BoxFuture<'static, Result<_, BoxError>>
    });
    Client::new(service, namespace)
}

async fn pass(client: &Client, lab: &str, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    if !klab_cluster::api::changes(request.method(), request.uri().path()) {
        return send(client, request).await;
    }
    let Some(object) = Object::of(request.uri().path()) else {
        // Something new is made, or everything is removed.
        return if request.method() == Method::DELETE {
            Ok(refusal("klab removes nothing by the list on a cluster that it did not make"))
        } else {
            send(client, request).await
        };
    };
    let Some(found) = get(client, &object.path).await? else { return send(client, request).await };
    if is_of(client, lab, &found).await? {
        return send(client, request).await;
    }
    let is_namespace = object.resource == "namespaces" && request.method() == Method::PATCH;
    if is_namespace {
        let body = collect(request.into_body()).await?;
        if serde_json::from_slice(&body).is_ok_and(|wanted| asks_for_nothing(&wanted)) {
            // It is there, which is all that objects in it need.
            return Ok(answer(StatusCode::OK, &metadata_of(&found)));
        }
    }
    Ok(refusal(&object.words(lab)))
}

async fn send(client: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    client.send(request).await.map_err(|error| match error {
        kube::Error::Service(inner) => inner,
        kube::Error::HyperError(inner) => inner.into(),
        error => error.into(),
    })
}

async fn collect(body: Body) -> Result<Bytes, BoxError> {
    Ok(http_body_util::BodyExt::collect(body).await?.to_bytes())
}

/// An object as JSON; `None` where there is none.
async fn get(client: &Client, path: &str) -> Result<Option<Value>, BoxError> {
    let request = Request::get(path).body(Body::empty())?;
    let response = send(client, request).await?;
    let status = response.status();
    let body = collect(response.into_body()).await?;
    if status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if status.is_success() {
        return Ok(Some(serde_json::from_slice(&body)?));
    }
    // What stands before a cluster refuses in words of its own, or in a page for browsers.
    let refused: Option<Value> = serde_json::from_slice(&body).ok();
    let words = refused.as_ref().and_then(|refused| refused["message"].as_str());
    let words = words.map_or_else(|| status.to_string(), str::to_owned);
    Err(format!("could not find out whose `{path}` is: {words}").into())
}

/// Whether an object is of the lab, or its controller is.
async fn is_of(client: &Client, lab: &str, object: &Value) -> Result<bool, BoxError> {
    let mut object = object.clone();
    for _ in 0..MAX_OWNERS {
        let labels = &object["metadata"]["labels"];
        if labels[LAB_LABEL] == lab && labels[MANAGED_BY_LABEL] == MANAGER {
            return Ok(true);
        }
        let Some((path, uid)) = controller(&object) else { return Ok(false) };
        match get(client, &path).await? {
            Some(owner) if owner["metadata"]["uid"] == uid => object = owner,
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Where the controller of an object is, and its uid.
fn controller(object: &Value) -> Option<(String, Value)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let (api_version, kind, name) = (owner["apiVersion"].as_str()?, owner["kind"].as_str()?, owner["name"].as_str()?);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)).plural;
    let root = if group.is_empty() { "/api" } else { "/apis" };
    let namespace =
        object["metadata"]["namespace"].as_str().map_or(String::new(), |name| format!("/namespaces/{name}"));
    Some((format!("{root}/{api_version}{namespace}/{plural}/{name}"), owner["uid"].clone()))
}

/// What a request is about.
#[derive(Debug, PartialEq, Eq)]
struct Object {
    /// The path of the object itself, also where the request is about a part of it.
    path: String,
    resource: String,
    namespace: Option<String>,
    name: String,
}

impl Object {
    /// `None` for lists.
    fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (root, rest) = parts.split_at_checked(if parts.first() == Some(&"api") { 2 } else { 3 })?;
        let (namespace, resource, name) = match rest {
            ["namespaces", namespace, resource, name, ..] if !matches!(*resource, "status" | "finalize") => {
                (Some(*namespace), *resource, *name)
            }
            ["namespaces", _, resource] if !matches!(*resource, "status" | "finalize") => return None,
            [resource, name, ..] => (None, *resource, *name),
            _ => return None,
        };
        let place = namespace.map_or(String::new(), |namespace| format!("/namespaces/{namespace}"));
        Some(Self {
            path: format!("/{}{place}/{resource}/{name}", root.join("/")),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// Why it is left as it is.
    fn words(&self, lab: &str) -> String {
        let Self { resource, namespace, name, .. } = self;
        if resource == "nodes" {
            return format!(
                "node `{name}` was not made by klab: klab changes no nodes of a cluster that it did not make"
            );
        }
        let place = namespace.as_ref().map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
        format!(
            "{resource} `{name}`{place} is there, and klab did not make it for lab `{lab}`; it was left as it is (another name, \
             or another namespace, makes one beside it)"
        )
    }
}

/// Whether a namespace that is applied asks for no more than to be there.
fn asks_for_nothing(wanted: &Value) -> bool {
    let is_own =
        |key: &str| key.starts_with(PREFIX) || key == MANAGED_BY_LABEL || key.starts_with("kubectl.kubernetes.io/");
    let metadata = wanted.get("metadata");
    let keys = ["labels", "annotations"].into_iter().filter_map(|field| metadata?.get(field)?.as_object());
    wanted.is_object() && keys.flat_map(|map| map.keys()).all(|key| is_own(key)) && wanted.get("spec").is_none()
}

fn metadata_of(object: &Value) -> Value {
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"] })
}

fn refusal(message: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": message,
    });
    answer(StatusCode::FORBIDDEN, &status)
}

fn answer(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string().into_bytes()));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_the_object_that_a_request_changes() {
        for (path, object) in [
            ("/api/v1/nodes/a", Some("/api/v1/nodes/a")),
            ("/api/v1/nodes/a/status", Some("/api/v1/nodes/a")),
            ("/api/v1/namespaces/x", Some("/api/v1/namespaces/x")),
            ("/api/v1/namespaces/x/finalize", Some("/api/v1/namespaces/x")),
            ("/api/v1/namespaces/x/pods/p/eviction", Some("/api/v1/namespaces/x/pods/p")),
            ("/apis/apps/v1/namespaces/x/deployments/d/scale", Some("/apis/apps/v1/namespaces/x/deployments/d")),
            ("/apis/apps/v1/namespaces/x/deployments", None),
            ("/api/v1/namespaces", None),
            ("/api/v1/namespaces/x/pods", None),
            (
                "/apis/scheduling.k8s.io/v1/priorityclasses/high",
                Some("/apis/scheduling.k8s.io/v1/priorityclasses/high"),
            ),
            ("/version", None),
        ] {
            assert_eq!(Object::of(path).map(|object| object.path), object.map(str::to_owned), "{path}");
        }
    }

    #[test]
    fn an_answer_that_is_no_json_is_told_by_its_status() {
        let gateway = service_fn(|_: Request<Body>| async {
            let mut page = Response::new(Body::from(b"<html>".to_vec()));
            *page.status_mut() = StatusCode::BAD_GATEWAY;
            Ok::<_, BoxError>(page)
        });
        let said = crate::client::runtime().unwrap().block_on(async {
            get(&Client::new(gateway, "default"), "/api/v1/nodes/a").await.unwrap_err().to_string()
        });
        assert_eq!(said, "could not find out whose `/api/v1/nodes/a` is: 502 Bad Gateway");
    }

    #[test]
    fn a_namespace_with_labels_of_its_own_asks_for_more_than_to_be_there() {
        let body = |labels: Value| json!({ "metadata": { "name": "x", "labels": labels } });
        assert!(asks_for_nothing(&body(json!({ "klab.dev/lab": "a", "app.kubernetes.io/managed-by": "klab" }))));
        assert!(!asks_for_nothing(&body(json!({ "team": "a" }))));
        assert!(!asks_for_nothing(&json!("no object")));
    }

    #[test]
    fn controllers_are_found_where_they_are_served() {
        let pod = json!({ "metadata": { "namespace": "x", "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": true }] } });
        assert_eq!(controller(&pod).unwrap().0, "/apis/apps/v1/namespaces/x/replicasets/web-1");
        assert_eq!(controller(&json!({ "metadata": {} })), None);
    }
}
