//! The cluster as a whole: looked at, created, upgraded, stopped, started, removed; each request waited for.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::answer::{Cluster, Group};
use super::arguments::{self, Arguments};
use super::az::{Az, CHANGE};
use super::catalogue::Class;
use super::failure::Failure;
use super::look::unless_absent;
use super::place::Place;
use super::pools::journal_action;
use crate::error::{Error, Kind, Result};
use crate::event::Activity;
use crate::provider::Work;
use crate::spec::{Lab, Pool};

/// How often a call that failed on the way to Azure is made again.
const ATTEMPTS: u32 = 4;

/// How long a request for a group goes before the one for its cluster.
const HEAD_START: Duration = Duration::from_millis(100);

/// What is in Azure of a lab.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    /// The resource group, the lab's own or the user's.
    pub(super) group: Option<Group>,
    /// The cluster.
    pub(super) cluster: Option<Cluster>,
}

impl World {
    /// Looks at group and cluster at once.
    ///
    /// # Errors
    /// When Azure does not answer, or something of that name is not klab's.
    pub(super) fn look(az: &Az, place: &Place) -> Result<Self> {
        let world = Self::look_at_all(az, place)?;
        world.refuse_foreign(place)?;
        Ok(world)
    }

    /// Looks at a lab of which this machine knows nothing: where there is no group, one question is enough.
    ///
    /// # Errors
    /// As [`World::look`].
    pub(super) fn look_at_new(az: &Az, place: &Place) -> Result<Self> {
        if !place.own_group {
            return Self::look(az, place);
        }
        let cluster = az.cluster_or_why_not(place);
        if cluster.as_ref().is_err_and(Failure::is_absence_of_group) {
            return Ok(Self::default());
        }
        let failed = |failure: Failure| could_not_look(failure, place);
        let group = az.group(&place.group).map_err(failed)?;
        let world = Self { group, cluster: unless_absent(cluster).map_err(failed)? };
        world.refuse_foreign(place)?;
        Ok(world)
    }

    /// Looks at group and cluster at once; what is not klab's counts as not there.
    ///
    /// # Errors
    /// When Azure does not answer.
    pub(super) fn look_at_own(az: &Az, place: &Place) -> Result<Self> {
        let mut world = Self::look_at_all(az, place)?;
        world.group = world.group.filter(|group| !place.own_group || place.owns(&group.tags));
        world.cluster = world.cluster.filter(|cluster| place.owns(&cluster.tags));
        Ok(world)
    }

    fn look_at_all(az: &Az, place: &Place) -> Result<Self> {
        let (group, cluster) = std::thread::scope(|scope| {
            let group = scope.spawn(|| az.group(&place.group));
            let cluster = az.cluster(place);
            (group.join(), cluster)
        });
        let failed = |failure: Failure| could_not_look(failure, place);
        let group = group.map_err(|_| Error::message(Kind::Failed, "could not run two calls of az at once"))?;
        Ok(Self { group: group.map_err(failed)?, cluster: cluster.map_err(failed)? })
    }

    /// klab changes only what carries its tags.
    fn refuse_foreign(&self, place: &Place) -> Result<()> {
        let foreign = |what: String| {
            Err(Error::message(
                Kind::Outside,
                format!("{what} exists and does not carry the tags of this lab; klab does not touch it"),
            )
            .hint("another lab name, or `[aks] resource_group` in the lab file, chooses another place"))
        };
        match (&self.group, &self.cluster) {
            (Some(group), _) if place.own_group && !place.owns(&group.tags) => {
                foreign(format!("resource group `{}`", group.name))
            }
            (_, Some(cluster)) if !place.owns(&cluster.tags) => {
                foreign(format!("cluster `{}` in resource group `{}`", cluster.name, place.group))
            }
            _ => Ok(()),
        }
    }

    /// The cluster, unless it is going or its creation failed: then there is none to build on.
    pub(super) fn usable(&self) -> Option<&Cluster> {
        if self.group.as_ref().is_some_and(Group::is_going) {
            return None;
        }
        self.cluster.as_ref().filter(|cluster| !is_going(cluster) && !failed_at_birth(cluster))
    }
}

fn could_not_look(failure: Failure, place: &Place) -> Error {
    failure.into_error(&format!("could not look for lab `{}` in Azure", place.lab), Some(place))
}

fn is_going(cluster: &Cluster) -> bool {
    cluster.provisioning_state == "Deleting"
}

/// A cluster that failed before any of its pools came up.
fn failed_at_birth(cluster: &Cluster) -> bool {
    matches!(cluster.provisioning_state.as_str(), "Failed" | "Canceled")
        && !cluster.agent_pool_profiles.iter().any(|pool| pool.provisioning_state == "Succeeded")
}

