//! get and list.

use std::sync::Arc;

use http::Response;
use klab_api_machinery::object::Object;
use klab_api_machinery::registry;
use klab_api_machinery::resource::LEASES;
use klab_api_machinery::status::Status;
use serde_json::json;

use super::answer;
use super::call::{Call, Target};
use super::leases;
use super::pages::{Continue, KEPT};
use super::present::ListMetadata;
use super::query::Query;
use super::unstored::unstored;
use crate::body::Body;
use klab_api_machinery::selector::Selector;

impl Call<'_> {
    pub(super) fn get(&self, target: &Target) -> Result<Response<Body>, Status> {
        self.form()?;
        if self.query.flag("export") {
            let message = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(message));
        }
        let row = target.resource.row();
        let found = self.cluster().get(target.stored(), target.namespace(), target.name());
        let found = found.or_else(|| {
            let builtin = unstored(self.cluster(), target.resource);
            builtin.into_iter().find(|object| object.name.as_ref() == target.name())
        });
        let object = found.ok_or_else(|| Status::not_found(row, target.name()))?;
        let object = leases::renewed(self.cluster(), object);
        let mut response = self.object(200, target, &object)?;
        self.warn_of_age(&mut response, target);
        Ok(response)
    }

    /// The warning that every request for a kind or a version is answered with.
    pub(super) fn warn_of_age(&self, response: &mut Response<Body>, target: &Target) {
        if let Some(warning) = registry::of(target.resource).warning {
            answer::warn(response, warning);
        }
        let definition = target.custom.then(|| self.cluster().definition(target.resource)).flatten();
        if let Some(warning) = definition.and_then(|definition| definition.warning(target.resource)) {
            answer::warn(response, &warning);
        }
    }

    pub(super) fn selector(&self, target: &Target) -> Result<Selector, Status> {
        let (labels, fields) = (self.query.get("labelSelector"), self.query.get("fieldSelector"));
        match target.custom.then(|| self.cluster().definition(target.resource)).flatten() {
            Some(definition) => Selector::parse_custom(&definition, target.resource, labels, fields),
            None => Selector::parse(target.resource, labels, fields),
        }
    }

    pub(super) fn list(&self, target: &Target) -> Result<Response<Body>, Status> {
        self.form()?;
        let selector = self.selector(target)?;
        let limit = usize::try_from(self.query.number("limit")?.unwrap_or(0)).unwrap_or(0);
        let from = self.query.get("continue").map(Continue::parse).transpose()?;
        if self.query.get("sendInitialEvents").is_some() {
            return Err(invalid_list_options(
                "sendInitialEvents",
                "FieldValueForbidden",
                "Forbidden: sendInitialEvents is forbidden for list",
            ));
        }
        let wanted = match &from {
            Some(from) => self.wanted_by(from)?,
            None => wanted_version(&self.query)?,
        };
        let (mut objects, version) = match selector.name().zip(target.namespace.as_deref().or(Some(""))) {
            // One object by name: no walk over all of them.
            Some((name, namespace)) if target.namespace.is_some() || !target.resource.row().namespaced => {
                self.cluster().get_with_version(target.stored(), namespace, name)
            }
            _ => self.cluster().list(target.stored(), target.namespace.as_deref()),
        };
        match wanted {
            Wanted::NotOlderThan(wanted) if wanted > version => return Err(too_large(wanted, version)),
            Wanted::Any | Wanted::NotOlderThan(_) => {}
            Wanted::Exact(wanted) if wanted == version => {}
            // Less is kept here than upstream keeps for that time: the next page of a busy cluster shows what is there now.
            Wanted::Exact(wanted) if from.is_some() => {
                objects = self.at_version(target, objects.clone(), wanted, version).unwrap_or(objects);
            }
            Wanted::Exact(wanted) => objects = self.at_version(target, objects, wanted, version)?,
        }
        let builtin = unstored(self.cluster(), target.resource);
        if !builtin.is_empty() {
            objects.extend(builtin);
            // Sorting is stable: of two with the same name the stored one comes first, and stays.
            objects.sort_by(|one, other| one.name.cmp(&other.name));
            objects.dedup_by(|one, other| one.name == other.name);
        }
        let all = selector.is_empty();
        objects = self.matching(target, &selector, objects)?;
        let mut metadata = ListMetadata { version, ..ListMetadata::default() };
        if let Wanted::Exact(wanted) = wanted {
            metadata.version = wanted;
        }
        if let Some(from) = &from {
            objects.retain(|object| (object.namespace.as_ref(), object.name.as_ref()) > from.after());
        }
        let now = self.cluster().now().as_second();
        if limit > 0 && objects.len() > limit {
            metadata.remaining = all.then(|| objects.len() - limit);
            objects.truncate(limit);
            metadata.more = objects.last().map(|last| {
                Continue {
                    version: Some(metadata.version),
                    namespace: last.namespace.as_ref().to_owned(),
                    name: last.name.as_ref().to_owned(),
                    begun: from.as_ref().filter(|from| from.version.is_some()).map_or(now, |from| from.begun),
                }
                .to_token()
            });
        }
        if target.resource == LEASES {
            objects = objects.into_iter().map(|object| leases::renewed(self.cluster(), object)).collect();
        }
        let mut response = self.objects(target.resource, &metadata, objects)?;
        self.warn_of_age(&mut response, target);
        Ok(response)
    }

    /// The objects that are selected: by what they are in the version that is asked for.
    pub(super) fn matching(
        &self,
        target: &Target,
        selector: &Selector,
        mut objects: Vec<Arc<Object>>,
    ) -> Result<Vec<Arc<Object>>, Status> {
        if selector.is_empty() {
            return Ok(objects);
        }
        if selector.is_of_names() || !self.cluster().converts(target.resource) {
            objects.retain(|object| selector.matches(object));
            return Ok(objects);
        }
        let shown = self.shown(target.resource, objects.clone())?;
        let selected = objects.into_iter().zip(shown).filter(|(_, shown)| selector.matches(shown));
        Ok(selected.map(|(object, _)| object).collect())
    }

    /// Which state the next page shows.
    fn wanted_by(&self, from: &Continue) -> Result<Wanted, Status> {
        let Some(version) = from.version else { return Ok(Wanted::Any) };
        let age = self.cluster().now().as_second().saturating_sub(from.begun);
        if age > KEPT { Err(self.expired(from)) } else { Ok(Wanted::Exact(version)) }
    }

    /// The objects as they were at an earlier version: undoes the changes since then.
    fn at_version(
        &self,
        target: &Target,
        objects: Vec<Arc<Object>>,
        wanted: u64,
        version: u64,
    ) -> Result<Vec<Arc<Object>>, Status> {
        use super::super::store::Change;
        if wanted > version {
            return Err(too_large(wanted, version));
        }
        let gone = |_| Status::new(410, "Expired", "The resourceVersion for the provided list is too old.".to_owned());
        let (events, _) = self.cluster().since(wanted).map_err(gone)?;
        let mut state: std::collections::BTreeMap<_, _> =
            objects.into_iter().map(|object| ((object.namespace.clone(), object.name.clone()), object)).collect();
        for event in events.into_iter().rev() {
            let object = &event.object;
            let elsewhere = target.namespace.as_deref().is_some_and(|wanted| wanted != object.namespace.as_ref());
            if object.resource.family() != target.stored().family() || event.version > version || elsewhere {
                continue;
            }
            let key = (object.namespace.clone(), object.name.clone());
            match (event.change, event.previous) {
                (Change::Added, _) | (_, None) => state.remove(&key),
                (_, Some(previous)) => state.insert(key, previous),
            };
        }
        Ok(state.into_values().collect())
    }
}

