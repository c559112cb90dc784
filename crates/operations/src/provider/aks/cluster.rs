//! The cluster as a whole: created, upgraded, stopped, started; each request waited for.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::answer::{Group, ManagedCluster};
use super::arguments::journal_action;
use super::arguments::{self, Arguments};
use super::az::lost;
use super::azure_site::AzureSite;
use super::azure_state::{AzureState, without_tags};
use super::failure::Failure;
use super::pools::warn_of_lost_tags;
use super::printed;
use super::reason;
use super::removal;
use super::request::{Meaning, Outcome, change, until_taken_as};
use super::site::{LabSite, Site};
use super::wait::{Poll, until};
use crate::error::{Code, Error, Result};
use crate::event::{About, Activity, Outside, Verb};
use crate::provider::Work;
use klab_lab::plan::size_name;
use klab_lab::spec::Pool;
use klab_lab::words::nodes_of_size;

/// How long a request for a group goes before the one for its cluster.
const HEAD_START: Duration = Duration::from_millis(100);

/// Makes group and cluster with its first pool, and waits until the cluster is there.
///
/// # Errors
/// When Azure refuses or fails; what is left is named.
pub(super) fn create(
    at: &LabSite<'_>,
    first: &Pool,
    world: &AzureState,
    work: &mut Work<'_>,
) -> Result<ManagedCluster> {
    let site = at.site;
    let place = site.place;
    let what = format!("cluster {} in {}", place.cluster, place.location);
    wait_for_removals(site, world, work)?;
    let activity = work.events.about(About::Cluster, &place.cluster).start(Verb::CreateCluster, what.clone());
    let group_is_there = world.group.as_ref().is_some_and(|group| !group.is_going());
    let arguments = at.cluster_create(first);
    let mut early = None;
    if place.own_group && !group_is_there {
        early = request_group(site, &arguments::group_create(place, &at.tags), &arguments, work)?;
    }
    let mut made_again = false;
    loop {
        work.events.under_way(vec![outside(
            place,
            Verb::CreateCluster,
            format!("cluster `{}` is being created", place.cluster),
        )]);
        request_cluster(site, &arguments, early.take(), work)?;
        let cluster = wait_settled(site, &activity, &what)?;
        work.events.under_way(Vec::new());
        match cluster {
            Some(cluster) if cluster.provisioning_state == "Succeeded" => {
                if let Some(pool) = cluster.pool(&first.name.value) {
                    warn_of_lost_tags(site, pool, work);
                }
                let version = cluster.version().unwrap_or("?");
                let pool =
                    format!("pool {}: {}", first.name.value, nodes_of_size(first.nodes.value, &size_name(first)));
                activity.finish(format!("{what} (Kubernetes {version}, {pool})"));
                return Ok(cluster);
            }
            Some(cluster) if !made_again => {
                made_again = true;
                let words = reason::of_failed_cluster(site, &cluster).words;
                work.events.about(About::Cluster, &place.cluster).warn(
                    Code::ClusterMadeAgain,
                    format!("cluster `{}` failed in Azure: {words}; klab removes it and makes it again", place.cluster),
                );
                removal::clear_cluster(site, work)?;
            }
            Some(cluster) => {
                let failure = reason::of_failed_cluster(site, &cluster);
                return Err(failure.into_error(&format!("could not create cluster `{}`", place.cluster), Some(place)));
            }
            None => {
                let waited = klab_lab::words::duration(site.az.pace.unseen());
                let words = format!(
                    "could not create cluster `{}`: Azure took the request, and shows no such cluster after {waited}",
                    place.cluster
                );
                return Err(Error::message(Code::AzureRefused, words));
            }
        }
    }
}

/// Asks for the lab's own group. Gives what a request for the cluster came to, where one was made by the way.
///
/// az needs longer until it asks for a cluster than Azure needs to make a group; so both calls are on their way at once.
/// Where Azure has heard of the cluster first, it has refused for want of the group, and nothing has happened.
fn request_group(
    site: Site<'_>,
    group: &Arguments,
    cluster: &Arguments,
    work: &mut Work<'_>,
) -> Result<Option<Outcome>> {
    let Site { az, place } = site;
    work.intend(&journal_action(group), &place.group)?;
    let (made, early) = std::thread::scope(|scope| -> Result<(Outcome, Option<Outcome>)> {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            // The receiver is gone only when the journal could not be written.
            let _ = sender.send(az.change(group));
        });
        if let Ok(made) = receiver.recv_timeout(HEAD_START) {
            return Ok((made, None));
        }
        work.intend(&journal_action(cluster), &place.cluster)?;
        work.events.under_way(vec![outside(
            place,
            Verb::CreateCluster,
            format!("cluster `{}` is being created", place.cluster),
        )]);
        let early = az.change(cluster);
        Ok((receiver.recv().map_err(lost)?, Some(early)))
    })?;
    let taken = match made {
        Ok(taken) => taken,
        Err(failure) if !failure.class.passes() => {
            return Err(
                failure.into_error(&format!("could not create the resource group `{}`", place.group), Some(place))
            );
        }
        Err(_) => {
            az.pause(Duration::ZERO);
            change(site, group, &place.group, "create the resource group", work)?
        }
    };
    if let Some(group) = printed::answer::<Group>(&taken.printed).ok().filter(|group| !place.owns(&group.tags)) {
        return Err(without_tags(&format!("resource group `{}`", group.name), &group.tags, place));
    }
    Ok(early.filter(|early| !early.as_ref().is_err_and(Failure::is_absence_of_group)))
}