fn is_settled(cluster: &Cluster) -> bool {
    matches!(cluster.provisioning_state.as_str(), "Succeeded" | "Failed" | "Canceled")
}

/// Makes group and cluster with its first pool, and waits until the cluster is there.
///
/// # Errors
/// When Azure refuses or fails; what is left is named.
pub(super) fn create(
    az: &Az,
    place: &Place,
    lab: &Lab,
    first: &Pool,
    tags: &BTreeMap<String, String>,
    world: &World,
    work: &mut Work<'_>,
) -> Result<Cluster> {
    let what = format!("cluster {} in {}", place.cluster, place.location);
    wait_for_removals(az, place, world, work)?;
    let activity = work.events.start("Creating", what.clone());
    let group_is_there = world.group.as_ref().is_some_and(|group| !group.is_going());
    let arguments = arguments::cluster_create(lab, place, first, tags);
    let mut early = None;
    if place.own_group && !group_is_there {
        early = request_group(az, place, &arguments::group_create(place, tags), &arguments, work)?;
    }
    let mut made_again = false;
    loop {
        work.events.under_way(vec![format!("cluster `{}` is being created", place.cluster)]);
        request_cluster(az, place, &arguments, early.take(), work)?;
        let cluster = wait_settled(az, place, &activity, &what)?;
        work.events.under_way(Vec::new());
        match cluster {
            Some(cluster) if cluster.provisioning_state == "Succeeded" => {
                let version = cluster.version().unwrap_or("?");
                let pool =
                    format!("pool {}: {} × {}", first.name.value, first.nodes.value, crate::plan::size_name(first));
                activity.finish("Created", format!("{what} (Kubernetes {version}, {pool})"));
                return Ok(cluster);
            }
            Some(cluster) if !made_again => {
                made_again = true;
                let words = cluster.failure().words;
                work.events.warn(format!(
                    "cluster `{}` failed in Azure: {words}; it is removed and made once more",
                    place.cluster
                ));
                remove_cluster(az, place, work)?;
            }
            Some(cluster) => {
                let error =
                    cluster.failure().into_error(&format!("could not create cluster `{}`", place.cluster), Some(place));
                return Err(error.left_behind(format!("cluster `{}` in state Failed", place.cluster)));
            }
            None => {
                let words = format!(
                    "could not create cluster `{}`: Azure took the request, but there is no such cluster",
                    place.cluster
                );
                return Err(Error::message(Kind::Failed, words));
            }
        }
    }
}

/// What a call of az that changes something came to.
type Outcome = std::result::Result<String, Failure>;

/// Asks for the lab's own group. Gives what a request for the cluster came to, where one was made by the way.
///
/// az needs longer until it asks for a cluster than Azure needs to make a group; so both calls are on their way at once.
/// Where Azure has heard of the cluster first, it has refused for want of the group, and nothing has happened.
fn request_group(
    az: &Az,
    place: &Place,
    group: &Arguments,
    cluster: &Arguments,
    work: &mut Work<'_>,
) -> Result<Option<Outcome>> {
    let lost = || Error::message(Kind::Failed, "could not run two calls of az at once");
    work.intend(&journal_action(group), &place.group)?;
    let (made, early) = std::thread::scope(|scope| -> Result<(Outcome, Option<Outcome>)> {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            // The receiver is gone only when the journal could not be written.
            let _ = sender.send(az.run(group, CHANGE));
        });
        if let Ok(made) = receiver.recv_timeout(HEAD_START) {
            return Ok((made, None));
        }
        work.intend(&journal_action(cluster), &place.cluster)?;
        work.events.under_way(vec![format!("cluster `{}` is being created", place.cluster)]);
        let early = az.run(cluster, CHANGE);
        Ok((receiver.recv().map_err(|_| lost())?, Some(early)))
    })?;
    if let Err(failure) = made {
        if !failure.class.passes() {
            let error =
                failure.into_error(&format!("could not create the resource group `{}`", place.group), Some(place));
            return Err(match early {
                Some(Ok(_)) => error.left_behind(format!("cluster `{}`, being created", place.cluster)),
                _ => error,
            });
        }
        az.pause(Duration::ZERO);
        change(az, place, group, &place.group, "create the resource group", work)?;
    }
    Ok(early.filter(|early| !early.as_ref().is_err_and(Failure::is_absence_of_group)))
}

