//! Custom resources as their definitions have them: which version is stored, what of an object is kept, what is filled in,
//! and what is wrong with it.
//!
//! ```text
//! body ─ prune (unknown fields) ─ default ─▶ schema ─ lists ─ rules (CEL) ─▶ converted, stored in one version, served in each
//! ```

#[cfg(test)]
mod cost_tests;
mod declaration;
mod definition;
mod fill;
mod lists;
mod outline;
mod rules;
mod schema;

pub use definition::check_object as check_definition;
pub use fill::{default, prune};
pub use outline::{Listing, Outline};

use std::sync::OnceLock;

use klab_cel::{Budget, Declaration};
use serde_json::{Value, json};

use crate::object::Object;
use crate::resource::{CustomName, ResourceId};
use crate::validation::Errors;

/// A definition, read once.
#[derive(Debug)]
pub struct Definition {
    /// The resourceVersion it was read at.
    pub version: u64,
    pub versions: Vec<Version>,
    /// `spec.conversion`, where a webhook converts objects between its versions.
    pub conversion: Option<Value>,
}

/// A version of a definition.
#[derive(Debug)]
pub struct Version {
    pub id: ResourceId,
    pub served: bool,
    pub stored: bool,
    /// Its entry in `spec.versions`.
    pub spec: Value,
    rules: OnceLock<rules::Rules>,
    has_defaults: bool,
}

impl Definition {
    /// Reads the object of a definition; none where it has no versions.
    pub fn read(object: &Object) -> Option<Self> {
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
        let conversion = Some(&spec["conversion"]).filter(|conversion| conversion["strategy"] == "Webhook").cloned();
        Some(Self { version: object.resource_version, versions, conversion })
    }

    /// The version in which objects are written.
    pub fn storing(&self) -> Option<ResourceId> {
        self.versions.iter().find(|version| version.stored).map(|version| version.id)
    }

    /// Whether it has a version, by the `apiVersion` of its objects.
    pub fn has(&self, api_version: &str) -> bool {
        self.versions.iter().any(|version| version.id.row().api_version() == api_version)
    }

    /// A version by its resource.
    pub fn version(&self, resource: ResourceId) -> Option<&Version> {
        self.versions.iter().find(|version| version.id == resource)
    }

    /// An object as a version serves it, where that is not as it is stored. Not for objects that a webhook converts.
    pub fn served(&self, resource: ResourceId, object: &Object) -> Option<Value> {
        if self.conversion.is_some() {
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
    pub fn read_from_storage(&self, stored: ResourceId, value: &mut Value) {
        if let Some(version) = self.version(stored).filter(|version| version.schema().is_object()) {
            prune(version.schema(), value);
            default(version.schema(), value);
        }
    }

    /// Makes an object one of another version, where they differ by their schemas alone.
    pub fn rename(&self, to: ResourceId, value: &mut Value) {
        value["apiVersion"] = json!(to.row().api_version());
        self.prune(to, value);
    }

    /// Takes out of an object what the schema of its version does not know.
    pub fn prune(&self, version: ResourceId, value: &mut Value) {
        if let Some(version) = self.version(version).filter(|version| version.schema().is_object()) {
            prune(version.schema(), value);
        }
    }

    /// The warning that a deprecated version answers with.
    ///
    /// // upstream: apiextensions-apiserver pkg/apiserver/customresource_handler.go
    pub fn warning(&self, resource: ResourceId) -> Option<String> {
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
pub fn priority(version: &str) -> (u8, u64, u64) {
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
    pub fn declaration(&self) -> Option<Declaration> {
        declaration::declare(self.schema(), true, self.id.row().kind)
    }

    /// Its schema.
    pub fn schema(&self) -> &Value {
        &self.spec["schema"]["openAPIV3Schema"]
    }

    /// What is wrong with an object of this version, new or about to replace `old`.
    ///
    /// // upstream: apiextensions-apiserver pkg/registry/customresource/strategy.go Validate, ValidateUpdate
    pub fn check(&self, old: Option<&Value>, new: &Value, errors: &mut Errors) {
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
pub fn selectable(version: &Version) -> impl Iterator<Item = &str> {
    let fields = version.spec["selectableFields"].as_array().into_iter().flatten();
    fields.filter_map(|field| field["jsonPath"].as_str()).map(|path| path.strip_prefix('.').unwrap_or(path))
}

/// What a field selector compares, as text.
pub fn field_text(value: &Value, path: &str) -> String {
    let found = path.split('.').fold(value, |value, part| &value[part]);
    match found {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => found.to_string(),
        _ => String::new(),
    }
}
