//! Drains nodes as `kubectl drain --ignore-daemonsets --delete-emptydir-data` does: cordon, evict, wait until they are empty.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};

use super::nodes::{change, failure, named, some};
use super::performer::Performer;
use crate::drain::{self, Evictions, has_ended, path, pods_to_move};
use crate::error::{Code, Error, Result};
use crate::event::{About, Verb};
use crate::provider::Work;
use klab_lab::spec::{Action, NodeSet};
use klab_lab::words::{first_of, plural};
use klab_scheduler::owner::controller;

/// How long a drain may take where the author does not say.
const WITHIN: Duration = Duration::from_mins(5);
/// First and longest pause between two rounds.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Most pods named in one sentence.
const NAMES: usize = 5;

/// Cordons nodes and moves their pods elsewhere, budgets respected; waits until they are gone.
pub(super) fn drain(
    performer: &Performer<'_>,
    set: &NodeSet,
    within: Option<SignedDuration>,
    force: bool,
    work: &mut Work<'_>,
) -> Result<()> {
    change(performer, &Action::Cordon { nodes: set.clone() }, work)?;
    let nodes: BTreeSet<String> = some(performer, set)?.iter().map(ResourceExt::name_any).collect();
    let names: Vec<String> = nodes.iter().cloned().collect();
    let what = named(set, &names);
    let within = within.and_then(|within| Duration::try_from(within).ok()).unwrap_or(WITHIN);
    let until = performer.time.now().saturating_add(within);
    work.intend("drain-nodes", &set.to_string())?;
    let events = match names.as_slice() {
        [one] => work.events.about(About::Node, one),
        _ => work.events.clone(),
    };
    let activity = events.start(Verb::DrainNodes, what.clone());
    let mut moved = BTreeSet::new();
    let mut pause = PAUSES.0;
    loop {
        let round = performer.runtime.block_on(round(performer.client, &nodes, force))?;
        moved.extend(round.leaving);
        if round.left.is_empty() {
            break;
        }
        if performer.time.now() >= until {
            return Err(overdue(&what, within, &round.refused, round.left.len()));
        }
        activity.progress(format!("{what}: {} left", plural(round.left.len(), "pod")));
        performer.time.pass(pause.min(until.saturating_sub(performer.time.now())));
        pause = (pause * 2).min(PAUSES.1);
    }
    activity.counting(moved.len()).finish(format!("{what}: {} moved", plural(moved.len(), "pod")));
    Ok(())
}

/// One round, unless pods would be lost by it.
async fn round(client: &Client, nodes: &BTreeSet<String>, force: bool) -> Result<Evictions> {
    let pods = pods_to_move(client, nodes).await.map_err(|error| failure("list the pods", &error))?;
    if !force {
        refuse_unowned(&pods)?;
    }
    let mut round = drain::round(client, &pods).await;
    match round.failed.take() {
        Some((pod, error)) => Err(failure(&format!("evict pod `{pod}`"), &error)),
        None => Ok(round),
    }
}

/// Pods that no controller recreates are lost by a drain; only `force` allows that.
fn refuse_unowned(pods: &[Pod]) -> Result<()> {
    let is_lost = |pod: &&Pod| {
        controller(&pod.metadata).is_none() && !has_ended(pod) && pod.metadata.deletion_timestamp.is_none()
    };
    let lost: Vec<String> = pods.iter().filter(is_lost).map(path).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} would be lost, as no controller recreates them: {}",
        plural(lost.len(), "pod"),
        first_of(&lost, NAMES)
    );
    Err(Error::message(Code::DrainWouldLose, message)
        .left_behind("the nodes are cordoned")
        .hint("`force = true` in the action deletes them"))
}

fn overdue(what: &str, within: Duration, refused: &[String], left: usize) -> Error {
    let after = klab_lab::words::duration(within);
    let message = format!("{what} still has {} after {after}", plural(left, "pod"));
    let error = if refused.is_empty() {
        Error::message(Code::DrainTimeout, message)
    } else {
        let words = refused.iter().take(NAMES).cloned().collect::<Vec<_>>().join("\n");
        Error::new(Code::DrainTimeout, anyhow::Error::msg(words).context(message))
            .hint("a PodDisruptionBudget that allows no disruption keeps its pods where they are")
    };
    error.left_behind("the nodes are cordoned")
}
