//! Empties a pool through the Kubernetes API: all its nodes are cordoned, then drained together.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Client, ResourceExt};

use crate::client::{connect, objects, runtime};
use crate::drain;
use crate::error::{Code, Error, Result};
use crate::event::{About, Events, Verb};
use klab_lab::names::POOL_LABEL;
use klab_lab::words::plural;

/// How long the pods of a pool may take to leave.
const DEADLINE: Duration = Duration::from_mins(10);

/// Cordons all nodes of a pool and evicts their pods, budgets respected; waits until they are gone.
///
/// # Errors
/// When the cluster refuses, or pods are still there at the deadline.
pub(super) fn drain(kubeconfig: &Path, pool: &str, events: &Events) -> Result<()> {
    let runtime = runtime()?;
    let activity = events.about(About::Pool, pool).start(Verb::DrainPool, format!("pool {pool}"));
    let moved = runtime.block_on(async {
        let client = connect(kubeconfig).await?;
        let nodes = cordon(&client, pool).await.map_err(|error| failure(pool, &error))?;
        empty(&client, pool, &nodes, |left| {
            activity.progress(format!("pool {pool}: {} left", plural(left, "pod")));
        })
        .await
    })?;
    activity.counting(moved).finish(format!("pool {pool}: {} moved", plural(moved, "pod")));
    Ok(())
}

/// How many nodes of a pool the cluster knows.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn nodes(kubeconfig: &Path, pool: &str) -> Result<usize> {
    runtime()?.block_on(async {
        let nodes = nodes_of(&connect(kubeconfig).await?, pool).await;
        nodes.map(|nodes| nodes.len()).map_err(|error| failure(pool, &error))
    })
}

/// Cordons the nodes of a pool; gives their names.
async fn cordon(client: &Client, pool: &str) -> Result<BTreeSet<String>, kube::Error> {
    let mut cordoned = BTreeSet::new();
    for node in nodes_of(client, pool).await? {
        if drain::cordon(client, &node).await? {
            cordoned.insert(node);
        }
    }
    Ok(cordoned)
}

/// Evicts until nothing is left; says how many pods there were.
async fn empty(client: &Client, pool: &str, nodes: &BTreeSet<String>, left: impl Fn(usize)) -> Result<usize> {
    let started = Instant::now();
    let mut moved = BTreeSet::new();
    loop {
        let pods = drain::pods_to_move(client, nodes).await.map_err(|error| failure(pool, &error))?;
        let round = drain::round(client, &pods).await;
        if let Some((_, error)) = round.failed {
            return Err(failure(pool, &error));
        }
        moved.extend(round.leaving);
        if round.left.is_empty() {
            return Ok(moved.len());
        }
        left(round.left.len());
        if started.elapsed() > DEADLINE {
            let names = if round.refused.is_empty() { round.left } else { round.refused };
            let message = format!(
                "could not drain pool `{pool}`: {} still there:\n{}",
                plural(names.len(), "pod"),
                names.join("\n")
            );
            return Err(Error::message(Code::DrainTimeout, message)
                .hint("a PodDisruptionBudget that allows no disruption keeps its pods where they are"));
        }
        tokio::time::sleep((started.elapsed() / 10).clamp(Duration::from_millis(100), Duration::from_secs(5))).await;
    }
}

async fn nodes_of(client: &Client, pool: &str) -> Result<Vec<String>, kube::Error> {
    let of_pool = ListParams::default().labels(&format!("{POOL_LABEL}={pool}"));
    let nodes: Vec<Node> = objects::list(client, None, &of_pool).await?;
    Ok(nodes.iter().map(ResourceExt::name_any).collect())
}

fn failure(pool: &str, error: &kube::Error) -> Error {
    Error::new(
        Code::ClusterRefused,
        anyhow::Error::msg(error.to_string()).context(format!("could not drain pool `{pool}`")),
    )
}