/// Which state a list or watch asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    NotOlderThan(u64),
    Exact(u64),
}

/// Reads `resourceVersion` and `resourceVersionMatch` of a list.
fn wanted_version(query: &Query) -> Result<Wanted, Status> {
    let version = version(query)
        .map_err(|status| Status { message: format!("invalid resource version: {}", status.message), ..status })?;
    let forbidden = |because: &str| {
        Err(invalid_list_options("resourceVersionMatch", "FieldValueForbidden", &format!("Forbidden: {because}")))
    };
    match (query.get("resourceVersionMatch"), version) {
        (None, None | Some(0)) => Ok(Wanted::Any),
        // A continue token names its own version.
        (None, Some(version)) if query.get("limit").is_some() => Ok(Wanted::Exact(version)),
        (None | Some("NotOlderThan"), Some(version)) => Ok(Wanted::NotOlderThan(version)),
        (Some("Exact"), Some(0)) => forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        (Some("Exact"), Some(version)) => Ok(Wanted::Exact(version)),
        (Some(_), None) => forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
        (Some(other), _) => Err(invalid_list_options(
            "resourceVersionMatch",
            "FieldValueNotSupported",
            &format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""),
        )),
    }
}

/// The `resourceVersion` parameter.
pub(super) fn version(query: &Query) -> Result<Option<u64>, Status> {
    let Some(text) = query.get("resourceVersion") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        Status::bad_request(format!(
            "resourceVersion: Invalid value: {}: strconv.ParseUint: parsing {}: invalid syntax",
            super::query::quoted(text),
            super::query::quoted(text)
        ))
    })
}

/// 504 for a version from the future.
pub(super) fn too_large(wanted: u64, current: u64) -> Status {
    Status {
        details: json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }),
        ..Status::new(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {current}"))
    }
}

/// 422 for list options that contradict each other.
pub(super) fn invalid_list_options(field: &str, reason: &str, message: &str) -> Status {
    invalid_options("ListOptions", field, reason, message)
}

/// 422 for a query parameter.
pub(super) fn invalid_options(kind: &str, field: &str, reason: &str, message: &str) -> Status {
    Status {
        details: json!({
            "group": "meta.k8s.io", "kind": kind,
            "causes": [{"reason": reason, "message": message, "field": field}],
        }),
        ..Status::new(422, "Invalid", format!("{kind}.meta.k8s.io \"\" is invalid: {field}: {message}"))
    }
}
