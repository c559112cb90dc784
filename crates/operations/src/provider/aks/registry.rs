//! The container registry of a lab: its cluster is given the right to pull from it.

use std::collections::BTreeMap;

use super::answer::ManagedCluster;
use super::arguments::{self, Arguments};
use super::azure_site::AzureSite;
use super::cluster::wait_settled;
use super::request::until_taken;
use super::site::LabSite;
use crate::error::Result;
use crate::event::{About, Outside, Verb};
use crate::provider::Work;
use klab_lab::spec::Lab;

/// Tag of a cluster with the registry that it may pull from.
const REGISTRY_TAG: &str = "klab-registry";

/// Attaches the lab's registry, unless the cluster says that this was done.
///
/// # Errors
/// When there is no such registry, or the login may not give others a right to it.
pub(super) fn attach(at: &LabSite<'_>, cluster: &ManagedCluster, work: &mut Work<'_>) -> Result<()> {
    let (site, lab) = (at.site, at.lab);
    let place = site.place;
    let (Some(registry), Some(request)) = (&lab.aks.registry, request(place, lab, Some(cluster), &cluster.tags)) else {
        return Ok(());
    };
    let what = format!("registry {registry} to cluster {}", place.cluster);
    let activity = work.events.about(About::Registry, registry).start(Verb::AttachRegistry, what.clone());
    let words = format!("registry `{registry}` is being attached to cluster `{}`", place.cluster);
    work.events.under_way(vec![Outside::new(Verb::AttachRegistry, About::Registry, registry, words)]);
    if let Err(failure) = until_taken(site, &request, &place.cluster, work)? {
        return Err(failure.into_error(&format!("could not attach registry `{registry}`"), Some(place)));
    }
    wait_settled(site, &activity, &what)?;
    work.events.under_way(Vec::new());
    activity.finish(what);
    Ok(())
}

/// The request that attaches the lab's registry; none where there is none, or the cluster has it. az gives the right first
/// and writes the tags afterwards, so that the tag is there only where the right is. (A cluster is created without its
/// registry, as az would wait for it to come up then.)
pub(super) fn request(
    place: &AzureSite,
    lab: &Lab,
    cluster: Option<&ManagedCluster>,
    tags: &BTreeMap<String, String>,
) -> Option<Arguments> {
    let registry = lab.aks.registry.as_ref()?;
    if cluster.is_some_and(|cluster| cluster.tags.get(REGISTRY_TAG) == Some(registry)) {
        return None;
    }
    let mut tags = cluster.map_or(tags, |cluster| &cluster.tags).clone();
    tags.insert(REGISTRY_TAG.to_owned(), registry.clone());
    Some(arguments::registry_attach(place, registry, &tags))
}