/// Asks for the cluster until the request is taken, or it is there from a request whose answer was lost.
fn request_cluster(site: Site<'_>, arguments: &Arguments, early: Option<Outcome>, work: &mut Work<'_>) -> Result<()> {
    let place = site.place;
    let outcome = until_taken_as(site, arguments, &place.cluster, early, work, |failure| {
        // The part of Azure that makes clusters may hear of a group later than the one that made it.
        let is_early = failure.is_absence_of_group() && place.own_group;
        if !failure.class.may_have_been_taken() && !is_early {
            return Ok(Meaning::AsItSays);
        }
        let world = AzureState::look(site)?;
        Ok(match world.cluster {
            Some(cluster) if !cluster.is_going() => Meaning::Taken,
            _ if is_early => Meaning::Lag,
            _ => Meaning::AsItSays,
        })
    })?;
    match outcome {
        Ok(taken) => {
            if let Some(words) = taken.warning {
                work.events.about(About::Cluster, &place.cluster).warn(Code::AzureWarns, words);
            }
            Ok(())
        }
        Err(failure) => Err(failure.into_error(&format!("could not create cluster `{}`", place.cluster), Some(place))),
    }
}

/// What an earlier `down` or a failed creation left on its way out is waited for; a failed cluster is removed.
fn wait_for_removals(site: Site<'_>, world: &AzureState, work: &mut Work<'_>) -> Result<()> {
    if world.group.as_ref().is_some_and(Group::is_going) && site.place.own_group {
        return removal::clear_group(site, work);
    }
    match &world.cluster {
        Some(cluster) if cluster.is_going() || world.failed_at_birth() => removal::clear_cluster(site, work),
        _ => Ok(()),
    }
}

/// Waits until the cluster is not being changed any more; `None` when there is none, which Azure says for a while of one that it
/// has only just been asked for.
///
/// # Errors
/// As [`until`]; when the cluster does not carry the lab's tags.
pub(super) fn wait_settled(site: Site<'_>, activity: &Activity, what: &str) -> Result<Option<ManagedCluster>> {
    let Site { az, place } = site;
    let mut unseen: Option<Instant> = None;
    until(site, activity, what, || {
        Ok(match az.cluster(place) {
            Ok(Some(cluster)) if !place.owns(&cluster.tags) => {
                return Err(without_tags(&format!("cluster `{}`", cluster.name), &cluster.tags, place));
            }
            Ok(Some(cluster)) if !cluster.is_settled() => {
                unseen = None;
                Poll::GoesOn(cluster.provisioning_state)
            }
            Ok(None) if unseen.get_or_insert_with(Instant::now).elapsed() < az.pace.unseen() => {
                Poll::GoesOn("not to be seen yet".to_owned())
            }
            Ok(found) => Poll::Over(found),
            Err(failure) => Poll::Silence(failure),
        })
    })
}

/// Brings the control plane to a version, one minor version at a time, as Azure wants it.
///
/// # Errors
/// When Azure refuses or fails.
pub(super) fn upgrade(site: Site<'_>, from: &str, to: &str, work: &mut Work<'_>) -> Result<()> {
    let place = site.place;
    for version in upgrade_path(from, to)? {
        let what = format!("control plane to Kubernetes {version}");
        let activity = work.events.about(About::Cluster, &place.cluster).start(Verb::UpgradeControlPlane, what.clone());
        let words = format!("the control plane of `{}` is being upgraded to {version}", place.cluster);
        work.events.under_way(vec![outside(place, Verb::UpgradeControlPlane, words)]);
        change(site, &arguments::cluster_upgrade(place, &version), &place.cluster, "upgrade cluster", work)?;
        let could_not = format!("could not upgrade cluster `{}` to {version}", place.cluster);
        settle(site, activity, what, &could_not, work)?;
    }
    Ok(())
}

