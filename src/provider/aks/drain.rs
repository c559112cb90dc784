//! Empties a pool through the Kubernetes API, as `kubectl cordon` and `kubectl drain --ignore-daemonsets` do.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::client::connect;
use crate::error::{Context, Error, Kind, Result};
use crate::event::Events;
use crate::eviction::{Eviction, evict, has_ended, is_moved, path};
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
    let activity = events.start("Draining", format!("pool {pool}"));
    let moved = runtime.block_on(async {
        let client = connect(kubeconfig).await?;
        let nodes = cordon(&client, pool).await.map_err(|error| failure(pool, &error))?;
        empty(&client, pool, &nodes, DEADLINE, |left| {
            activity.progress(format!("pool {pool}: {} left", plural(left, "pod")));
        })
        .await
    })?;
    activity.finish("Drained", format!("pool {pool}: {} moved", plural(moved, "pod")));
    Ok(())
}

/// How many nodes of a pool the cluster knows.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn nodes(kubeconfig: &Path, pool: &str) -> Result<usize> {
    runtime()?.block_on(async {
        let api: Api<Node> = Api::all(connect(kubeconfig).await?);
        let nodes = api.list(&ListParams::default().labels(&format!("{POOL_LABEL}={pool}"))).await;
        nodes.map(|nodes| nodes.items.len()).map_err(|error| failure(pool, &error))
    })
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .kind(Kind::Outside, || "could not start the runtime for network requests".to_owned())
}

async fn cordon(client: &Client, pool: &str) -> Result<Vec<String>, kube::Error> {
    let api: Api<Node> = Api::all(client.clone());
    let nodes = api.list(&ListParams::default().labels(&format!("{POOL_LABEL}={pool}"))).await?;
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    let mut names = Vec::new();
    for node in nodes {
        let name = node.name_any();
        api.patch(&name, &PatchParams::default(), &patch).await?;
        names.push(name);
    }
    Ok(names)
}

/// Evicts until nothing is left; says how many pods there were.
async fn empty(
    client: &Client,
    pool: &str,
    nodes: &[String],
    deadline: Duration,
    left: impl Fn(usize),
) -> Result<usize> {
    let started = Instant::now();
    let mut most = 0;
    loop {
        let pods = pods_to_move(client, nodes).await.map_err(|error| failure(pool, &error))?;
        most = most.max(pods.len());
        if pods.is_empty() {
            return Ok(most);
        }
        left(pods.len());
        let mut kept = Vec::new();
        for pod in &pods {
            if let Eviction::Refused(words) = evict(client, pod).await.map_err(|error| failure(pool, &error))? {
                kept.push(format!("{}: {words}", path(pod)));
            }
        }
        if started.elapsed() > deadline {
            let names: Vec<String> =
                if kept.is_empty() { pods.iter().map(ResourceExt::name_any).collect() } else { kept };
            let message = format!(
                "could not drain pool `{pool}`: {} still there:\n{}",
                plural(names.len(), "pod"),
                names.join("\n")
            );
            return Err(Error::message(Kind::Deadline, message)
                .hint("a PodDisruptionBudget that allows no disruption keeps its pods where they are"));
        }
        tokio::time::sleep((started.elapsed() / 10).clamp(Duration::from_millis(100), Duration::from_secs(5))).await;
    }
}

/// Pods on those nodes that have to go elsewhere; what has ended has nowhere to go.
async fn pods_to_move(client: &Client, nodes: &[String]) -> Result<Vec<Pod>, kube::Error> {
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
    let is_on =
        |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some_and(|node| nodes.contains(node));
    Ok(pods.items.into_iter().filter(|pod| is_on(pod) && is_moved(pod) && !has_ended(pod)).collect())
}

fn failure(pool: &str, error: &kube::Error) -> Error {
    Error::new(Kind::Failed, anyhow::Error::msg(error.to_string()).context(format!("could not drain pool `{pool}`")))
}
