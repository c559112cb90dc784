//! Removal of a lab from Azure: asked for, looked after until nothing is there, and asked for again where Azure did not do it.

use std::collections::BTreeMap;
use std::time::Instant;

use super::arguments::journal_action;
use super::arguments::{self, Arguments};
use super::az::lost;
use super::azure_site::AzureSite;
use super::azure_state::{foreign, without_tags};
use super::failure::Failure;
use super::reason;
use super::request::Tries;
use super::site::Site;
use super::wait::{Poll, until};
use crate::error::{Code, Error, Result};
use crate::event::{About, Activity, Outside, Verb};
use crate::provider::Work;

/// How often Azure is asked to remove one thing before klab gives up.
const MAX_REQUESTS: u32 = 4;
/// How often in a row Azure must say that something is not there before it is believed.
const ABSENCES: u32 = 3;

/// What is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The lab's own resource group, with all that is in it.
    Group,
    /// The cluster alone.
    Cluster,
}

/// How it stands with what is to be removed.
enum RemovalState {
    /// There is no such thing.
    Absent,
    /// It is there, and does not carry the lab's tags but these.
    Foreign(BTreeMap<String, String>),
    /// Azure is removing it.
    GoalArguments,
    /// It is there, in a state of this name, and no operation removes it.
    There(String),
}

impl Target {
    /// What of a lab goes with `klab down`.
    fn of(place: &AzureSite) -> Self {
        if place.own_group { Self::Group } else { Self::Cluster }
    }

    fn words(self, place: &AzureSite) -> String {
        match self {
            Self::Group => format!("resource group {}", place.group),
            Self::Cluster => format!("cluster {}", place.cluster),
        }
    }

    fn quoted(self, place: &AzureSite) -> String {
        match self {
            Self::Group => format!("resource group `{}`", place.group),
            Self::Cluster => format!("cluster `{}` in resource group `{}`", place.cluster, place.group),
        }
    }

    fn request(self, place: &AzureSite) -> (Arguments, &str) {
        match self {
            Self::Group => (arguments::group_delete(place), &place.group),
            Self::Cluster => (arguments::cluster_delete(place), &place.cluster),
        }
    }

    fn look(self, Site { az, place }: Site<'_>) -> Result<RemovalState, Failure> {
        let standing = |going: bool, state: &str| {
            if going { RemovalState::GoalArguments } else { RemovalState::There(state.to_owned()) }
        };
        Ok(match self {
            Self::Group => match az.group(&place.group)? {
                Some(group) if !place.owns(&group.tags) => RemovalState::Foreign(group.tags),
                Some(group) => standing(group.is_going(), &group.properties.provisioning_state),
                None => RemovalState::Absent,
            },
            Self::Cluster => match az.cluster(place)? {
                Some(cluster) if !place.owns(&cluster.tags) => RemovalState::Foreign(cluster.tags),
                Some(cluster) => standing(cluster.is_going(), &cluster.provisioning_state),
                None => RemovalState::Absent,
            },
        })
    }
}

/// What of a lab goes with it, in words.
pub(super) fn subject(place: &AzureSite) -> String {
    Target::of(place).words(place)
}

/// Removes the lab's own group, or its cluster in a group of the user's; says whether it was there at all.
///
/// # Errors
/// When Azure refuses, or does not do what it was asked for; what is there is named.
pub(super) fn remove(site: Site<'_>, activity: &Activity, work: &mut Work<'_>) -> Result<bool> {
    Removal::new(site, Target::of(site.place)).run(activity, work, true)
}

/// As [`remove`], done as soon as Azure is at it.
///
/// # Errors
/// When Azure refuses.
pub(super) fn begin(site: Site<'_>, activity: &Activity, work: &mut Work<'_>) -> Result<()> {
    Removal::new(site, Target::of(site.place)).run(activity, work, false).map(drop)
}

/// Removes the lab's own group to make it again, with a line of its own.
///
/// # Errors
/// As [`remove`].
pub(super) fn clear_group(site: Site<'_>, work: &mut Work<'_>) -> Result<()> {
    clear(site, Target::Group, work)
}

