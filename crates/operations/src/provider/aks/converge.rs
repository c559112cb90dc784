//! Brings what is in Azure to what the lab file says: the cluster first, then pools side by side, replacements, removals.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::answer::{AgentPool, ManagedCluster};
use super::arguments;
use super::azure_site::{AzureSite, EXPIRES_TAG, NEVER, TTL_TAG};
use super::azure_state::AzureState;
use super::cluster;
use super::credentials;
use super::drain;
use super::operation::{Job, Operation, Step};
use super::pools;
use super::preflight::first_pool;
use super::reason;
use super::registry;
use super::replace;
use super::request;
use super::requested_pools::RequestedPools;
use super::scheduler;
use super::site::{LabSite, Site};
use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::provider::{Options, Work, refuse_absent};
use klab_lab::plan::{Action, Observed, is_version, size_name, wanted_version};
use klab_lab::spec::{Lab, Pool, UpgradeKind};
use klab_lab::words::{nodes_of_size, plural};

/// What the plan compares with the lab file.
pub(super) fn observed(world: &AzureState, place: &AzureSite, asked: &RequestedPools, lab: Option<&Lab>) -> Observed {
    let mut observed = world.usable().map(ManagedCluster::observed).unwrap_or_default();
    for (name, pool) in &mut observed.pools {
        pool.foreign = world.usable().is_some_and(|cluster| {
            let all = &cluster.agent_pool_profiles;
            cluster.pool(name).is_some_and(|pool| !asked.owns(place, pool, all))
        });
        let wanted = lab.and_then(|lab| lab.pool(name));
        if let Some(wanted) = wanted.filter(|wanted| wanted.zones_auto) {
            pool.declared.zones.clone_from(&wanted.zones);
        }
        // Azure does not care how a size is spelt.
        let spelt = wanted.map(size_name);
        if let Some(spelt) = spelt.filter(|spelt| spelt.eq_ignore_ascii_case(&pool.declared.size)) {
            pool.declared.size = spelt;
        }
    }
    // Azure shows all settings, also its own; those that the lab does not name are left alone.
    observed.autoscaler.retain(|name, _| lab.is_some_and(|lab| lab.autoscaler.contains_key(name)));
    observed
}

/// What is to be done, sorted by when it can be done.
struct Agenda<'a> {
    create: bool,
    upgrade: Option<(&'a str, &'a str)>,
    /// What changes about the settings of the autoscaler.
    autoscaler: Option<&'a [String]>,
    changes: Vec<Job>,
    replacements: Vec<(&'a Pool, &'a [String])>,
    removals: Vec<Job>,
}

/// Does all actions.
pub(super) fn converge(
    at: &LabSite<'_>,
    world: &AzureState,
    actions: &[Action],
    options: Options,
    work: &mut Work<'_>,
) -> Result<()> {
    let (site, lab) = (at.site, at.lab);
    let mut agenda = agenda(at, world, actions)?;
    if let Some((from, to)) = agenda.upgrade {
        // Pools cannot be recreated with a version that their cluster cannot have.
        cluster::upgrade_path(from, to)?;
    }
    if !agenda.replacements.is_empty() && !options.replace_pools {
        let pools: Vec<(&str, &[String])> =
            agenda.replacements.iter().map(|(pool, changes)| (pool.name.value.as_str(), *changes)).collect();
        return Err(replace::refusal(lab, &pools));
    }
    let live = world.usable().map_or(&[][..], |cluster| &cluster.agent_pool_profiles);
    let cluster = if agenda.create {
        let first = first_pool(lab).ok_or_else(|| Error::message(Code::InvalidLab, "the lab has no system pool"))?;
        cluster::create(at, first, world, work)?
    } else {
        settled(site, world, work)?
    };
    if let Some((from, to)) = agenda.upgrade {
        cluster::upgrade(site, from, to, work)?;
    }
    if let Some(changes) = agenda.autoscaler.filter(|_| !agenda.create) {
        cluster::set_autoscaler(at, changes, work)?;
    }
    let is_configured = !scheduler::is_to_configure(lab, &cluster);
    if !is_configured {
        scheduler::configure(at, work)?;
    }
    registry::attach(at, &cluster, work)?;
    if !agenda.create {
        renew_expiry(at, &cluster, work)?;
    }
    // Pools that a klab that was killed had asked for, or that failed in the meantime.
    settle_pools(&mut agenda.changes, &cluster, site.place);

    let limit = if lab.aks.subnet.is_some() { 1 } else { pools::IN_FLIGHT };
    let file = &at.kubeconfig;
    let fetch = !credentials::reaches(file, Some(&cluster));
    let changes = std::mem::take(&mut agenda.changes);
    pools::run_beside(site, changes, limit, work, || if fetch { credentials::fetch(site, file) } else { Ok(()) })?;
    if lab.scheduler.is_some() && (agenda.create || !is_configured) {
        scheduler::wait_until_defined(site, file, work)?;
    }
    for (pool, _) in &agenda.replacements {
        replace::replace(at, pool, &cluster.agent_pool_profiles, work)?;
        // What stood in for it is gone; the plan may have seen it as a pool of its own.
        let second = replace::stand_in(at, pool, live);
        agenda.removals.retain(|job| job.pool != second);
    }
    // A stand-in that a klab which was killed left behind holds the pods of its pool.
    let stand_ins: Vec<String> = lab.pools.iter().map(|pool| replace::stand_in(at, pool, live)).collect();
    for job in agenda.removals.iter().filter(|job| stand_ins.contains(&job.pool)) {
        drain::drain(file, &job.pool, work.events)?;
    }
    pools::run(site, agenda.removals, limit, work)
}

