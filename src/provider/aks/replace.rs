//! Pools made anew without taking their pods' room away: a second pool is up before the first one goes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use super::answer::AgentPool;
use super::arguments;
use super::az::Az;
use super::drain;
use super::place::Place;
use super::pools::{self, Job, Operation, Step};
use crate::error::{Error, Kind, Result};
use crate::provider::Work;
use klab_lab::plan::size_name;
use klab_lab::spec::{Lab, Os, Pool};

/// Names that stand in for a pool while it is made anew end in one of these.
const SUFFIXES: &str = "xyzwvu";

/// The name of the pool that stands in for another. Azure cannot rename pools, and a lab's pods look for the pool's name.
pub(super) fn stand_in(lab: &Lab, pool: &Pool) -> String {
    let longest = if pool.os == Os::Windows { 6 } else { 12 };
    let taken: BTreeSet<&str> = lab.pools.iter().map(|pool| pool.name.value.as_str()).collect();
    let name = &pool.name.value;
    let stem: String = name.chars().take(longest - 1).collect();
    let candidates = SUFFIXES.chars().map(|suffix| format!("{stem}{suffix}"));
    candidates
        .into_iter()
        .find(|candidate| !taken.contains(candidate.as_str()))
        .unwrap_or_else(|| format!("{}q9", &stem[..stem.len().min(longest - 2)]))
}

/// Makes a pool anew: its stand-in comes up, its pods move there, it goes, comes back, and its pods move back.
///
/// # Errors
/// When Azure refuses or fails, or a pod does not move; the pools that are left are named.
#[expect(clippy::too_many_arguments, reason = "one call, from one place, with everything a pool has")]
pub(super) fn replace(
    az: &Az,
    place: &Place,
    lab: &Lab,
    pool: &Pool,
    live: &[AgentPool],
    tags: &BTreeMap<String, String>,
    kubeconfig: &Path,
    work: &mut Work<'_>,
) -> Result<()> {
    let name = &pool.name.value;
    let second = stand_in(lab, pool);
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
        remove(az, place, name, work).map_err(left)?;
        return make(az, place, lab, pool, name, tags, work).map_err(left);
    }
    if is_failed(&second) {
        drain::drain(kubeconfig, &second, work.events).map_err(left)?;
        remove(az, place, &second, work).map_err(left)?;
    }
    if !is_there(&second) {
        make(az, place, lab, pool, &second, tags, work).map_err(left)?;
    }
    drain::drain(kubeconfig, name, work.events).map_err(left)?;
    remove(az, place, name, work).map_err(left)?;
    make(az, place, lab, pool, name, tags, work).map_err(left)?;
    drain::drain(kubeconfig, &second, work.events).map_err(left)?;
    remove(az, place, &second, work).map_err(left)
}

fn make(
    az: &Az,
    place: &Place,
    lab: &Lab,
    pool: &Pool,
    name: &str,
    tags: &BTreeMap<String, String>,
    work: &mut Work<'_>,
) -> Result<()> {
    let arguments = arguments::pool_add(lab, place, pool, name, tags);
    let job = Job {
        pool: name.to_owned(),
        steps: VecDeque::from([Step::new(Operation::Add, arguments)]),
        doing: "Creating",
        what: format!("pool {name} ({} × {})", pool.nodes.value, size_name(pool)),
        done: "Created",
    };
    pools::run(az, place, vec![job], 1, work)
}

fn remove(az: &Az, place: &Place, name: &str, work: &mut Work<'_>) -> Result<()> {
    let job = Job {
        pool: name.to_owned(),
        steps: VecDeque::from([Step::new(Operation::Delete, arguments::pool_delete(place, name))]),
        doing: "Removing",
        what: format!("pool {name}"),
        done: "Removed",
    };
    pools::run(az, place, vec![job], 1, work)
}

/// The refusal to replace without being told so.
pub(super) fn refusal(pools: &[(&str, &[String])]) -> Error {
    let list: Vec<String> =
        pools.iter().map(|(pool, changes)| format!("pool {pool}: {}", changes.join(", "))).collect();
    let message = format!("this can only change by making new nodes:\n{}", list.join("\n"));
    Error::message(Kind::Usage, message)
        .hint("`klab up --replace-pools` makes a second pool, moves the pods, and makes the first one anew")
}
