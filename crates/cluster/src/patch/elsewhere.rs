//! How a write looks in the versions of a custom resource in which other managers own fields of it.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/versionconverter.go; structured-merge-diff
// merge/update.go update: what was changed is compared in each manager's version (v1.36)

use serde_json::Value;

use super::managed::{Managed, Writer, difference};
use crate::cluster::Transaction;
use crate::object::Object;
use crate::status::Status;

impl Transaction<'_> {
    /// Notes for a writer how the write looks in other versions, where a webhook converts objects.
    ///
    /// # Errors
    /// What the webhook or its answer lacks, or that it has to be asked first.
    pub(crate) fn look_elsewhere(
        &self,
        writer: &mut Writer<'_>,
        current: &Object,
        old: &Value,
        new: &Value,
    ) -> Result<(), Status> {
        let Some(definition) = writer.definition.clone().filter(|definition| definition.webhook().is_some()) else {
            return Ok(());
        };
        if self.options.consultation.is_none() {
            return Ok(());
        }
        let own = writer.resource.row().api_version();
        let mut versions: Vec<String> = Managed::of(current).0.into_iter().map(|entry| entry.api_version).collect();
        versions.sort();
        versions.dedup();
        for version in versions.into_iter().filter(|version| *version != own) {
            let known = definition.versions.iter().find(|known| known.id.row().api_version() == version);
            let Some(known) = known else { continue };
            let there = Writer { resource: known.id, ..writer.clone() };
            let (old, new) = (self.convert(known.id, old.clone())?, self.convert(known.id, new.clone())?);
            writer.elsewhere.push((version, difference(&old, &new, &there)));
        }
        Ok(())
    }
}