/// Removes the cluster to make it again, with a line of its own.
///
/// # Errors
/// As [`remove`].
pub(super) fn clear_cluster(site: Site<'_>, work: &mut Work<'_>) -> Result<()> {
    clear(site, Target::Cluster, work)
}

fn clear(site: Site<'_>, target: Target, work: &mut Work<'_>) -> Result<()> {
    let what = target.words(site.place);
    let activity = work.events.about(About::Cluster, &site.place.cluster).start(Verb::RemoveCluster, what.clone());
    Removal::new(site, target).run(&activity, work, true)?;
    activity.finish(what);
    Ok(())
}

/// One removal under way.
struct Removal<'a> {
    site: Site<'a>,
    target: Target,
    what: String,
    /// Requests that Azure took, and when it took the last.
    taken: u32,
    last: Instant,
    /// Whether Azure was seen at it since that request.
    seen_going: bool,
    /// How often in a row it was not to be seen.
    absences: u32,
    tries: Tries,
}

impl<'a> Removal<'a> {
    fn new(site: Site<'a>, target: Target) -> Self {
        Self {
            site,
            target,
            what: target.words(site.place),
            taken: 0,
            last: Instant::now(),
            seen_going: false,
            absences: 0,
            tries: Tries::new(),
        }
    }

    /// Says whether there was anything to remove.
    fn run(mut self, activity: &Activity, work: &mut Work<'_>, to_the_end: bool) -> Result<bool> {
        let mut was_there = false;
        let (site, what) = (self.site, self.what.clone());
        until(site, activity, &what, || {
            // Asked before the look: what it made by then is seen.
            let others_at_work = site.az.others_at_work();
            let standing = match self.target.look(site) {
                Ok(standing) => standing,
                Err(failure) => return Ok(Poll::Silence(failure)),
            };
            was_there |= !matches!(standing, RemovalState::Absent);
            self.absences = if matches!(standing, RemovalState::Absent) { self.absences + 1 } else { 0 };
            match standing {
                RemovalState::Foreign(tags) => {
                    let what = self.target.quoted(site.place);
                    Err(without_tags(&what, &tags, site.place).left_behind(what))
                }
                RemovalState::Absent if others_at_work => {
                    Ok(Poll::GoesOn("a call of az that another klab had made is still at work".to_owned()))
                }
                RemovalState::Absent if self.absences < ABSENCES => Ok(Poll::GoesOn("not to be seen".to_owned())),
                RemovalState::Absent => Ok(Poll::Over(())),
                RemovalState::GoalArguments => {
                    self.seen_going = true;
                    work.events.under_way(vec![self.going()]);
                    Ok(if to_the_end { Poll::GoesOn("Deleting".to_owned()) } else { Poll::Over(()) })
                }
                RemovalState::There(state) => {
                    let taken = self.ask(&state, work)?;
                    Ok(if taken && !to_the_end { Poll::Over(()) } else { Poll::GoesOn(state) })
                }
            }
        })?;
        work.events.under_way(Vec::new());
        Ok(was_there)
    }

    /// That Azure is at it.
    fn going(&self) -> Outside {
        let words = format!("{} is being removed", self.what);
        Outside::new(Verb::RemoveCluster, About::Cluster, &self.site.place.cluster, words)
    }