/// The command lines of all that, for people.
pub(super) fn commands(at: &LabSite<'_>, world: &AzureState, actions: &[Action]) -> Vec<String> {
    let (Site { az, place }, lab, tags) = (at.site, at.lab, &at.tags);
    let Ok(agenda) = agenda(at, world, actions) else { return Vec::new() };
    let mut lines = Vec::new();
    if agenda.create {
        if place.own_group && world.group.is_none() {
            lines.push(arguments::group_create(place, tags));
        }
        lines.extend(first_pool(lab).map(|first| at.cluster_create(first)));
    }
    if let Some((_, to)) = agenda.upgrade {
        lines.push(arguments::cluster_upgrade(place, to));
    }
    if agenda.autoscaler.is_some() && !agenda.create {
        lines.push(arguments::cluster_autoscaler(place, &lab.autoscaler_settings()));
    }
    if !agenda.create && world.usable().is_some_and(|cluster| scheduler::is_to_configure(lab, cluster)) {
        lines.push(arguments::cluster_scheduler(place));
    }
    lines.extend(registry::request(place, lab, world.usable().filter(|_| !agenda.create), tags));
    let steps = |jobs: Vec<Job>| jobs.into_iter().flat_map(|job| job.steps).map(|step| step.arguments);
    lines.extend(steps(agenda.changes).filter(|line| !line.is_empty()));
    let live = world.usable().map_or(&[][..], |cluster| &cluster.agent_pool_profiles);
    for (pool, _) in &agenda.replacements {
        let second = replace::stand_in(at, pool, live);
        let name = &pool.name.value;
        lines.extend(at.pool_lines(pool, &second));
        lines.push(arguments::pool_delete(place, name));
        lines.extend(at.pool_lines(pool, name));
        lines.push(arguments::pool_delete(place, &second));
    }
    lines.extend(steps(agenda.removals));
    lines.iter().map(|arguments| az.command(arguments).to_string()).collect()
}

