//! Schemas of everything that is sent and answered, and parameters of requests, as they are in the program.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

/// Name and schema of every structure, and the parameters of requests, a line each; written by `tools/kubernetes-descriptions.py`.
const DESCRIPTIONS: &[u8] = include_bytes!("descriptions.gz");

/// What a reference to another schema begins with.
const REFERENCE: &str = "\"#/components/schemas/";

/// Unpacked for each document: a process that explains nothing pays nothing.
pub(super) fn descriptions() -> String {
    let mut text = String::new();
    // What is in the program is whole: a test unpacks it.
    let _ = GzDecoder::new(DESCRIPTIONS).read_to_string(&mut text);
    text
}

/// Schemas and parameters by name.
pub(super) struct Catalogue<'a> {
    lines: HashMap<&'a str, &'a str>,
}

impl<'a> Catalogue<'a> {
    /// Of [`descriptions`].
    pub(super) fn of(text: &'a str) -> Self {
        Self { lines: text.lines().filter_map(|line| line.split_once('\t')).collect() }
    }

    /// A parameter of requests.
    pub(super) fn parameter(&self, name: &str) -> Value {
        let line = self.lines.get(format!("parameter:{name}").as_str());
        line.and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }

    /// The schemas of these names, and all that they refer to.
    pub(super) fn with_references<'b>(
        &'b self,
        names: impl IntoIterator<Item = &'b str>,
    ) -> BTreeMap<&'b str, &'a str> {
        let mut found = BTreeMap::new();
        let mut wanted: Vec<&'b str> = names.into_iter().collect();
        while let Some(name) = wanted.pop() {
            let Some((name, schema)) = self.lines.get_key_value(name) else { continue };
            if found.insert(*name, *schema).is_none() {
                wanted.extend(schema.split(REFERENCE).skip(1).filter_map(|rest| rest.split('"').next()));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::operation::schema_names;
    use crate::resource::ResourceId;

    #[test]
    fn every_kind_that_is_stored_has_a_schema_with_all_that_it_refers_to() {
        let text = descriptions();
        let catalogue = Catalogue::of(&text);
        let stored = ResourceId::fixed().filter(|id| id.row().is_stored());
        let named: Vec<_> = stored.filter_map(|id| schema_names(id.row(), "")).map(|(name, _)| name).collect();
        let found = catalogue.with_references(named.iter().map(String::as_str));
        for name in &named {
            let schema: Value = serde_json::from_str(found[name.as_str()]).unwrap();
            assert!(schema["properties"]["metadata"].is_object() && schema["description"].is_string(), "{name}");
        }
        let references = found.values().flat_map(|schema| schema.split(REFERENCE).skip(1));
        for name in references.filter_map(|rest| rest.split('"').next()) {
            assert!(found.contains_key(name), "{name}");
        }
    }
}