/// Waits until a change of the cluster has come to its end, which must be a good one.
pub(super) fn settle(
    site: Site<'_>,
    activity: Activity,
    what: String,
    could_not: &str,
    work: &mut Work<'_>,
) -> Result<()> {
    let cluster = wait_settled(site, &activity, &what)?;
    work.events.under_way(Vec::new());
    let failure = match cluster {
        Some(cluster) if cluster.provisioning_state == "Succeeded" => {
            activity.finish(what);
            return Ok(());
        }
        Some(cluster) => reason::of_failed_cluster(site, &cluster),
        None => Failure::from_words(None, "the cluster is gone".to_owned()),
    };
    Err(failure.into_error(could_not, Some(site.place)))
}

/// Gives the cluster autoscaler the settings of the lab file, and waits until it has them.
///
/// # Errors
/// When Azure refuses or fails.
pub(super) fn set_autoscaler(at: &LabSite<'_>, changes: &[String], work: &mut Work<'_>) -> Result<()> {
    let (site, place) = (at.site, at.site.place);
    let what = format!("the cluster autoscaler: {}", changes.join(", "));
    let activity = work.events.about(About::Cluster, &place.cluster).start(Verb::SetAutoscaler, what.clone());
    let words = format!("the autoscaler of `{}` is being changed", place.cluster);
    work.events.under_way(vec![outside(place, Verb::SetAutoscaler, words)]);
    let request = arguments::cluster_autoscaler(place, &at.lab.autoscaler_settings());
    change(site, &request, &place.cluster, "set the autoscaler of cluster", work)?;
    let could_not = format!("could not set the autoscaler of cluster `{}`", place.cluster);
    settle(site, activity, what, &could_not, work)
}

/// The versions on the way: every minor version between, then the wanted one.
///
/// # Errors
/// Where the way would lead back.
pub(super) fn upgrade_path(from: &str, to: &str) -> Result<Vec<String>> {
    let minor = |version: &str| version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    let (Some(have), Some(want)) = (minor(from), minor(to)) else {
        return Err(Error::message(Code::KlabFault, format!("could not tell the way from Kubernetes {from} to {to}")));
    };
    if have > want {
        let message = format!("the cluster has Kubernetes {from}, and AKS does not go back to {to}");
        return Err(Error::message(Code::NeedsNewNodes, message)
            .hint("`klab down` and `klab up` recreate it with the older version"));
    }
    let between = (have + 1..want).map(|minor| format!("1.{minor}"));
    Ok(between.chain([to.to_owned()]).collect())
}

/// What goes on with the cluster.
pub(super) fn outside(place: &AzureSite, verb: Verb, words: String) -> Outside {
    Outside::new(verb, About::Cluster, &place.cluster, words)
}

/// Stops or starts the machines and waits until that is done. Safe to repeat.
pub(super) fn switch(site: Site<'_>, on: bool, work: &mut Work<'_>) -> Result<()> {
    let place = site.place;
    let Some(cluster) = AzureState::look(site)?.cluster else {
        return Err(Error::message(Code::ClusterGone, format!("lab `{}` has no cluster in Azure", place.lab)));
    };
    let what = format!("cluster {}", place.cluster);
    let (doing, verb, state, request) = if on {
        (Verb::StartCluster, "start cluster", "started", arguments::cluster_start(place))
    } else {
        (Verb::StopCluster, "stop cluster", "stopped", arguments::cluster_stop(place))
    };
    let activity = work.events.about(About::Cluster, &place.cluster).start(doing, what.clone());
    if cluster.is_settled() && cluster.is_stopped() != on {
        activity.finish(format!("{what}; nothing to change"));
        return Ok(());
    }
    work.events.under_way(vec![outside(place, doing, format!("cluster `{}` is being {state}", place.cluster))]);
    change(site, &request, &place.cluster, verb, work)?;
    let cluster = wait_settled(site, &activity, &what)?;
    work.events.under_way(Vec::new());
    match cluster {
        Some(cluster) if cluster.provisioning_state == "Succeeded" && cluster.is_stopped() != on => {
            activity.finish(what);
            Ok(())
        }
        Some(cluster) => {
            let failure = reason::of_failed_cluster(site, &cluster);
            Err(failure.into_error(&format!("could not {verb} `{}`", place.cluster), Some(place)))
        }
        None => Err(Error::message(Code::ClusterGone, format!("cluster `{}` is gone", place.cluster))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_plane_goes_one_minor_version_at_a_time_and_never_back() {
        assert_eq!(upgrade_path("1.33.4", "1.34").unwrap(), ["1.34"]);
        assert_eq!(upgrade_path("1.33.4", "1.36.1").unwrap(), ["1.34", "1.35", "1.36.1"]);
        assert_eq!(upgrade_path("1.34.1", "1.34.5").unwrap(), ["1.34.5"]);
        assert!(upgrade_path("1.34.1", "1.33").unwrap_err().to_string().contains("does not go back"));
    }
}
