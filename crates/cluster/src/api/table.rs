//! Tables of objects in the requested version, with the printer of their kind.

use jiff::Timestamp;
use klab_api_machinery::object::Object;
use klab_api_machinery::registry;
use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, ResourceId};
use klab_api_machinery::table::{self, Included, Printer};

use super::versions;
use crate::cluster::Cluster;

/// A Table as JSON text. `metadata` is the list metadata, already JSON; `with_columns` is false for all but the first
/// event of a watch.
pub(super) fn table(
    cluster: &Cluster,
    resource: ResourceId,
    metadata: &str,
    objects: &[&Object],
    included: Included,
    with_columns: bool,
    now: Timestamp,
) -> String {
    let row = resource.row();
    let printer = if row.custom {
        let definition = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "", &row.qualified());
        let definition = definition.map(|object| object.value()).unwrap_or_default();
        Printer::Custom(table::printer_columns(&definition, row.version))
    } else {
        let aspects = registry::of(resource);
        Printer::Fixed(aspects.columns, aspects.cells)
    };
    let whole = |object: &Object| versions::text(cluster, resource, object);
    table::document(&printer, metadata, objects, included, whole, with_columns, now)
}
