//! Custom resources as their definitions have them: which version is stored, what of an object is kept, what is filled in,
//! and what is wrong with it.
//!
//! ```text
//! body ─ prune (unknown fields) ─ default ─▶ schema ─ lists ─ rules (CEL) ─▶ converted, stored in one version, served in each
//! ```

pub(crate) mod conversion;
#[cfg(test)]
mod costs;
mod declaration;
mod definition;
mod fill;
mod lists;
mod outline;
mod rules;
mod schema;

pub(crate) use definition::check_object as check_definition;
pub(crate) use fill::{default, prune};
pub(crate) use outline::{Listing, Outline};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use klab_cel::{Budget, Declaration};
use serde_json::{Value, json};

use self::conversion::Webhook;
use self::outline::Outlines;
use crate::object::Object;
use crate::resource::{CUSTOM_RESOURCE_DEFINITIONS, CustomName, ResourceId};
use crate::store::Store;
use crate::validation::Errors;

/// A definition, read once.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The resourceVersion it was read at.
    pub(crate) version: u64,
    pub(crate) versions: Vec<Version>,
    /// Who converts objects between its versions, if they differ by more than their names.
    webhook: Option<Webhook>,
}

/// A version of a definition.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) id: ResourceId,
    pub(crate) served: bool,
    pub(crate) stored: bool,
    /// Its entry in `spec.versions`.
    pub(crate) spec: Value,
    rules: OnceLock<rules::Rules>,
    has_defaults: bool,
}

/// The definitions of a cluster that were asked for, by name.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    known: Mutex<HashMap<String, Arc<Definition>>>,
    outlines: Mutex<Outlines>,
}

impl Definitions {
    /// The definition of a custom resource.
    pub(crate) fn of(&self, store: &Store, resource: ResourceId) -> Option<Arc<Definition>> {
        let row = resource.row();
        if !row.custom {
            return None;
        }
        self.named(store, &row.qualified())
    }

    /// The definition of that name.
    pub(crate) fn named(&self, store: &Store, name: &str) -> Option<Arc<Definition>> {
        let object = store.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(definition) = known.get(name).filter(|known| known.version == object.resource_version) {
            return Some(Arc::clone(definition));
        }
        let definition = Arc::new(Definition::read(object)?);
        // Those of definitions that were removed go.
        known.retain(|name, _| store.get(CUSTOM_RESOURCE_DEFINITIONS, "", name).is_some());
        known.insert(name.to_owned(), Arc::clone(&definition));
        Some(definition)
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The outline of the definition of that name.
    pub(crate) fn outline(&self, store: &Store, name: &str) -> Option<Arc<Outline>> {
        let object = store.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)?;
        Some(self.outlines.lock().unwrap_or_else(PoisonError::into_inner).of(object))
    }

    /// The outlines of all definitions, in the order of their names.
    pub(crate) fn outlines(&self, store: &Store) -> Vec<Arc<Outline>> {
        self.outlines.lock().unwrap_or_else(PoisonError::into_inner).all(store)
    }
}

impl Definition {
    fn read(object: &Object) -> Option<Self> {
        let value = object.value();
        let spec = &value["spec"];
        let versions: Vec<Version> = spec["versions"]
            .as_array()?
            .iter()
            .filter_map(|version| {
                let name = CustomName {
                    group: spec["group"].as_str()?,
                    version: version["name"].as_str()?,
                    kind: spec["names"]["kind"].as_str()?,
                    plural: spec["names"]["plural"].as_str()?,
                    namespaced: spec["scope"] == "Namespaced",
                };
                Some(Version {
                    id: ResourceId::define(&name),
                    served: version["served"] == true,
                    stored: version["storage"] == true,
                    spec: version.clone(),
                    rules: OnceLock::new(),
                    has_defaults: fill::has_defaults(&version["schema"]["openAPIV3Schema"]),
                })
            })
            .collect();
        if versions.is_empty() {
            return None;
        }
        Some(Self { version: object.resource_version, versions, webhook: Webhook::read(&spec["conversion"]) })
    }

    /// The version in which objects are written.
    pub(crate) fn storing(&self) -> Option<ResourceId> {
        self.versions.iter().find(|version| version.stored).map(|version| version.id)
    }

    /// Who converts objects between its versions, if they differ by more than their names.
    pub(crate) fn webhook(&self) -> Option<&Webhook> {
        self.webhook.as_ref()
    }

    /// Whether it has a version, by the `apiVersion` of its objects.
    pub(crate) fn has(&self, api_version: &str) -> bool {
        self.versions.iter().any(|version| version.id.row().api_version() == api_version)
    }

    /// A version by its resource.
    pub(crate) fn version(&self, resource: ResourceId) -> Option<&Version> {
        self.versions.iter().find(|version| version.id == resource)
    }

