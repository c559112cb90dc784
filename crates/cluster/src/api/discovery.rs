//! Which groups, versions and resources there are: aggregated documents, and the older ones piece by piece.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Response, StatusCode};
use klab_api_machinery::custom::Listing;
use klab_api_machinery::resource::{Resource, Subresource};
use klab_api_machinery::status::Status;
use klab_scheduler::features::Gate;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::Call;
use super::negotiate::Form;
use super::{answer, health, metrics};
use crate::body::Body;
use crate::cluster::{has_other_kinds, listings};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What an API server lists at `/` besides groups and checks.
const OTHER_PATHS: &[&str] = &[
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/",
    "/flagz",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/statusz",
    "/version",
];

/// Groups with their versions, in order of preference, each with its resources.
type Groups = Vec<(&'static str, Vec<(&'static str, Vec<Listing>)>)>;

/// Resource as legacy discovery lists it, in the order of fields API servers use.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    name: String,
    singular_name: String,
    namespaced: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    kind: &'a str,
    verbs: &'a [&'a str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<Listed<'a>>,
}

impl Call<'_> {
    fn served(&self) -> Groups {
        let mut groups: Groups = Vec::new();
        let mut listings = listings(self.cluster());
        listings.extend(metrics::rows(&self.api.metrics()).iter().map(Listing::of));
        for listing in listings {
            let row = listing.row;
            let at = groups.iter().position(|(group, _)| *group == row.group).unwrap_or_else(|| {
                groups.push((row.group, Vec::new()));
                groups.len() - 1
            });
            let versions = &mut groups[at].1;
            match versions.iter_mut().find(|(version, _)| *version == row.version) {
                Some((_, resources)) => resources.push(listing),
                None => versions.push((row.version, vec![listing])),
            }
        }
        for (_, versions) in &mut groups {
            for (_, resources) in versions {
                resources.sort_by_key(|listing| listing.row.plural);
            }
        }
        groups
    }

    /// `/api`
    pub(super) fn core_versions(&self) -> Result<Response<Body>, Status> {
        if self.form()? == Form::Discovery {
            return Ok(self.aggregated(true));
        }
        let address = &self.api.address;
        Ok(answer::json_text(
            200,
            format!(
                "{{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[{{\"clientCIDR\":\"0.0.0.0/0\",\"serverAddress\":\"{address}\"}}]}}\n"
            ),
        ))
    }

    /// `/apis`
    pub(super) fn groups(&self) -> Result<Response<Body>, Status> {
        if self.form()? == Form::Discovery {
            return Ok(self.aggregated(false));
        }
        let groups: Vec<String> = self
            .served()
            .iter()
            .filter(|(group, _)| !group.is_empty())
            .map(|(group, versions)| format!("{{{}}}", group_fields(group, versions)))
            .collect();
        Ok(answer::json_text(
            200,
            format!("{{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[{}]}}\n", groups.join(",")),
        ))
    }

    /// `/apis/<group>`
    pub(super) fn group(&self, group: &str) -> Response<Body> {
        let served = self.served();
        let Some((group, versions)) = served.iter().find(|(have, _)| *have == group && !have.is_empty()) else {
            return answer::page_not_found();
        };
        let fields = group_fields(group, versions);
        answer::json_text(200, format!("{{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",{fields}}}\n"))
    }

    /// `/api/v1`, `/apis/<group>/<version>`
    pub(super) fn resources(&self, group: &str, version: &str) -> Response<Body> {
        let served = self.served();
        let versions = served.iter().find(|(have, _)| *have == group).map(|(_, versions)| versions);
        let Some((_, listings)) = versions.and_then(|versions| versions.iter().find(|(have, _)| *have == version))
        else {
            return answer::page_not_found();
        };
        let mut resources = Vec::new();
        let hashes = self.cluster().features().has(Gate::StorageVersionHash);
        for listing in listings {
            let row = listing.row;
            // The metrics server gives no singular names.
            let singular = if row.group == metrics::GROUP { String::new() } else { listing.singular.clone() };
            resources.push(Listed {
                name: row.plural.to_owned(),
                singular_name: singular,
                namespaced: row.namespaced,
                group: None,
                version: None,
                kind: row.kind,
                verbs: row.verbs,
                short_names: &listing.short_names,
                categories: &listing.categories,
                storage_version_hash: (hashes && row.is_stored()).then(|| hash(&[row.group, row.version, row.kind])),
            });
            for part in listing.subresources {
                resources.push(Listed {
                    name: format!("{}/{}", row.plural, part.name),
                    singular_name: String::new(),
                    namespaced: row.namespaced,
                    group: part.group_version.map(|(group, _)| group),
                    version: part.group_version.map(|(_, version)| version),
                    kind: if part.kind.is_empty() { row.kind } else { part.kind },
                    verbs: part.verbs,
                    short_names: &[],
                    categories: &[],
                    storage_version_hash: None,
                });
            }
        }
        let list = ResourceList {
            kind: "APIResourceList",
            api_version: (!group.is_empty()).then_some("v1"),
            group_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
            resources,
        };
        // Plain structs of texts always serialise.
        answer::json_text(200, serde_json::to_string(&list).unwrap_or_default() + "\n")
    }

    /// `/`
    pub(super) fn root(&self) -> Response<Body> {
        let mut paths: Vec<String> = OTHER_PATHS.iter().map(|path| (*path).to_owned()).collect();
        for check in ["healthz", "livez", "readyz"] {
            paths.push(format!("/{check}"));
            paths.extend(health::checks(check).map(|one| format!("/{check}/{one}")));
        }
        for (group, versions) in self.served() {
            if !group.is_empty() {
                paths.push(format!("/apis/{group}"));
                paths.extend(versions.iter().map(|(version, _)| format!("/apis/{group}/{version}")));
            }
        }
        paths.sort();
        let value = json!({ "paths": paths });
        answer::json_text(200, serde_json::to_string_pretty(&value).unwrap_or_default())
    }

    /// The document of the core group, or of all others.
    fn aggregated(&self, core: bool) -> Response<Body> {
        let document = self.aggregated_document(core);
        let known =
            self.parts.headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == document.etag.as_bytes());
        let mut response = answer::json_as(AGGREGATED, if known { Bytes::new() } else { document.text.clone() });
        if known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        if let Ok(etag) = HeaderValue::from_str(&document.etag) {
            response.headers_mut().insert(ETAG, etag);
        }
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        // upstream: apiserver pkg/endpoints/discovery/aggregated/etag.go (v1.36)
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        response
    }

    /// A cluster that serves the kinds of most has the same document as all others like it.
    fn aggregated_document(&self, core: bool) -> Arc<Document> {
        static SHARED: Mutex<BTreeMap<(bool, bool), Arc<Document>>> = Mutex::new(BTreeMap::new());
        if has_other_kinds(self.cluster()) {
            return Arc::new(Document::of(self.served(), core));
        }
        let key = (core, metrics::rows(&self.api.metrics()).is_empty());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shared.entry(key).or_insert_with(|| Arc::new(Document::of(self.served(), core))))
    }
}

