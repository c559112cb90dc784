//! A scheduler that users configure: Azure is asked for it, and defines the resource of its configuration in the cluster.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;

use super::answer::ManagedCluster;
use super::arguments;
use super::cluster::{outside, settle};
use super::request::change;
use super::site::{LabSite, Site};
use super::wait::{Poll, until};
use crate::client::{connect, runtime};
use crate::error::Result;
use crate::event::{About, Verb};
use crate::provider::Work;
use klab_cluster::system::SCHEDULER_CONFIGURATIONS;
use klab_lab::spec::Lab;

/// Whether the lab configures a scheduler that Azure still keeps for itself.
pub(super) fn is_to_configure(lab: &Lab, cluster: &ManagedCluster) -> bool {
    lab.scheduler.is_some() && !cluster.scheduler_profile.is_configurable()
}

/// Lets users configure the scheduler of a cluster that is there.
///
/// # Errors
/// When Azure refuses or fails.
pub(super) fn configure(at: &LabSite<'_>, work: &mut Work<'_>) -> Result<()> {
    let (site, place) = (at.site, at.site.place);
    let what = "the scheduler for its own configuration".to_owned();
    let activity = work.events.about(About::Cluster, &place.cluster).start(Verb::ConfigureScheduler, what.clone());
    let words = format!("the scheduler of `{}` is being changed", place.cluster);
    work.events.under_way(vec![outside(place, Verb::ConfigureScheduler, words)]);
    change(site, &arguments::cluster_scheduler(place), &place.cluster, "configure the scheduler of cluster", work)?;
    settle(site, activity, what, &format!("could not configure the scheduler of cluster `{}`", place.cluster), work)
}

/// Waits until the cluster has the resource by which its scheduler is configured: Azure defines it after the cluster is there.
///
/// # Errors
/// When the cluster does not answer, or has it not at the deadline.
pub(super) fn wait_until_defined(site: Site<'_>, kubeconfig: &Path, work: &mut Work<'_>) -> Result<()> {
    let what = format!("{SCHEDULER_CONFIGURATIONS} of {}", site.place.cluster);
    let runtime = runtime()?;
    let client = runtime.block_on(connect(kubeconfig))?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let activity = work.events.about(About::Cluster, &site.place.cluster).start(Verb::WaitCluster, what.clone());
    until(site, &activity, &what, || {
        let found = runtime.block_on(definitions.get_metadata_opt(SCHEDULER_CONFIGURATIONS));
        Ok(if matches!(found, Ok(Some(_))) { Poll::Over(()) } else { Poll::GoesOn("not defined yet".to_owned()) })
    })?;
    activity.finish(what);
    Ok(())
}