fn agenda<'a>(at: &LabSite<'a>, world: &AzureState, actions: &'a [Action]) -> Result<Agenda<'a>> {
    let (place, lab) = (at.site.place, at.lab);
    let find = |name: &str| {
        lab.pool(name).ok_or_else(|| Error::message(Code::KlabFault, format!("the lab has no pool `{name}`")))
    };
    let live = |name: &str| world.usable().and_then(|cluster| cluster.pool(name));
    let mut agenda = Agenda {
        create: false,
        upgrade: None,
        autoscaler: None,
        changes: Vec::new(),
        replacements: Vec::new(),
        removals: Vec::new(),
    };
    for action in actions {
        match action {
            Action::CreateCluster => agenda.create = true,
            Action::UpgradeCluster { from, to } => agenda.upgrade = Some((from, to)),
            Action::SetAutoscaler { changes } => agenda.autoscaler = Some(changes),
            Action::AddPool { pool, nodes, size, .. } => {
                let mut steps = replace::added(at, find(pool)?, pool);
                // It comes with the cluster, but for its further sizes.
                if agenda.create && first_pool(lab).is_some_and(|first| first.name.value == *pool) {
                    steps.pop_front();
                }
                if steps.is_empty() {
                    continue;
                }
                if live(pool).is_some_and(|live| live.provisioning_state == "Deleting") {
                    steps.push_front(Step::new(Operation::Settle, Vec::new()));
                }
                let what = format!("pool {pool} ({})", nodes_of_size(*nodes, size));
                agenda.changes.push(job(pool, steps, Verb::CreatePool, what, Some(*nodes)));
            }
            Action::UpdatePool { pool, changes } => {
                let spec = find(pool)?;
                if let Some(live) = live(pool) {
                    let step = Step::new(Operation::Update, arguments::pool_update(place, spec, live));
                    let what = format!("pool {pool}: {}", changes.join(", "));
                    agenda.changes.push(job(pool, VecDeque::from([step]), Verb::ChangePool, what, None));
                }
            }
            Action::ScalePool { pool, from, to, sizes } => {
                // The autoscaler, where there is one, brings the pool within its bounds itself.
                if find(pool)?.autoscale.is_some() {
                    continue;
                }
                let steps = arguments::pool_scales(place, pool, *to, sizes).into_iter();
                let steps = steps.map(|line| Step::new(Operation::Scale, line));
                if let Some(earlier) = agenda.changes.iter_mut().find(|job| job.pool == *pool) {
                    earlier.steps.extend(steps);
                    let _ = write!(earlier.what, ", {from} to {to} nodes");
                } else {
                    let what = format!("pool {pool} from {from} to {to} nodes");
                    agenda.changes.push(job(pool, steps.collect(), Verb::ScalePool, what, Some(*to)));
                }
            }
            Action::ReplacePool { pool, changes, .. } => {
                let spec = find(pool)?;
                match live(pool) {
                    Some(live) if only_mode_differs(lab, spec, live) => {
                        let step = Step::new(Operation::Update, arguments::pool_update(place, spec, live));
                        let what = format!("pool {pool}: {}", changes.join(", "));
                        agenda.changes.push(job(pool, VecDeque::from([step]), Verb::ChangePool, what, None));
                    }
                    _ => agenda.replacements.push((spec, changes)),
                }
            }
            Action::UpgradePool { pool, kind, nodes, changes, no_wait } => {
                let verb = if *no_wait { Verb::BeginUpgrade } else { Verb::UpgradePool };
                let of = if *no_wait { "the upgrade of " } else { "" };
                let what = format!("{of}pool {pool}: {}", changes.join(", "));
                let steps = VecDeque::from([upgrade(at, find(pool)?, *kind, *no_wait)]);
                agenda.changes.push(job(pool, steps, verb, what, Some(*nodes)));
            }
            Action::RemovePool { pool, nodes } => {
                let step = Step::new(Operation::Delete, arguments::pool_delete(place, pool));
                let what = format!("pool {pool} and its {}", plural(*nodes as usize, "node"));
                agenda.removals.push(job(pool, VecDeque::from([step]), Verb::RemovePool, what, Some(*nodes)));
            }
        }
    }
    Ok(agenda)
}

fn upgrade(at: &LabSite<'_>, pool: &Pool, kind: UpgradeKind, no_wait: bool) -> Step {
    let operation = if no_wait { Operation::BeginUpgrade } else { Operation::Upgrade };
    let (place, name, settings) = (at.site.place, &pool.name.value, &pool.upgrade);
    let version = wanted_version(at.lab, Some(pool));
    let line = match kind {
        UpgradeKind::Kubernetes => arguments::pool_upgrade(place, name, version.as_deref(), settings),
        UpgradeKind::NodeImage => arguments::pool_image_upgrade(place, name),
        UpgradeKind::Machines => arguments::pool_resize(place, name, &size_name(pool), settings),
        UpgradeKind::Rollback => arguments::pool_rollback(place, name),
    };
    Step::new(operation, line)
}

fn job(pool: &str, steps: VecDeque<Step>, verb: Verb, what: String, nodes: Option<u32>) -> Job {
    Job { pool: pool.to_owned(), steps, verb, what, nodes }
}

