//! What is asked of all definitions at once: the kinds that each brings in, and what tells one state of it from another.

use serde_json::Value;

use crate::resource::{CustomName, Resource, ResourceId, Subresource, custom_parts};

/// A resource with all that discovery tells of it.
#[derive(Debug, Clone)]
pub struct Listing {
    pub row: &'static Resource,
    /// What one of them is called: `kubectl get <singular>`.
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub subresources: &'static [Subresource],
}

impl Listing {
    /// Of a row of a fixed table.
    pub fn of(row: &'static Resource) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (short_names, categories) = (texts(row.short_names), texts(row.categories));
        Self { row, singular: row.singular(), short_names, categories, subresources: row.subresources }
    }
}

/// A definition in outline. It is small, and its text is read once for each version of the definition.
#[derive(Debug)]
pub struct Outline {
    /// The name of the definition.
    pub name: Box<str>,
    /// The resourceVersion it was read at.
    pub resource_version: u64,
    /// Its served versions, with their resources.
    pub listings: Vec<(ResourceId, Listing)>,
    /// How many versions it has, served or not.
    pub versions: usize,
    /// The kind of its lists, if it says one.
    pub list_kind: Option<String>,
    /// What tells its spec from any other.
    pub hash: String,
}

impl Outline {
    pub fn read(name: &str, resource_version: u64, definition: &Value) -> Self {
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
