//! What a request path names.

use percent_encoding::percent_decode_str;

/// A path below `/api/v1` or `/apis/<group>/<version>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResourcePath {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: Option<String>,
    pub(super) plural: String,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
    /// What follows `proxy`.
    pub(super) rest: String,
    /// The old form of a watch: `/api/v1/watch/pods`.
    pub(super) watch: bool,
}

/// A path, sorted by what answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Path {
    /// `/`
    Root,
    /// `/version`
    Version,
    /// `/healthz`, `/livez`, `/readyz`, with the single check that follows.
    Health(String, Option<String>),
    /// `/metrics`
    Metrics,
    /// `/metrics/slis`
    ServiceLevels,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`
    Resources(String, String),
    /// `/openapi/v2`
    OpenApi2,
    /// `/openapi/v3`, with the group and version that follow.
    OpenApi3(Option<String>),
    /// `/.well-known/openid-configuration`
    Issuer,
    /// `/openid/v1/jwks`
    Keys,
    /// Objects.
    Resource(ResourcePath),
    /// Anything else.
    Unknown,
}

/// Sorts a path; `None` when it cannot be decoded.
pub(super) fn parse(path: &str) -> Option<Path> {
    let mut segments = Vec::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        segments.push(percent_decode_str(segment).decode_utf8().ok()?.into_owned());
    }
    let texts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let owned = |text: &str| text.to_owned();
    Some(match texts.as_slice() {
        [] => Path::Root,
        ["version"] => Path::Version,
        ["metrics"] => Path::Metrics,
        ["metrics", "slis"] => Path::ServiceLevels,
        [check @ ("healthz" | "livez" | "readyz")] => Path::Health(owned(check), None),
        [check @ ("healthz" | "livez" | "readyz"), one @ ..] => Path::Health(owned(check), Some(one.join("/"))),
        ["api"] => Path::CoreVersions,
        ["apis"] => Path::Groups,
        ["openapi", "v2"] => Path::OpenApi2,
        ["openapi", "v3"] => Path::OpenApi3(None),
        ["openapi", "v3", rest @ ..] => Path::OpenApi3(Some(rest.join("/"))),
        [".well-known", "openid-configuration"] => Path::Issuer,
        ["openid", "v1", "jwks"] => Path::Keys,
        ["api", version] => Path::Resources(String::new(), owned(version)),
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group] => Path::Group(owned(group)),
        ["apis", group, version] => Path::Resources(owned(group), owned(version)),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Path::Unknown,
    })
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Path {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        // The namespace itself and its own subresources.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        rest => (None, rest),
    };
    let at = |index: usize| rest.get(index).map(|text| (*text).to_owned());
    Path::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace,
        plural: at(0).unwrap_or_default(),
        name: at(1),
        subresource: at(2),
        rest: rest.get(3..).unwrap_or_default().join("/"),
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(path: &str) -> ResourcePath {
        match parse(path) {
            Some(Path::Resource(found)) => found,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn object_paths() {
        let pod = object("/api/v1/namespaces/default/pods/web/log");
        assert_eq!((pod.namespace.as_deref(), pod.plural.as_str()), (Some("default"), "pods"));
        assert_eq!((pod.name.as_deref(), pod.subresource.as_deref()), (Some("web"), Some("log")));

        let namespace = object("/api/v1/namespaces/default/finalize");
        assert_eq!((namespace.namespace, namespace.plural.as_str()), (None, "namespaces"));
        assert_eq!(namespace.subresource.as_deref(), Some("finalize"));

        let node = object("/api/v1/nodes/a%2Fb/proxy/stats/summary");
        assert_eq!((node.name.as_deref(), node.rest.as_str()), (Some("a/b"), "stats/summary"));

        assert!(object("/apis/apps/v1/watch/namespaces/x/deployments").watch);
        assert_eq!(object("/apis/apps/v1/deployments").name, None);
    }

    #[test]
    fn other_paths() {
        assert_eq!(parse("/"), Some(Path::Root));
        assert_eq!(parse("/readyz/ping"), Some(Path::Health("readyz".into(), Some("ping".into()))));
        assert_eq!(parse("/openapi/v3/apis/apps/v1"), Some(Path::OpenApi3(Some("apis/apps/v1".into()))));
        assert_eq!(parse("/metrics/nosuch"), Some(Path::Unknown));
        assert_eq!(parse("/api/v1/pods/%ff"), None);
    }
}
