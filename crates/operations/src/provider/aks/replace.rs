//! Pools recreated without taking their pods' room away: a second pool is up before the first one goes.

use std::collections::{BTreeSet, VecDeque};

use super::answer::AgentPool;
use super::arguments;
use super::drain;
use super::operation::{Job, Operation, Step};
use super::pools;
use super::site::LabSite;
use crate::error::{Code, Error, Result};
use crate::event::Verb;
use crate::exec::quoted;
use crate::provider::Work;
use klab_lab::plan::size_name;
use klab_lab::spec::{Lab, Os, Pool};
use klab_lab::words::nodes_of_size;

/// Names that stand in for a pool while it is recreated end in one of these.
const SUFFIXES: &str = "xyzwvu";

/// The name of the pool that stands in for another: none of the lab's, and of those that are there none that klab did not make.
/// Azure cannot rename pools, and a lab's pods look for the pool's name.
pub(super) fn stand_in(at: &LabSite<'_>, pool: &Pool, live: &[AgentPool]) -> String {
    let longest = if pool.os == Os::Windows { 6 } else { 12 };
    let foreign = live.iter().filter(|pool| !at.asked.owns(at.site.place, pool, live)).map(|pool| pool.name.as_str());
    let taken: BTreeSet<&str> = at.lab.pools.iter().map(|pool| pool.name.value.as_str()).chain(foreign).collect();
    let name = &pool.name.value;
    let stem: String = name.chars().take(longest - 1).collect();
    let candidates = SUFFIXES.chars().map(|suffix| format!("{stem}{suffix}"));
    candidates
        .into_iter()
        .find(|candidate| !taken.contains(candidate.as_str()))
        .unwrap_or_else(|| format!("{}q9", &stem[..stem.len().min(longest - 2)]))
}

/// Recreates a pool: its stand-in comes up, its pods move there, it goes, comes back, and its pods move back.
///
/// # Errors
/// When Azure refuses or fails, or a pod does not move; the pools that are left are named.
pub(super) fn replace(at: &LabSite<'_>, pool: &Pool, live: &[AgentPool], work: &mut Work<'_>) -> Result<()> {
    let (place, kubeconfig) = (at.site.place, &at.kubeconfig);
    let name = &pool.name.value;
    let second = stand_in(at, pool, live);
    let is_there = |name: &str| live.iter().any(|pool| pool.name == name && pool.provisioning_state == "Succeeded");
    let left = |error: Error| {
        error.left_behind(format!(
            "pools `{name}` and `{second}` of cluster `{}`, as far as they are there",
            place.cluster
        ))
    };
    let is_failed = |name: &str| live.iter().any(|pool| pool.name == name && pool.is_failed());
    if is_failed(name) && drain::nodes(kubeconfig, name)? == 0 {
        // It never came up: nothing has to move.
        remove(at, name, work).map_err(left)?;
        return make(at, pool, name, work).map_err(left);
    }
    if is_failed(&second) {
        drain::drain(kubeconfig, &second, work.events).map_err(left)?;
        remove(at, &second, work).map_err(left)?;
    }
    if !is_there(&second) {
        make(at, pool, &second, work).map_err(left)?;
    }
    drain::drain(kubeconfig, name, work.events).map_err(left)?;
    remove(at, name, work).map_err(left)?;
    make(at, pool, name, work).map_err(left)?;
    drain::drain(kubeconfig, &second, work.events).map_err(left)?;
    remove(at, &second, work).map_err(left)
}

/// What makes a pool under this name: az takes one size at a time.
pub(super) fn added(at: &LabSite<'_>, pool: &Pool, name: &str) -> VecDeque<Step> {
    let operations = std::iter::once(Operation::Add).chain(std::iter::repeat(Operation::Scale));
    operations.zip(at.pool_lines(pool, name)).map(|(operation, line)| Step::new(operation, line)).collect()
}

fn make(at: &LabSite<'_>, pool: &Pool, name: &str, work: &mut Work<'_>) -> Result<()> {
    let job = Job {
        pool: name.to_owned(),
        steps: added(at, pool, name),
        verb: Verb::CreatePool,
        what: format!("pool {name} ({})", nodes_of_size(pool.nodes.value, &size_name(pool))),
        nodes: Some(pool.nodes.value),
    };
    pools::run(at.site, vec![job], 1, work)
}

fn remove(at: &LabSite<'_>, name: &str, work: &mut Work<'_>) -> Result<()> {
    let job = Job {
        pool: name.to_owned(),
        steps: VecDeque::from([Step::new(Operation::Delete, arguments::pool_delete(at.site.place, name))]),
        verb: Verb::RemovePool,
        what: format!("pool {name}"),
        nodes: None,
    };
    pools::run(at.site, vec![job], 1, work)
}

/// The refusal to replace without a flag that allows it.
pub(super) fn refusal(lab: &Lab, pools: &[(&str, &[String])]) -> Error {
    let list: Vec<String> =
        pools.iter().map(|(pool, changes)| format!("pool {pool}: {}", changes.join(", "))).collect();
    let message = format!("this can only change by making new nodes:\n{}", list.join("\n"));
    let file = quoted(lab.source.name());
    Error::message(Code::NeedsNewNodes, message).hint(format!(
        "`klab up --replace-pools {file}` makes a second pool, moves the pods, and recreates the first one"
    ))
}
