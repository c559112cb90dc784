//! OpenAPI documents, with the fields and descriptions of everything that is served, definitions included.
//!
//! kubectl parses them again for every object it applies, so that a document of 1.6 MB costs 35 ms an object. It names
//! its command in a header: to all but `explain` and `get --raw` they are given as small as their needs allow, under
//! another hash.

mod explain;
mod version2;
mod version2_message;

use std::fmt::Write;

use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::Value;

use super::api::{Body, group_versions, resources_of};
use super::cluster::Cluster;
use super::resource::{CUSTOM_RESOURCE_DEFINITIONS, Resource};

/// In the hash of documents with descriptions.
const RICH: &str = "EXPLAIN";
/// The header in which kubectl names its command.
const COMMAND: &str = "kubectl-command";
/// `/openapi/v2` as a message.
const MESSAGE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `/openapi/v2`: as JSON, or as a message; to a kubectl that is not to explain anything, an empty one is enough.
pub(super) fn version2(cluster: &Cluster, headers: &HeaderMap) -> Response<Body> {
    let protobuf = headers
        .get(http::header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("proto-openapi"));
    // Those of before 1.21 do not name their command; they would check what they apply against it, slowly.
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let old = agent.starts_with("kubectl/") && !headers.contains_key(COMMAND);
    if protobuf && (old || !explains(headers)) {
        return respond(MESSAGE, String::new(), None);
    }
    let mut made_of = String::new();
    for (group, version) in group_versions(cluster) {
        made_of.push_str(&identity(cluster, &resources_of(cluster, group, version)));
    }
    let tag = format!("\"{}\"", hash(&made_of));
    unless_known(headers, &tag).unwrap_or_else(|| {
        let document = version2::document(cluster);
        if protobuf {
            respond(MESSAGE, version2_message::encode(&document), Some(&tag))
        } else {
            respond("application/json", document.to_string(), Some(&tag))
        }
    })
}

/// What tells one state of a group and version from another one: its kinds, and how far their definitions are.
fn identity(cluster: &Cluster, resources: &[&Resource]) -> String {
    let mut text = operations(resources);
    for row in resources.iter().filter(|row| row.custom) {
        if let Some(definition) = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified()) {
            let generation = definition.value()["metadata"]["generation"].as_i64().unwrap_or_default();
            let _ = write!(text, "{}{generation}", definition.uid);
        }
    }
    text
}

/// Whether the client has use for fields and descriptions.
fn explains(headers: &HeaderMap) -> bool {
    let command = headers.get(COMMAND).and_then(|command| command.to_str().ok());
    command.is_none_or(|command| ["kubectl explain", "kubectl get"].iter().any(|rich| command.starts_with(rich)))
}

/// `/openapi/v3`; `before` is the path before the server's own, as its clients have it.
// upstream: client-go/openapi Paths, which takes such a prefix away again, and before v0.28 takes paths as they are said.
pub(super) fn index(cluster: &Cluster, headers: &HeaderMap, before: &str) -> Response<Body> {
    let rich = if explains(headers) { RICH } else { "" };
    let mut text = String::from("{\"paths\":{");
    for (at, (group, version)) in group_versions(cluster).into_iter().enumerate() {
        let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let hash = hash(&identity(cluster, &resources_of(cluster, group, version)));
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{comma}\"{path}\":{{\"serverRelativeURL\":\"{before}/openapi/v3/{path}?hash={rich}{hash}\"}}"
        );
    }
    text.push_str("}}");
    let tag = format!("\"{}\"", hash(&text));
    unless_known(headers, &tag).unwrap_or_else(|| respond("text/plain; charset=utf-8", text, Some(&tag)))
}

/// 304 for a client that has the document of this tag.
fn unless_known(headers: &HeaderMap, tag: &str) -> Option<Response<Body>> {
    headers.get(IF_NONE_MATCH).filter(|known| known.as_bytes() == tag.as_bytes())?;
    let mut response = respond("application/json", String::new(), Some(tag));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    Some(response)
}

/// `/openapi/v3/<path>`
pub(super) fn document(
    cluster: &Cluster,
    path: &str,
    wanted: Option<&str>,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => ("", (*version).to_owned()),
        ["apis", group, version] => (*group, (*version).to_owned()),
        _ => return None,
    };
    let resources = resources_of(cluster, group, &version);
    if resources.is_empty() {
        return None;
    }
    let mut text = operations(&resources);
    let rich = match wanted {
        Some(hash) => hash.starts_with(RICH),
        None => explains(headers),
    };
    let tag = format!("\"{}{}\"", if rich { RICH } else { "" }, hash(&identity(cluster, &resources)));
    if let Some(known) = unless_known(headers, &tag) {
        return Some(known);
    }
    let schemas = if rich { explain::schemas(cluster, &resources) } else { Value::Null };
    if schemas.as_object().is_some_and(|schemas| !schemas.is_empty()) {
        text.pop();
        let _ = write!(text, ",\"components\":{{\"schemas\":{schemas}}}}}");
    }
    Some(respond("application/json", text, Some(&tag)))
}

fn respond(kind: &'static str, text: impl Into<Bytes>, tag: Option<&str>) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(tag).ok()) {
        headers.insert(ETAG, tag);
    }
    response
}

fn hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(16).fold(String::new(), |mut hash, byte| {
        let _ = write!(hash, "{byte:02X}");
        hash
    })
}

/// A document with only the operations kubectl looks at: for patches, whether the server validates fields and knows dry
/// runs; for gets, which kind a path has.
fn operations(resources: &[&Resource]) -> String {
    let mut text =
        String::from("{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Kubernetes\",\"version\":\"v1.36.2\"},\"paths\":{");
    for (at, row) in resources.iter().filter(|row| row.is_stored()).enumerate() {
        let prefix = if row.group.is_empty() {
            format!("/api/{}", row.version)
        } else {
            format!("/apis/{}/{}", row.group, row.version)
        };
        let namespace = if row.namespaced { "/namespaces/{namespace}" } else { "" };
        let comma = if at == 0 { "" } else { "," };
        let kind = format!(
            "\"x-kubernetes-group-version-kind\":{{\"group\":\"{}\",\"version\":\"{}\",\"kind\":\"{}\"}}",
            row.group, row.version, row.kind
        );
        let _ = write!(
            text,
            concat!(
                // kubectl 1.27 finds the kind of what it explains at the list of all namespaces, later ones also at one object.
                "{comma}\"{prefix}/{plural}\":{{",
                "\"get\":{{\"x-kubernetes-action\":\"list\",{kind},\"responses\":{{}}}}}},",
                "\"{prefix}{namespace}/{plural}/{{name}}\":{{",
                "\"get\":{{\"x-kubernetes-action\":\"get\",{kind},\"responses\":{{}}}},",
                "\"patch\":{{\"x-kubernetes-action\":\"patch\",{kind},",
                "\"parameters\":[{{\"name\":\"dryRun\",\"in\":\"query\",\"schema\":{{\"type\":\"string\"}}}},",
                "{{\"name\":\"fieldValidation\",\"in\":\"query\",\"schema\":{{\"type\":\"string\"}}}}],",
                "\"responses\":{{}}}}}}"
            ),
            comma = comma,
            prefix = prefix,
            namespace = namespace,
            plural = row.plural,
            kind = kind,
        );
    }
    text.push_str("}}");
    text
}
