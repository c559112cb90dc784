//! How many kinds a cluster may define. Each cluster has its own count, so that none takes another's.

use serde_json::Value;

use super::Transaction;
use crate::resource::{CUSTOM_RESOURCE_DEFINITIONS, CustomName, ResourceId};
use crate::status::Status;

/// Most kinds (versions of CustomResourceDefinitions) that a cluster may have.
const MAX_KINDS: usize = 1_000;
/// Most different ones that may ever have been: the process remembers the names of each, in some 300 bytes.
const MAX_EVER: usize = 50_000;

impl Transaction<'_> {
    /// Refuses a CustomResourceDefinition that brings in more kinds than the cluster may have.
    ///
    /// # Errors
    /// 403 with count and limit.
    pub(super) fn check_kinds(&mut self, resource: ResourceId, name: &str, value: &Value) -> Result<(), Status> {
        if resource != CUSTOM_RESOURCE_DEFINITIONS {
            return Ok(());
        }
        let own = value["spec"]["versions"].as_array().map_or(0, Vec::len);
        let definitions = self.state.definitions.outlines(&self.state.store);
        let all: usize = definitions.iter().map(|outline| outline.versions).sum();
        let before = definitions.iter().find(|outline| &*outline.name == name).map_or(0, |outline| outline.versions);
        let others = all - before;
        // A definition that does not grow is never refused, whatever there is.
        if own > before && others + own > MAX_KINDS {
            let because = format!(
                "this lab has {} kinds of CustomResourceDefinitions and would have {}; the limit is {MAX_KINDS}",
                others + before,
                others + own
            );
            return Err(Status::forbidden(resource.row(), name, &because));
        }
        let new = names(value)
            .filter(|name| ResourceId::defined(name).is_none_or(|known| !self.state.kinds.contains(&known)));
        let ever = self.state.kinds.len() + new.count();
        if ever > MAX_EVER {
            let because = format!(
                "this lab would have defined {ever} different kinds since its server began; the limit is {MAX_EVER}"
            );
            return Err(Status::forbidden(resource.row(), name, &because));
        }
        if !self.options.dry_run {
            self.state.kinds.extend(names(value).map(|name| ResourceId::define(&name)));
        }
        Ok(())
    }
}

/// What the versions of a definition are called.
fn names(definition: &Value) -> impl Iterator<Item = CustomName<'_>> {
    let spec = &definition["spec"];
    spec["versions"].as_array().into_iter().flatten().filter_map(|version| {
        Some(CustomName {
            group: spec["group"].as_str()?,
            version: version["name"].as_str()?,
            kind: spec["names"]["kind"].as_str()?,
            plural: spec["names"]["plural"].as_str()?,
            namespaced: spec["scope"] == "Namespaced",
        })
    })
}