/// Asks for the cluster until the request is taken, or it is there from a request whose answer was lost.
fn request_cluster(
    az: &Az,
    place: &Place,
    arguments: &Arguments,
    mut early: Option<Outcome>,
    work: &mut Work<'_>,
) -> Result<()> {
    let since = Instant::now();
    for attempt in 1.. {
        let outcome = if let Some(early) = early.take() {
            early
        } else {
            work.intend(&journal_action(arguments), &place.cluster)?;
            az.run(arguments, CHANGE)
        };
        let Err(failure) = outcome else { return Ok(()) };
        let failed = |failure: Failure| {
            failure.into_error(&format!("could not create cluster `{}`", place.cluster), Some(place))
        };
        if !failure.class.may_have_been_taken() {
            return Err(failed(failure));
        }
        let world = World::look(az, place)?;
        match world.cluster {
            Some(cluster) if !is_going(&cluster) => return Ok(()),
            _ if !failure.class.passes() => return Err(failed(failure)),
            _ => {}
        }
        let conflict =
            matches!(failure.class, Class::Busy | Class::GroupGoing | Class::Preempted | Class::BeingDeleted);
        if (conflict && since.elapsed() > az.pace.patience) || (!conflict && attempt >= ATTEMPTS) {
            return Err(failed(failure));
        }
        az.pause(since.elapsed());
    }
    Ok(())
}

/// What an earlier `down` or a failed creation left on its way out is waited for; a failed cluster is removed.
fn wait_for_removals(az: &Az, place: &Place, world: &World, work: &mut Work<'_>) -> Result<()> {
    let group_goes = world.group.as_ref().is_some_and(Group::is_going);
    if group_goes && place.own_group {
        return wait_group_gone(az, place, work);
    }
    match &world.cluster {
        Some(cluster) if is_going(cluster) => wait_cluster_gone(az, place, work),
        Some(cluster) if failed_at_birth(cluster) => remove_cluster(az, place, work),
        _ => Ok(()),
    }
}

/// One change that az itself waits for; made again where that helps.
pub(super) fn change(
    az: &Az,
    place: &Place,
    arguments: &Arguments,
    subject: &str,
    verb: &str,
    work: &mut Work<'_>,
) -> Result<()> {
    let since = Instant::now();
    let mut attempt = 0;
    loop {
        work.intend(&journal_action(arguments), subject)?;
        let Err(failure) = az.run(arguments, CHANGE) else { return Ok(()) };
        attempt += 1;
        let conflict =
            matches!(failure.class, Class::Busy | Class::GroupGoing | Class::Preempted | Class::BeingDeleted);
        let again =
            if conflict { since.elapsed() < az.pace.patience } else { failure.class.passes() && attempt < ATTEMPTS };
        if !again {
            return Err(failure.into_error(&format!("could not {verb} `{subject}`"), Some(place)));
        }
        az.pause(since.elapsed());
    }
}

/// Waits until the cluster is not being changed any more; `None` when there is none.
pub(super) fn wait_settled(az: &Az, place: &Place, activity: &Activity, what: &str) -> Result<Option<Cluster>> {
    let since = Instant::now();
    let mut silent: Option<Instant> = None;
    loop {
        let looked = Instant::now();
        match az.cluster(place) {
            Ok(None) => return Ok(None),
            Ok(Some(cluster)) if is_settled(&cluster) => return Ok(Some(cluster)),
            Ok(Some(cluster)) => {
                silent = None;
                activity.progress(format!("{what}: {}", cluster.provisioning_state));
            }
            Err(failure) => {
                let since = *silent.get_or_insert_with(Instant::now);
                if !failure.class.passes() || since.elapsed() > az.pace.patience {
                    return Err(
                        failure.into_error(&format!("could not look at cluster `{}`", place.cluster), Some(place))
                    );
                }
            }
        }
        if since.elapsed() > az.pace.deadline {
            let waited = crate::ui::duration(since.elapsed());
            let message = format!("Azure was still at work on cluster `{}` after {waited}", place.cluster);
            return Err(Error::message(Kind::Deadline, message)
                .left_behind(format!("cluster `{}`, still being changed", place.cluster)));
        }
        az.pause_after_look(since, looked);
    }
}