/// AKS changes a pool's mode in place; everything else that the plan calls a replacement needs new nodes.
fn only_mode_differs(lab: &Lab, spec: &Pool, live: &AgentPool) -> bool {
    let cluster = ManagedCluster { agent_pool_profiles: vec![live.clone()], ..ManagedCluster::default() };
    let observed = cluster.observed();
    let Some(pool) = observed.pools.get(&live.name) else { return false };
    let (old, new) = (&pool.declared, klab_lab::plan::Declared::of(spec));
    let version = match (&pool.kubernetes, wanted_version(lab, Some(spec))) {
        (Some(live), Some(wanted)) => is_version(live, &wanted),
        _ => true,
    };
    old.mode != new.mode
        && old.virtual_machines == new.virtual_machines
        && old.size.eq_ignore_ascii_case(&new.size)
        && old.zones == new.zones
        && old.max_pods == new.max_pods
        && old.os == new.os
        && old.spot == new.spot
        && version
}

/// The cluster once Azure has done with what an earlier klab had asked for.
fn settled(site: Site<'_>, world: &AzureState, work: &mut Work<'_>) -> Result<ManagedCluster> {
    let place = site.place;
    let gone = || Error::message(Code::ClusterGone, format!("cluster `{}` is gone", place.cluster));
    let cluster = world.usable().ok_or_else(gone)?;
    if cluster.is_failed() {
        let reason = reason::of_failed_cluster(site, cluster);
        let words = format!("cluster `{}` is in state {}: {}", place.cluster, cluster.provisioning_state, reason.words);
        work.events.about(About::Cluster, &place.cluster).warn(Code::ClusterFailed, words);
    }
    if cluster.is_settled() {
        return Ok(cluster.clone());
    }
    let what = format!("cluster {}", place.cluster);
    let activity = work
        .events
        .about(About::Cluster, &place.cluster)
        .start(Verb::WaitCluster, format!("{what}: {}", cluster.provisioning_state));
    let cluster = cluster::wait_settled(site, &activity, &what)?.ok_or_else(gone)?;
    activity.finish(what);
    if cluster.is_stopped() {
        refuse_absent(&place.lab, &cluster.observed())?;
    }
    if cluster.provisioning_state != "Succeeded" {
        let failure = reason::of_failed_cluster(site, &cluster);
        return Err(failure.into_error(&format!("cluster `{}` did not come up", place.cluster), Some(place)));
    }
    Ok(cluster)
}

/// Adds to the jobs what Azure is still doing to pools that have no job.
fn settle_pools(jobs: &mut Vec<Job>, cluster: &ManagedCluster, place: &AzureSite) {
    for pool in &cluster.agent_pool_profiles {
        let busy = !matches!(pool.provisioning_state.as_str(), "Succeeded" | "Failed" | "Canceled" | "Deleting" | "");
        if busy && !jobs.iter().any(|job| job.pool == pool.name) {
            let what = format!("pool {} of cluster {}", pool.name, place.cluster);
            let step = Step::new(Operation::Settle, Vec::new());
            jobs.push(job(&pool.name, VecDeque::from([step]), Verb::WaitPool, what, None));
        }
    }
}

/// A lab whose file got, changed or lost its `ttl` since it was made gets its end now, reckoned from now.
fn renew_expiry(at: &LabSite<'_>, cluster: &ManagedCluster, work: &mut Work<'_>) -> Result<()> {
    let (place, tags) = (at.site.place, &at.tags);
    if tags.get(TTL_TAG) == cluster.tags.get(TTL_TAG).filter(|ttl| *ttl != NEVER) {
        return Ok(());
    }
    let mut tags = tags.clone();
    for tag in [TTL_TAG, EXPIRES_TAG] {
        tags.entry(tag.to_owned()).or_insert_with(|| NEVER.to_owned());
    }
    let group = format!("/subscriptions/{}/resourceGroups/{}", place.subscription, place.group);
    let ids = [Some(group).filter(|_| place.own_group), Some(cluster.id.clone()).filter(|id| !id.is_empty())];
    for id in ids.into_iter().flatten() {
        request::change(at.site, &arguments::tag_update(&id, &tags), &id, "tag", work)?;
    }
    Ok(())
}