/// An aggregated discovery document.
struct Document {
    text: Bytes,
    etag: String,
}

impl Document {
    fn of(groups: Groups, core: bool) -> Self {
        let items: Vec<Value> = groups
            .into_iter()
            .filter(|(group, _)| group.is_empty() == core)
            .map(|(group, versions)| {
                let versions: Vec<Value> = versions
                    .iter()
                    .map(|(version, rows)| {
                        let resources: Vec<Value> = rows.iter().map(aggregated_resource).collect();
                        json!({"version": version, "resources": resources, "freshness": "Current"})
                    })
                    .collect();
                let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
                json!({"metadata": metadata, "versions": versions})
            })
            .collect();
        let document = json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
        });
        let text = document.to_string();
        Self { etag: format!("\"{}\"", hash(&[&text])), text: text.into() }
    }
}

fn group_fields(group: &str, versions: &[(&str, Vec<Listing>)]) -> String {
    let version = |version: &str| format!("{{\"groupVersion\":\"{group}/{version}\",\"version\":\"{version}\"}}");
    let all: Vec<String> = versions.iter().map(|(name, _)| version(name)).collect();
    let preferred = versions.first().map(|(name, _)| version(name)).unwrap_or_default();
    format!("\"name\":\"{group}\",\"versions\":[{}],\"preferredVersion\":{preferred}", all.join(","))
}

fn aggregated_resource(listing: &Listing) -> Value {
    let row = listing.row;
    let scope = if row.namespaced { "Namespaced" } else { "Cluster" };
    let mut resource = json!({
        "resource": row.plural, "scope": scope, "verbs": row.verbs,
        "responseKind": {"group": "", "version": "", "kind": row.kind},
        "singularResource": listing.singular,
    });
    // The metrics server and definitions are aggregated from elsewhere, and name group and version.
    if row.custom || row.group == metrics::GROUP {
        resource["responseKind"] = json!({"group": row.group, "version": row.version, "kind": row.kind});
    }
    if !listing.short_names.is_empty() {
        resource["shortNames"] = json!(listing.short_names);
    }
    if !listing.categories.is_empty() {
        resource["categories"] = json!(listing.categories);
    }
    if !listing.subresources.is_empty() {
        let parts = listing.subresources.iter().map(|part| aggregated_part(row, part));
        resource["subresources"] = parts.collect();
    }
    resource
}

fn aggregated_part(row: &Resource, part: &Subresource) -> Value {
    let (group, version) = part.group_version.unwrap_or_default();
    let kind = if part.kind.is_empty() { row.kind } else { part.kind };
    json!({
        "subresource": part.name, "verbs": part.verbs,
        "responseKind": {"group": group, "version": version, "kind": kind},
    })
}

/// A short text that differs when the input does, the same in every run: of group, version and kind it is what API
/// servers call the hash of the storage version.
pub(super) fn hash(parts: &[&str]) -> String {
    use base64::Engine;
    let digest = ring::digest::digest(&ring::digest::SHA256, parts.join("/").as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
}