/// Brings the control plane to a version, one minor version at a time, as Azure wants it.
///
/// # Errors
/// When Azure refuses or fails.
pub(super) fn upgrade(az: &Az, place: &Place, from: &str, to: &str, work: &mut Work<'_>) -> Result<()> {
    for version in upgrade_path(from, to)? {
        let what = format!("control plane to Kubernetes {version}");
        let activity = work.events.start("Upgrading", what.clone());
        work.events.under_way(vec![format!("the control plane of `{}` is being upgraded to {version}", place.cluster)]);
        change(az, place, &arguments::cluster_upgrade(place, &version), &place.cluster, "upgrade cluster", work)?;
        let cluster = wait_settled(az, place, &activity, &what)?;
        work.events.under_way(Vec::new());
        match cluster {
            Some(cluster) if cluster.provisioning_state == "Succeeded" => {
                activity.finish("Upgraded", what);
            }
            cluster => {
                let failure = cluster.map_or_else(
                    || Failure::from_words(None, "the cluster is gone".to_owned()),
                    |cluster| cluster.failure(),
                );
                return Err(failure
                    .into_error(&format!("could not upgrade cluster `{}` to {version}", place.cluster), Some(place)));
            }
        }
    }
    Ok(())
}

/// The versions on the way: every minor version between, then the wanted one.
fn upgrade_path(from: &str, to: &str) -> Result<Vec<String>> {
    let minor = |version: &str| version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    let (Some(have), Some(want)) = (minor(from), minor(to)) else {
        return Err(Error::message(Kind::Failed, format!("could not tell the way from Kubernetes {from} to {to}")));
    };
    if have > want {
        let message = format!("the cluster has Kubernetes {from}, and AKS does not go back to {to}");
        return Err(
            Error::message(Kind::Usage, message).hint("`klab down` and `klab up` make it anew with the older version")
        );
    }
    let between = (have + 1..want).map(|minor| format!("1.{minor}"));
    Ok(between.chain([to.to_owned()]).collect())
}

/// Stops or starts the machines and waits until that is done. Safe to repeat.
pub(super) fn switch(az: &Az, place: &Place, on: bool, work: &mut Work<'_>) -> Result<()> {
    let Some(cluster) = World::look(az, place)?.cluster else {
        return Err(Error::message(Kind::Outside, format!("lab `{}` has no cluster in Azure", place.lab)));
    };
    let what = format!("cluster {}", place.cluster);
    let (doing, done, verb, state, request) = if on {
        ("Starting", "Started", "start cluster", "started", arguments::cluster_start(place))
    } else {
        ("Stopping", "Stopped", "stop cluster", "stopped", arguments::cluster_stop(place))
    };
    let activity = work.events.start(doing, what.clone());
    if is_settled(&cluster) && cluster.is_stopped() != on {
        activity.finish(done, format!("{what}; it was so already"));
        return Ok(());
    }
    work.events.under_way(vec![format!("cluster `{}` is being {state}", place.cluster)]);
    change(az, place, &request, &place.cluster, verb, work)?;
    let cluster = wait_settled(az, place, &activity, &what)?;
    work.events.under_way(Vec::new());
    match cluster {
        Some(cluster) if cluster.provisioning_state == "Succeeded" && cluster.is_stopped() != on => {
            activity.finish(done, what);
            Ok(())
        }
        Some(cluster) => {
            Err(cluster.failure().into_error(&format!("could not {verb} `{}`", place.cluster), Some(place)))
        }
        None => Err(Error::message(Kind::Failed, format!("cluster `{}` is gone", place.cluster))),
    }
}

/// Asks Azure to remove the lab's own group, or the cluster in the user's.
pub(super) fn begin_removal(az: &Az, place: &Place, world: &World, work: &mut Work<'_>) -> Result<()> {
    let gone_is_fine = |result: Result<(), Failure>, what: &str| match result {
        Err(failure) if !failure.is_absence() && failure.class != Class::GroupGoing => {
            Err(failure.into_error(&format!("could not remove {what}"), Some(place)))
        }
        _ => Ok(()),
    };
    if place.own_group {
        if world.group.as_ref().is_some_and(|group| !group.is_going()) {
            let what = format!("resource group `{}`", place.group);
            let arguments = arguments::group_delete(place);
            gone_is_fine(persist(az, &arguments, &place.group, work)?, &what)?;
        }
    } else if world.cluster.as_ref().is_some_and(|cluster| !is_going(cluster)) {
        let what = format!("cluster `{}`", place.cluster);
        let arguments = arguments::cluster_delete(place);
        gone_is_fine(persist(az, &arguments, &place.cluster, work)?, &what)?;
    }
    Ok(())
}

/// Makes a request until it is taken or refused for good.
fn persist(az: &Az, arguments: &Arguments, subject: &str, work: &mut Work<'_>) -> Result<Result<(), Failure>> {
    let since = Instant::now();
    let mut attempt = 0;
    loop {
        work.intend(&journal_action(arguments), subject)?;
        let Err(failure) = az.run(arguments, CHANGE) else { return Ok(Ok(())) };
        attempt += 1;
        let conflict = matches!(failure.class, Class::Busy | Class::Preempted);
        let again =
            if conflict { since.elapsed() < az.pace.patience } else { failure.class.passes() && attempt < ATTEMPTS };
        if !again || failure.class == Class::GroupGoing {
            return Ok(Err(failure));
        }
        az.pause(since.elapsed());
    }
}

