//! OpenAPI documents as clients ask for them: with or without descriptions, compressed, unless they have them.
//!
//! kubectl parses them again for every object it applies, so that a document of 1.6 MB costs 35 ms an object. It names
//! its command in a header: to all but `explain` and `get --raw` they are given as small as their needs allow, under
//! another hash.

mod cache;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, IF_NONE_MATCH, USER_AGENT, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use klab_api_machinery::custom::Listing;
use klab_api_machinery::openapi::{self, OTHERS, root};
use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, Resource};
use serde_json::Value;

use super::body::Body;
use super::cluster::{Cluster, fixed, listings, resources_of};

/// In the hash of documents with descriptions.
const RICH: &str = "EXPLAIN";
/// The header in which kubectl names its command.
const COMMAND: &str = "kubectl-command";
/// `/openapi/v2` as a message.
const MESSAGE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const JSON: &str = "application/json";

/// `/openapi/v2`: as JSON, or as a message; to a kubectl that is not to explain anything, an empty one is enough.
pub(super) fn version2(cluster: &Cluster, headers: &HeaderMap) -> Response<Body> {
    let protobuf = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("proto-openapi"));
    // Those of before 1.21 do not name their command; they would check what they apply against it, slowly.
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let old = agent.starts_with("kubectl/") && !headers.contains_key(COMMAND);
    if protobuf && (old || !explains(headers)) {
        return respond(MESSAGE, String::new(), None);
    }
    let mut made_of = String::new();
    for resources in groups(cluster).values() {
        made_of.push_str(&identity(cluster, resources));
    }
    let hash = hash(&made_of);
    let tag = format!("\"{hash}\"");
    unless_known(headers, &tag).unwrap_or_else(|| {
        let form = if protobuf { MESSAGE } else { JSON };
        let document = cache::compressed(&format!("v2 {form} {hash}"), || {
            openapi::version2(&kinds(listings(cluster), cluster), &|row| definition(cluster, row), protobuf)
        });
        respond_packed(form, document, headers, &tag)
    })
}

/// The definition of a custom resource.
fn definition(cluster: &Cluster, row: &Resource) -> Arc<Value> {
    let definition = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified());
    definition.map(|definition| definition.value()).unwrap_or_default()
}

/// Resources with the kinds of their lists.
fn kinds(listings: Vec<Listing>, cluster: &Cluster) -> Vec<(Listing, String)> {
    let of = |listing: Listing| {
        let outline = if listing.row.custom { cluster.outline(&listing.row.qualified()) } else { None };
        let list_kind = outline.and_then(|outline| outline.list_kind.clone());
        let list_kind = list_kind.unwrap_or_else(|| format!("{}List", listing.row.kind));
        (listing, list_kind)
    };
    listings.into_iter().map(of).collect()
}

/// The resources of each group and version.
fn groups(cluster: &Cluster) -> BTreeMap<(&'static str, &'static str), Vec<&'static Resource>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for Listing { row, .. } in listings(cluster) {
        found.entry((row.group, row.version)).or_default().push(row);
    }
    found
}

/// What tells one state of a group and version from another one: its kinds, and how they are defined.
fn identity(cluster: &Cluster, resources: &[&Resource]) -> String {
    let (custom, built_in): (Vec<&Resource>, Vec<&Resource>) = resources.iter().copied().partition(|row| row.custom);
    let mut text = openapi::operations(&built_in);
    for row in custom {
        if let Some(outline) = cluster.outline(&row.qualified()) {
            let _ = write!(text, " {} {}", row.api_version(), outline.hash);
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
    let mut documents: BTreeMap<String, String> = BTreeMap::new();
    for ((group, version), resources) in groups(cluster) {
        let hash = hash(&identity(cluster, &resources));
        documents.insert(root(group, version).split_off(1), hash);
    }
    // They have nothing that other commands look for.
    if !rich.is_empty() {
        let groups = fixed(cluster).filter(|row| !row.group.is_empty()).map(|row| format!("apis/{}", row.group));
        let others = OTHERS.iter().map(|path| (*path).to_owned());
        documents.extend(groups.chain(others).map(|path| (path.clone(), hash(&path))));
    }
    for (at, (path, hash)) in documents.into_iter().enumerate() {
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
    let mut response = respond(JSON, String::new(), Some(tag));
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
    let segments: Vec<&str> = path.split('/').collect();
    let (group, version) = match segments.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        ["apis", group] if fixed(cluster).any(|row| row.group == *group) => {
            return Some(described(path, headers));
        }
        _ if OTHERS.contains(&path) => return Some(described(path, headers)),
        _ => return None,
    };
    let resources = resources_of(cluster, group, version);
    if resources.is_empty() {
        return None;
    }
    let rich = match wanted {
        Some(hash) => hash.starts_with(RICH),
        None => explains(headers),
    };
    let hash = hash(&identity(cluster, &resources));
    let tag = format!("\"{}{hash}\"", if rich { RICH } else { "" });
    if let Some(known) = unless_known(headers, &tag) {
        return Some(known);
    }
    if !rich {
        return Some(respond(JSON, openapi::operations(&resources), Some(&tag)));
    }
    let document = cache::compressed(&format!("v3 {path} {hash}"), || {
        let mut listings = listings(cluster);
        listings.retain(|listing| listing.row.group == group && listing.row.version == version);
        openapi::version3(&kinds(listings, cluster), &|row| definition(cluster, row))
    });
    Some(respond_packed(JSON, document, headers, &tag))
}

/// The document of a group, or of what is no group.
fn described(path: &str, headers: &HeaderMap) -> Response<Body> {
    let tag = format!("\"{RICH}{}\"", hash(path));
    unless_known(headers, &tag).unwrap_or_else(|| respond(JSON, openapi::discovery(path), Some(&tag)))
}

/// A document, compressed for a client that takes it so.
fn respond_packed(kind: &'static str, document: Bytes, headers: &HeaderMap, tag: &str) -> Response<Body> {
    let codings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|codings| codings.to_str().ok());
    let packed = codings.flat_map(|codings| codings.split(',')).any(|coding| coding.trim() == "gzip");
    let mut response =
        if packed { respond(kind, document, Some(tag)) } else { respond(kind, cache::unpacked(&document), Some(tag)) };
    if packed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    response
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

#[cfg(test)]
mod tests;
