//! What a request for objects asks for, as far as its path and query tell.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go NewRequestInfo (v1.36)

use http::Method;
#[cfg(feature = "client")]
use http::request::Parts;

#[cfg(feature = "client")]
use super::super::cluster::Cluster;
#[cfg(feature = "client")]
use super::super::resource::ResourceId;
#[cfg(feature = "client")]
use super::custom;
use super::path::ResourcePath;
#[cfg(feature = "client")]
use super::path::{self, Path};
use super::query::Query;
use super::selector::exact_name;

/// The verb of a request, and the name of the one object that it is about; empty where it is about many.
pub(super) fn verb_and_name(method: &Method, path: &ResourcePath, query: &Query) -> (&'static str, String) {
    let name = path.name.clone().unwrap_or_default();
    let one = !name.is_empty();
    let verb = match *method {
        _ if path.watch => "watch",
        // A WebSocket begins with GET, whatever it is for.
        // upstream: AuthorizePodWebsocketUpgradeCreatePermission (v1.35)
        Method::GET if matches!(path.subresource.as_deref(), Some("exec" | "attach" | "portforward")) => "create",
        Method::GET | Method::HEAD if one => "get",
        Method::GET | Method::HEAD => {
            // A list of one object by its name is about that object.
            let name = query.get("fieldSelector").and_then(exact_name).unwrap_or_default();
            return (if query.flag("watch") { "watch" } else { "list" }, name);
        }
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if one => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    };
    (verb, name)
}

/// The namespace of a request; a namespace is in itself, so that a Role there may be about it.
pub(super) fn namespace(path: &ResourcePath) -> &str {
    let of_namespaces = path.namespace.is_none() && path.plural == "namespaces";
    let namespace = if of_namespaces { path.name.as_deref() } else { path.namespace.as_deref() };
    namespace.unwrap_or_default()
}

/// What a request for objects asks for.
#[cfg(feature = "client")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    pub(crate) verb: &'static str,
    pub(crate) resource: ResourceId,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// Empty for all namespaces, and for objects that are in none.
    pub(crate) namespace: String,
    /// Empty for many objects, and for new ones.
    pub(crate) name: String,
}

#[cfg(feature = "client")]
impl RequestInfo {
    /// Reads a request; `None` when it is not for objects that the cluster serves.
    pub(crate) fn read(cluster: &Cluster, parts: &Parts) -> Option<Self> {
        let Path::Resource(path) = path::parse(parts.uri.path())? else { return None };
        let resource = custom::find(cluster, &path.group, &path.version, &path.plural)?;
        let (verb, name) = verb_and_name(&parts.method, &path, &Query::parse(parts.uri.query()));
        let namespace = namespace(&path).to_owned();
        Some(Self { verb, resource, subresource: path.subresource.unwrap_or_default(), namespace, name })
    }
}
