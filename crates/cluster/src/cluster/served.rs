//! Which resources a cluster serves: the fixed table, and what its CustomResourceDefinitions add.

use std::sync::Arc;

use klab_api_machinery::custom::{Definition, Listing, Outline};
use klab_api_machinery::resource::{CUSTOM_RESOURCE_DEFINITIONS, Resource, ResourceId, served};

use klab_scheduler::features::Features;

use super::Cluster;

impl Cluster {
    /// The resource of a kind, if the cluster has it.
    pub(crate) fn resource_of_kind(&self, api_version: &str, kind: &str) -> Option<ResourceId> {
        ResourceId::by_kind(api_version, kind).or_else(|| {
            let outlines = self.outlines();
            let mut defined = outlines.iter().flat_map(|outline| &outline.listings).map(|(id, _)| *id);
            defined.find(|id| id.row().kind == kind && id.row().api_version() == api_version)
        })
    }

    /// Whether objects of a kind are in namespaces; none if the cluster does not have the kind.
    pub(crate) fn scope_of(&self, api_version: &str, kind: &str) -> Option<bool> {
        self.resource_of_kind(api_version, kind).map(|id| id.row().namespaced)
    }

    /// Whether a kind has a `status` subresource in this cluster.
    pub fn has_status(&self, resource: ResourceId) -> bool {
        self.lock().store.has_status(resource)
    }

    /// The outline of the definition of that name.
    pub(crate) fn outline(&self, name: &str) -> Option<Arc<Outline>> {
        let state = self.lock();
        state.definitions.outline(&state.store, name)
    }

    /// The outlines of all definitions, in the order of their names.
    pub(crate) fn outlines(&self) -> Vec<Arc<Outline>> {
        let state = self.lock();
        state.definitions.outlines(&state.store)
    }

    /// The definition of a custom resource.
    pub(crate) fn definition(&self, resource: ResourceId) -> Option<Arc<Definition>> {
        let state = self.lock();
        state.definitions.of(&state.store, resource)
    }
}

/// The resource at `/apis/<group>/<version>/<plural>` of this cluster.
pub(crate) fn resource_at(cluster: &Cluster, group: &str, version: &str, plural: &str) -> Option<ResourceId> {
    if let Some(fixed) = ResourceId::by_path(group, version, plural) {
        return Some(fixed).filter(|_| cluster.features().serves(group, version));
    }
    let outline = cluster.outline(&format!("{plural}.{group}"))?;
    outline.listings.iter().map(|(id, _)| *id).find(|id| id.row().version == version)
}

/// Whether this cluster serves other kinds than most: some of its own, or not all of Kubernetes.
pub(crate) fn has_other_kinds(cluster: &Cluster) -> bool {
    cluster.has_any(CUSTOM_RESOURCE_DEFINITIONS) || cluster.features() != Features::default()
}

/// Those of the fixed table that this cluster serves.
pub(crate) fn fixed(cluster: &Cluster) -> impl Iterator<Item = &'static Resource> {
    let features = cluster.features();
    served().filter(move |row| features.serves(row.group, row.version))
}

/// All resources of this cluster, in the order discovery lists them.
fn rows(cluster: &Cluster) -> Vec<&'static Resource> {
    let mut found: Vec<&'static Resource> = fixed(cluster).collect();
    for outline in cluster.outlines() {
        found.extend(outline.listings.iter().map(|(id, _)| id.row()));
    }
    found
}

/// All resources of this cluster as discovery lists them: groups of custom resources by name, their versions most stable first.
// upstream: kube-aggregator pkg/apis/apiregistration/v1/helper ByGroupPriorityMinimum and ByVersionPriority (v1.36); all groups
// and versions of custom resources have one priority.
pub(crate) fn listings(cluster: &Cluster) -> Vec<Listing> {
    let mut found: Vec<Listing> = fixed(cluster).map(Listing::of).collect();
    let outlines = cluster.outlines();
    let custom = outlines.iter().flat_map(|outline| &outline.listings);
    let mut custom: Vec<Listing> = custom.map(|(_, listing)| listing.clone()).collect();
    custom.sort_by(|one, other| {
        let versions = || stability(other.row.version).cmp(&stability(one.row.version));
        let names = || one.row.version.cmp(other.row.version);
        one.row.group.cmp(other.row.group).then_with(versions).then_with(names)
    });
    found.extend(custom);
    found
}

/// How far a version has come, as `v2` > `v1` > `v1beta2` > `v1alpha1` > any other text.
// upstream: apimachinery pkg/version CompareKubeAwareVersionStrings
fn stability(version: &str) -> (u8, u64, u64) {
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let parsed = version.strip_prefix('v').and_then(|rest| {
        if let Some((major, minor)) = rest.split_once("alpha") {
            return Some((1, number(major)?, number(minor)?));
        }
        if let Some((major, minor)) = rest.split_once("beta") {
            return Some((2, number(major)?, number(minor)?));
        }
        Some((3, number(rest)?, 0))
    });
    parsed.unwrap_or_default()
}

/// Group and version of everything a cluster serves, each once, sorted.
pub(crate) fn group_versions(cluster: &Cluster) -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<_> = rows(cluster).into_iter().map(|row| (row.group, row.version)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The resources of a group and version.
pub(crate) fn resources_of(cluster: &Cluster, group: &str, version: &str) -> Vec<&'static Resource> {
    rows(cluster).into_iter().filter(|row| row.group == group && row.version == version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_how_stable_they_are() {
        let ordered = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2"];
        assert!(ordered.is_sorted_by(|one, other| stability(one) > stability(other)));
        for other in ["foo1", "v", "v1gamma1", "v+1", "v1beta", "1", "v99999999999999999999"] {
            assert_eq!(stability(other), (0, 0, 0), "{other}");
        }
    }
}