    /// Asks Azure to remove what is there, unless it was only just asked; says whether it was taken.
    fn ask(&mut self, state: &str, work: &mut Work<'_>) -> Result<bool> {
        let Site { az, place } = self.site;
        // An answer may be older than the request; where Azure was seen at it, it has given up.
        let is_fresh =
            self.taken > 0 && !self.seen_going && self.last.elapsed() < az.pace.least.saturating_mul(2 << self.taken);
        if is_fresh {
            return Ok(false);
        }
        work.events.under_way(Vec::new());
        if self.taken == 0 {
            self.refuse_foreign()?;
        } else {
            let reason = reason::of_cluster(self.site).map_or(String::new(), |failure| format!(": {}", failure.words));
            if self.taken >= MAX_REQUESTS {
                let message = format!("{} is still there; Azure took {} requests to remove it", self.what, self.taken);
                return Err(Error::message(Code::AzureRefused, format!("{message}{reason}"))
                    .left_behind(format!("{}, in state {state}", self.what))
                    .hint(format!("`az lock list --subscription {0} -g {1} -o table` shows what may keep it, `az resource list --subscription {0} -g {1} -o table` what is in it", place.subscription, place.group)));
            }
            let events = work.events.about(About::Cluster, &place.cluster);
            events.warn(
                Code::RemovalAskedAgain,
                format!("Azure did not remove {}{reason}; it is asked again", self.what),
            );
        }
        let (arguments, subject) = self.target.request(place);
        work.intend(&journal_action(&arguments), subject)?;
        match az.change(&arguments) {
            Ok(_) => {
                (self.taken, self.last, self.seen_going) = (self.taken + 1, Instant::now(), false);
                work.events.under_way(vec![self.going()]);
                Ok(true)
            }
            Err(failure) if failure.is_absence() => Ok(true),
            Err(failure) => match self.tries.again(&failure, &az.pace) {
                Some(pause) => {
                    az.sleep(pause);
                    Ok(false)
                }
                None => Err(failure
                    .into_error(&format!("could not remove {}", self.what), Some(place))
                    .left_behind(format!("{}, in state {state}", self.what))),
            },
        }
    }

    /// What klab did not make does not go with klab's group.
    fn refuse_foreign(&self) -> Result<()> {
        let Site { az, place } = self.site;
        if self.target != Target::Group {
            return Ok(());
        }
        let failed =
            |failure: Failure| failure.into_error(&format!("could not list what is in {}", self.what), Some(place));
        let clusters = az.clusters_of(&place.group).map_err(failed)?;
        let Some(other) = clusters.iter().find(|cluster| !place.owns(&cluster.tags)) else { return Ok(()) };
        let (group, subscription) = (&place.group, &place.subscription);
        Err(foreign(&format!("cluster `{}` in resource group `{group}`", other.name))
            .left_behind(format!("resource group `{group}` with cluster `{}`", other.name))
            .hint(format!(
                "`az aks delete -g {group} -n {} --subscription {subscription}` removes that cluster",
                other.name
            ))
            .hint(format!(
                "`az group delete -n {group} --subscription {subscription}` removes the group with all that is in it"
            )))
    }
}

/// What is left of the lab in Azure: group, group of the machines, cluster.
///
/// # Errors
/// When Azure does not answer.
pub(super) fn remains(site: Site<'_>) -> Result<Vec<String>> {
    let Site { az, place } = site;
    let failed = |failure: Failure| {
        failure.into_error(&format!("could not find out whether lab `{}` is gone", place.lab), Some(place))
    };
    let (group, machines, cluster) = std::thread::scope(|scope| {
        let group = scope.spawn(|| az.group(&place.group));
        let machines = scope.spawn(|| az.group(&place.node_group));
        let cluster = az.cluster(place);
        (group.join(), machines.join(), cluster)
    });
    let mut left = Vec::new();
    let state = |going: bool| if going { ", being removed by Azure" } else { "" };
    let tags = |tags: &BTreeMap<String, String>| if place.owns(tags) { "" } else { ", without the lab's tags" };
    if let Some(group) = group.map_err(lost)?.map_err(failed)?
        && place.own_group
    {
        left.push(format!("resource group `{}`{}{}", group.name, state(group.is_going()), tags(&group.tags)));
    }
    if let Some(cluster) = cluster.map_err(failed)? {
        let failed =
            if cluster.is_failed() { format!(" in state {}", cluster.provisioning_state) } else { String::new() };
        let costs = match (cluster.is_going(), cluster.is_stopped()) {
            (true, _) => state(true),
            (false, true) => ", stopped",
            (false, false) => ", whose machines cost money",
        };
        left.push(format!("cluster `{}`{failed}{costs}{}", cluster.name, tags(&cluster.tags)));
    }
    if let Some(group) = machines.map_err(lost)?.map_err(failed)? {
        left.push(format!("resource group `{}` of the machines{}", group.name, state(group.is_going())));
    }
    Ok(left)
}
