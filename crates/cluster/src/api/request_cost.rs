//! How long a request may take: long ones are worked on by threads of their own.

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use klab_api_machinery::resource::{NODES, ResourceId};

use super::call::Shared;
use super::metrics;
use super::path::{self, Path, ResourcePath};
use crate::cluster::resource_at;

/// Bytes of a body, or of an object that is to change, from which on a request is a long one.
const LONG_BODY: usize = 64 * 1024;
/// Objects of a kind from which on requests about all of them are long ones.
const LONG_LIST: usize = 500;

impl Shared {
    /// Whether a request may take more than a few milliseconds, by what it sends and what it is about.
    pub(super) fn is_long(&self, parts: &Parts, body: &Bytes) -> bool {
        if body.len() > LONG_BODY || self.cluster.is_locked() {
            return true;
        }
        match path::parse(parts.uri.path()) {
            // Scripts are followed for it.
            Some(Path::Resource(path)) if matches!(path.subresource.as_deref(), Some("log" | "exec")) => true,
            Some(Path::Resource(path)) => self.is_about_much(&parts.method, &path),
            // Documents of hundreds of kinds; they are made once.
            Some(Path::OpenApi2 | Path::OpenApi3(_)) => true,
            _ => false,
        }
    }

    fn is_about_much(&self, method: &Method, path: &ResourcePath) -> bool {
        let resource = if path.group == metrics::GROUP {
            Some(NODES)
        } else {
            resource_at(&self.cluster, &path.group, &path.version, &path.plural)
        };
        let stored = |resource: ResourceId| resource.row().stored_as.unwrap_or(resource);
        let Some(resource) = resource.map(stored) else { return false };
        match path.name.as_deref() {
            None => *method != Method::POST && self.cluster.count(resource) > LONG_LIST,
            Some(_) if matches!(*method, Method::GET | Method::HEAD) => false,
            Some(name) => {
                let namespace = path.namespace.as_deref().unwrap_or_default();
                self.cluster.get(resource, namespace, name).is_some_and(|object| object.size() > LONG_BODY)
            }
        }
    }
}