fn remove_cluster(az: &Az, place: &Place, work: &mut Work<'_>) -> Result<()> {
    let arguments = arguments::cluster_delete(place);
    match persist(az, &arguments, &place.cluster, work)? {
        Err(failure) if !failure.is_absence() => {
            return Err(
                failure.into_error(&format!("could not remove the failed cluster `{}`", place.cluster), Some(place))
            );
        }
        _ => {}
    }
    wait_cluster_gone(az, place, work)
}

fn wait_cluster_gone(az: &Az, place: &Place, work: &mut Work<'_>) -> Result<()> {
    let what = format!("cluster {}", place.cluster);
    let activity = work.events.start("Removing", what.clone());
    wait_gone(az, place, &what, &activity, || az.cluster(place).map(|found| found.is_some()))?;
    activity.finish("Removed", what);
    Ok(())
}

fn wait_group_gone(az: &Az, place: &Place, work: &mut Work<'_>) -> Result<()> {
    let what = format!("resource group {}", place.group);
    let activity = work.events.start("Removing", what.clone());
    wait_gone(az, place, &what, &activity, || az.group(&place.group).map(|found| found.is_some()))?;
    activity.finish("Removed", what);
    Ok(())
}

/// Waits until what [`begin_removal`] asked for is done.
pub(super) fn wait_removed(az: &Az, place: &Place, activity: &Activity) -> Result<()> {
    if place.own_group {
        let what = format!("resource group {}", place.group);
        wait_gone(az, place, &what, activity, || {
            az.group(&place.group).map(|found| found.is_some_and(|group| place.owns(&group.tags)))
        })
    } else {
        let what = format!("cluster {}", place.cluster);
        wait_gone(az, place, &what, activity, || {
            az.cluster(place).map(|found| found.is_some_and(|cluster| place.owns(&cluster.tags)))
        })
    }
}

fn wait_gone(
    az: &Az,
    place: &Place,
    what: &str,
    activity: &Activity,
    mut is_there: impl FnMut() -> Result<bool, Failure>,
) -> Result<()> {
    let since = Instant::now();
    let mut silent: Option<Instant> = None;
    loop {
        let looked = Instant::now();
        match is_there() {
            Ok(false) => return Ok(()),
            Ok(true) => silent = None,
            Err(failure) => {
                let since = *silent.get_or_insert_with(Instant::now);
                if !failure.class.passes() || since.elapsed() > az.pace.patience {
                    return Err(failure.into_error(&format!("could not see whether {what} is gone"), Some(place)));
                }
            }
        }
        activity.progress(format!("{what}: Deleting"));
        if since.elapsed() > az.pace.deadline {
            let message = format!("{what} was still there after {}", crate::ui::duration(since.elapsed()));
            return Err(Error::message(Kind::Deadline, message).left_behind(format!("{what}, being removed by Azure")));
        }
        az.pause_after_look(since, looked);
    }
}

/// What is left of the lab in Azure: group, group of the machines, cluster.
pub(super) fn remains(az: &Az, place: &Place) -> Result<Vec<String>> {
    let failed = |failure: Failure| {
        failure.into_error(&format!("could not look whether lab `{}` is gone", place.lab), Some(place))
    };
    let joined = |_| Error::message(Kind::Failed, "could not run several calls of az at once");
    let (group, machines, cluster) = std::thread::scope(|scope| {
        let group = scope.spawn(|| az.group(&place.group));
        let machines = scope.spawn(|| az.group(&place.node_group));
        let cluster = az.cluster(place);
        (group.join(), machines.join(), cluster)
    });
    let mut left = Vec::new();
    let state = |going: bool| if going { ", being removed by Azure" } else { "" };
    if let Some(group) = group.map_err(joined)?.map_err(failed)?
        && place.own_group
        && place.owns(&group.tags)
    {
        left.push(format!("resource group `{}`{}", group.name, state(group.is_going())));
    }
    if let Some(cluster) = cluster.map_err(failed)?
        && place.owns(&cluster.tags)
    {
        left.push(format!("cluster `{}`{}", cluster.name, state(is_going(&cluster))));
    }
    if let Some(group) = machines.map_err(joined)?.map_err(failed)? {
        left.push(format!("resource group `{}` of the machines{}", group.name, state(group.is_going())));
    }
    Ok(left)
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
