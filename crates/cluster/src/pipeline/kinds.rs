//! How many kinds a cluster may define. Each cluster has its own count, so that none takes another's.

use std::sync::PoisonError;

use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, CustomName, ResourceId};
use klab_api_machinery::status::Status;
use serde_json::Value;

use crate::transaction::Transaction;

/// Most kinds (versions of CustomResourceDefinitions) that a cluster may have.
const MAX_KINDS: usize = 1_000;
/// Most different ones that may ever have been: the process remembers the names of each, in less than 1,000 bytes.
const MAX_EVER: usize = 10_000;

/// Refuses a CustomResourceDefinition that brings in more kinds than the cluster may have.
///
/// # Errors
/// 403 with count and limit.
pub(crate) fn check_kinds(
    transaction: &mut Transaction<'_>,
    resource: ResourceId,
    name: &str,
    value: &Value,
) -> Result<(), Status> {
    if resource != CUSTOM_RESOURCE_DEFINITIONS {
        return Ok(());
    }
    let own = value["spec"]["versions"].as_array().map_or(0, Vec::len);
    let definitions = transaction.state.definitions.outlines(&transaction.state.store);
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
    let mut kinds = transaction.state.kinds.lock().unwrap_or_else(PoisonError::into_inner);
    let new = names(value).filter(|name| ResourceId::defined(name).is_none_or(|known| !kinds.contains(&known)));
    let ever = kinds.len() + new.count();
    if ever > MAX_EVER {
        let because = format!(
            "this lab would have defined {ever} different kinds since its server began; the limit is {MAX_EVER}"
        );
        return Err(Status::forbidden(resource.row(), name, &because));
    }
    if !transaction.options.dry_run {
        kinds.extend(names(value).map(|name| ResourceId::define(&name)));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::clock::SteppedClock;
    use crate::cluster::{Cluster, DeleteOptions, EverDefined, WriteOptions};

    fn cluster(ever: &EverDefined) -> Cluster {
        let cluster = Cluster::new(Arc::new(SteppedClock::new(Timestamp::UNIX_EPOCH)), 7);
        let counted = cluster.transact(&WriteOptions::by(""), |transaction| {
            transaction.state.kinds = Arc::clone(ever);
            Ok(())
        });
        assert!(counted.is_ok());
        cluster
    }

    fn create(cluster: &Cluster, plural: &str, dry_run: bool) -> Result<(), Status> {
        let version = |name: &str| {
            let schema = json!({ "openAPIV3Schema": { "type": "object" } });
            json!({ "name": name, "served": true, "storage": name == "v1", "schema": schema })
        };
        let definition = json!({
            "metadata": { "name": format!("{plural}.kinds.test") },
            "spec": {
                "group": "kinds.test", "scope": "Namespaced", "names": { "plural": plural, "kind": plural },
                "versions": [version("v1"), version("v2")],
            },
        });
        let options = WriteOptions { dry_run, ..WriteOptions::client("test") };
        cluster.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, &options).map(drop)
    }

    #[test]
    fn what_a_parked_cluster_has_defined_counts_when_it_is_awake_again() {
        let ever = EverDefined::default();
        create(&cluster(&ever), "early", false).unwrap();
        assert_eq!(ever.lock().unwrap().len(), 2);
        ever.lock().unwrap().extend((0..).map(|at| ResourceId(u32::MAX - at)).take(MAX_EVER - 4));
        let again = cluster(&ever);
        create(&again, "tried", true).unwrap();
        let tried =
            |version| CustomName { group: "kinds.test", version, kind: "tried", plural: "tried", namespaced: true };
        assert!(["v1", "v2"].map(tried).iter().all(|name| ResourceId::defined(name).is_none()), "it was only tried");
        create(&again, "early", false).unwrap();
        create(&again, "last", false).unwrap();
        let refused = create(&again, "late", false).unwrap_err();
        assert!(refused.message.contains("would have defined 10002 different kinds"), "{refused}");
        create(&cluster(&EverDefined::default()), "late", false).unwrap();
    }

    #[test]
    fn definitions_that_are_gone_are_forgotten() {
        let cluster = cluster(&EverDefined::default());
        for round in 0..5 {
            let (plural, name) = (format!("round{round}"), format!("round{round}.kinds.test"));
            create(&cluster, &plural, false).unwrap();
            let known = cluster.transact(&WriteOptions::by(""), |transaction| {
                let state = &transaction.state;
                Ok((state.definitions.named(&state.store, &name).is_some(), state.definitions.count()))
            });
            assert_eq!(known.unwrap(), (true, 1));
            cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, "", &name, &DeleteOptions::default()).unwrap();
        }
    }
}
