//! What is asked of all definitions at once: the kinds that each brings in, and what tells one state of it from another.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::object::Object;
use crate::resource::{CUSTOM_RESOURCE_DEFINITIONS, CustomName, Resource, ResourceId, Subresource, custom_parts};
use crate::store::Store;

/// A resource with all that discovery tells of it.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) row: &'static Resource,
    /// What one of them is called: `kubectl get <singular>`.
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) subresources: &'static [Subresource],
}

impl Listing {
    /// Of a row of a fixed table.
    pub(crate) fn of(row: &'static Resource) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (short_names, categories) = (texts(row.short_names), texts(row.categories));
        Self { row, singular: row.singular(), short_names, categories, subresources: row.subresources }
    }
}

/// A definition in outline. It is small, and its text is read once for each version of the definition.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The name of the definition.
    pub(crate) name: Box<str>,
    resource_version: u64,
    /// Its served versions, with their resources.
    pub(crate) listings: Vec<(ResourceId, Listing)>,
    /// How many versions it has, served or not.
    pub(crate) versions: usize,
    /// The kind of its lists, if it says one.
    pub(crate) list_kind: Option<String>,
    /// What tells its spec from any other.
    pub(crate) hash: String,
}

impl Outline {
    pub(super) fn read(name: &str, resource_version: u64, definition: &Value) -> Self {
        let spec = &definition["spec"];
        let names = &spec["names"];
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (short_names, categories) = (texts(&names["shortNames"]), texts(&names["categories"]));
        let singular = text(&names["singular"]);
        let listing = |version: &Value| {
            let id = ResourceId::define(&CustomName {
                group: text(&spec["group"])?,
                version: text(&version["name"])?,
                kind: text(&names["kind"])?,
                plural: text(&names["plural"])?,
                namespaced: spec["scope"] == "Namespaced",
            });
            let parts = &version["subresources"];
            let subresources = custom_parts(parts["scale"].is_object(), parts["status"].is_object());
            let (short_names, categories) = (short_names.clone(), categories.clone());
            let row = id.row();
            let singular = singular.map_or_else(|| row.singular(), str::to_owned);
            Some((id, Listing { row, singular, short_names, categories, subresources }))
        };
        let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
        let digest = ring::digest::digest(&ring::digest::SHA256, spec.to_string().as_bytes());
        Self {
            name: name.into(),
            resource_version,
            listings: versions.iter().filter(|version| version["served"] == true).filter_map(listing).collect(),
            versions: versions.len(),
            list_kind: text(&names["listKind"]).map(str::to_owned),
            hash: digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The outlines of a cluster's definitions, by name.
#[derive(Debug, Default)]
pub(super) struct Outlines(HashMap<Box<str>, Arc<Outline>>);

impl Outlines {
    /// The outline of a definition.
    pub(super) fn of(&mut self, object: &Object) -> Arc<Outline> {
        let known = self.0.get(&object.name).filter(|known| known.resource_version == object.resource_version);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let outline = Arc::new(Outline::read(&object.name, object.resource_version, &object.value()));
        self.0.insert(object.name.clone(), Arc::clone(&outline));
        outline
    }

    /// Those of all definitions, in the order of their names.
    pub(super) fn all(&mut self, store: &Store) -> Vec<Arc<Outline>> {
        let found: Vec<_> = store.list(CUSTOM_RESOURCE_DEFINITIONS, None).map(|object| self.of(object)).collect();
        if self.0.len() > found.len() {
            self.0.retain(|name, _| store.get(CUSTOM_RESOURCE_DEFINITIONS, "", name).is_some());
        }
        found
    }
}
