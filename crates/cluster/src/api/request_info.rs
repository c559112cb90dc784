//! What a request for objects asks for, as far as its path and query tell.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go NewRequestInfo (v1.36)

use http::Method;
#[cfg(feature = "client")]
use http::request::Parts;
use klab_api_machinery::resource::ResourceId;

#[cfg(feature = "client")]
use super::super::cluster::{Cluster, resource_at};
use super::path::ResourcePath;
use super::path::{self, Path};
use super::query::Query;
use klab_api_machinery::selector::exact_name;

/// What reaches into a container, whatever the method.
const STREAMS: [&str; 3] = ["exec", "attach", "portforward"];

/// Whether a request may change anything. What reaches into a container or passes through a proxy may, whatever its method; reviews
/// only ask. A verb or a path that is not served counts as a change.
pub fn changes(method: &Method, path: &str) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let Some(Path::Resource(path)) = path::parse(path) else { return !reads };
    let part = path.subresource.as_deref().unwrap_or_default();
    let is_review = || {
        let kind = ResourceId::by_path(&path.group, &path.version, &path.plural);
        kind.is_some_and(|kind| REVIEW_GROUPS.contains(&kind.row().group) && !kind.row().is_stored())
    };
    if STREAMS.contains(&part) || part == "proxy" {
        return true;
    }
    let verb = verb_and_name(method, &path, &Query::parse(None)).0;
    !(reads && matches!(verb, "get" | "list" | "watch") || verb == "create" && path.name.is_none() && is_review())
}

/// The groups whose objects are questions to the API server.
const REVIEW_GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// The verb of a request, and the name of the one object that it is about; empty where it is about many.
pub(super) fn verb_and_name(method: &Method, path: &ResourcePath, query: &Query) -> (&'static str, String) {
    let name = path.name.clone().unwrap_or_default();
    let one = !name.is_empty();
    let verb = match *method {
        _ if path.watch => "watch",
        // A WebSocket begins with GET, whatever it is for.
        // upstream: AuthorizePodWebsocketUpgradeCreatePermission (v1.35)
        Method::GET if path.subresource.as_deref().is_some_and(|part| STREAMS.contains(&part)) => "create",
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
        let resource = resource_at(cluster, &path.group, &path.version, &path.plural)?;
        let (verb, name) = verb_and_name(&parts.method, &path, &Query::parse(parts.uri.query()));
        let namespace = namespace(&path).to_owned();
        Some(Self { verb, resource, subresource: path.subresource.unwrap_or_default(), namespace, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_api_machinery::resource::served;

    const METHODS: [Method; 9] = [
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::CONNECT,
        Method::TRACE,
    ];

    /// All paths of a kind: its list, an object, each subresource, with and without what follows, and the old form of watches.
    fn paths(row: &klab_api_machinery::resource::Resource) -> Vec<(String, &'static str)> {
        let version = row.api_version();
        let root = if row.group.is_empty() { format!("/api/{version}") } else { format!("/apis/{version}") };
        let mut all = Vec::new();
        for before in [root.clone(), format!("{root}/watch")] {
            let place = if row.namespaced { format!("{before}/namespaces/x") } else { before };
            let list = format!("{place}/{}", row.plural);
            all.push((list.clone(), ""));
            all.push((format!("{list}/one"), ""));
            for part in row.subresources {
                all.push((format!("{list}/one/{}", part.name), part.name));
                all.push((format!("{list}/one/{}/what/follows", part.name), part.name));
                // Segments are compared as they are decoded.
                let first = part.name.as_bytes()[0];
                all.push((format!("{list}/one/%{first:02x}{}", &part.name[1..]), part.name));
            }
        }
        all
    }

    #[test]
    fn every_verb_of_every_part_of_every_kind_is_known_to_read_or_to_change() {
        let (mut reading, mut changing, mut parts) = (0, 0, std::collections::BTreeSet::new());
        for row in served() {
            let is_review = REVIEW_GROUPS.contains(&row.group);
            for (path, part) in paths(row) {
                parts.insert(part);
                for method in &METHODS {
                    let reaches_in = matches!(part, "exec" | "attach" | "portforward" | "proxy");
                    let asks = *method == Method::POST
                        && is_review
                        && !path.contains("/watch/")
                        && path.ends_with(row.plural)
                        && part.is_empty();
                    let reads = matches!(*method, Method::GET | Method::HEAD) && !reaches_in || asks;
                    assert_eq!(changes(method, &path), !reads, "{method} {path}");
                    if reads { reading += 1 } else { changing += 1 }
                }
            }
        }
        assert!(reading > 500 && changing > 2000, "{reading} {changing}");
        let known =
            ["exec", "attach", "portforward", "proxy", "log", "eviction", "binding", "token", "approval", "resize"];
        assert!(known.iter().all(|part| parts.contains(part)), "{parts:?}");
    }

    #[test]
    fn a_kind_that_somebody_defines_in_a_group_of_reviews_is_no_review() {
        for (path, asks) in [
            ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true),
            ("/apis/authorization.k8s.io/v1/namespaces/x/localsubjectaccessreviews", true),
            ("/apis/authentication.k8s.io/v1/tokenreviews", true),
            ("/apis/authorization.k8s.io/v1/namespaces/x/widgets", false),
            ("/apis/authentication.k8s.io/v9/tokenreviews", false),
            ("/api/v1/namespaces/x/serviceaccounts/default/token", false),
        ] {
            assert_eq!(!changes(&Method::POST, path), asks, "{path}");
            assert!(changes(&Method::DELETE, path), "{path}");
        }
        for path in
            ["/", "/version", "/healthz", "/openapi/v2", "/api", "/apis/apps/v1", "/no/such", "/api/v1/pods/%ff"]
        {
            assert!(!changes(&Method::GET, path) && changes(&Method::POST, path), "{path}");
        }
    }
}