    /// An object as a version serves it, where that is not as it is stored. Not for objects that a webhook converts.
    pub(crate) fn served(&self, resource: ResourceId, object: &Object) -> Option<Value> {
        if self.webhook.is_some() {
            return None;
        }
        let stored = self.version(object.resource);
        let same = object.resource == resource;
        // An object lacks defaults that its definition was given later, or that the version has not that it was sent in.
        let is_whole = stored.is_none_or(|version| !version.has_defaults)
            || (self.versions.len() == 1 && self.version < object.resource_version);
        if same && is_whole {
            return None;
        }
        let mut value = object.to_value();
        self.read_from_storage(object.resource, &mut value);
        if !same {
            self.rename(resource, &mut value);
        }
        Some(value)
    }

    /// Makes an object what its version has it be now: without what the schema does not know any more, with the defaults
    /// that it was given since.
    pub(crate) fn read_from_storage(&self, stored: ResourceId, value: &mut Value) {
        if let Some(version) = self.version(stored).filter(|version| version.schema().is_object()) {
            prune(version.schema(), value);
            default(version.schema(), value);
        }
    }

    /// Makes an object one of another version, where they differ by their schemas alone.
    pub(crate) fn rename(&self, to: ResourceId, value: &mut Value) {
        value["apiVersion"] = json!(to.row().api_version());
        self.prune(to, value);
    }

    /// Takes out of an object what the schema of its version does not know.
    pub(crate) fn prune(&self, version: ResourceId, value: &mut Value) {
        if let Some(version) = self.version(version).filter(|version| version.schema().is_object()) {
            prune(version.schema(), value);
        }
    }

    /// The warning that a deprecated version answers with.
    ///
    /// // upstream: apiextensions-apiserver pkg/apiserver/customresource_handler.go
    pub(crate) fn warning(&self, resource: ResourceId) -> Option<String> {
        let version = self.version(resource)?;
        if version.spec["deprecated"] != true {
            return None;
        }
        if let Some(text) = version.spec["deprecationWarning"].as_str() {
            return Some(text.to_owned());
        }
        let row = resource.row();
        let mut warning = format!("{}/{} {} is deprecated", row.group, row.version, row.kind);
        let better = self
            .versions
            .iter()
            .filter(|other| other.served && other.spec["deprecated"] != true)
            .map(|other| other.id.row().version)
            .filter(|other| priority(other) > priority(row.version))
            .max_by_key(|other| priority(other));
        if let Some(better) = better {
            warning.push_str(&format!("; use {}/{better} {}", row.group, row.kind));
        }
        Some(warning)
    }
}

/// Versions in the order that clients prefer them: v2, v1, v1beta2, v1beta1, v1alpha1, then others.
///
/// // upstream: apimachinery pkg/version/helpers.go
pub(crate) fn priority(version: &str) -> (u8, u64, u64) {
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let (major, rest) = rest.split_at_checked(end)?;
        let major: u64 = major.parse().ok()?;
        if rest.is_empty() {
            return Some((3, major, 0));
        }
        let (kind, minor) = match rest.strip_prefix("beta") {
            Some(minor) => (2, minor),
            None => (1, rest.strip_prefix("alpha")?),
        };
        Some((kind, major, minor.parse().ok()?))
    };
    parsed().unwrap_or((0, 0, 0))
}

impl Version {
    /// Its schema as what expressions are compiled against.
    pub(crate) fn declaration(&self) -> Option<Declaration> {
        declaration::declare(self.schema(), true, self.id.row().kind)
    }

    /// Its schema.
    pub(crate) fn schema(&self) -> &Value {
        &self.spec["schema"]["openAPIV3Schema"]
    }

    /// What is wrong with an object of this version, new or about to replace `old`.
    ///
    /// // upstream: apiextensions-apiserver pkg/registry/customresource/strategy.go Validate, ValidateUpdate
    pub(crate) fn check(&self, old: Option<&Value>, new: &Value, errors: &mut Errors) {
        let schema = self.schema();
        if !schema.is_object() {
            return;
        }
        let blocking = schema::check(schema, old, new, errors);
        let mut before = Errors::default();
        if let Some(old) = old {
            lists::check(schema, old, &mut before);
        }
        if before.is_empty() {
            lists::check(schema, new, errors);
        }
        let rules = self.rules.get_or_init(|| rules::Rules::compile(schema));
        if rules.is_empty() {
            return;
        }
        if blocking {
            errors.add_unchecked();
            return;
        }
        let mut budget = Budget::of(klab_cel::REQUEST_LIMIT);
        rules.evaluate(old, new, &mut budget, errors);
    }
}

/// `spec.versions` of a definition that name a field selectors may use.
pub(crate) fn selectable(version: &Version) -> impl Iterator<Item = &str> {
    let fields = version.spec["selectableFields"].as_array().into_iter().flatten();
    fields.filter_map(|field| field["jsonPath"].as_str()).map(|path| path.strip_prefix('.').unwrap_or(path))
}

/// What a field selector compares, as text.
pub(crate) fn field_text(value: &Value, path: &str) -> String {
    let found = path.split('.').fold(value, |value, part| &value[part]);
    match found {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => found.to_string(),
        _ => String::new(),
    }
}
