//! Empties a pool through the Kubernetes API, as `kubectl cordon` and `kubectl drain --ignore-daemonsets` do.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::error::{Context, Error, Kind, Result};
use crate::event::Events;
use crate::ui::plural;

/// How long the pods of a pool may take to leave.
const DEADLINE: Duration = Duration::from_mins(10);

/// Cordons all nodes of a pool and evicts their pods, budgets respected; waits until they are gone.
///
/// # Errors
/// When the cluster refuses, or pods are still there at the deadline.
pub(super) fn drain(kubeconfig: &Path, pool: &str, events: &Events) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .kind(Kind::Outside, || "could not start the runtime for network requests".to_owned())?;
    let activity = events.start("Draining", format!("pool {pool}"));
    let moved = runtime.block_on(async {
        let client = connect(kubeconfig).await.map_err(|error| failure(pool, &error))?;
        let nodes = cordon(&client, pool).await.map_err(|error| failure(pool, &error))?;
        empty(&client, pool, &nodes, DEADLINE, |left| {
            activity.progress(format!("pool {pool}: {} left", plural(left, "pod")));
        })
        .await
    })?;
    activity.finish("Drained", format!("pool {pool}: {} moved", plural(moved, "pod")));
    Ok(())
}

pub(super) async fn connect(kubeconfig: &Path) -> Result<Client, kube::Error> {
    let broken = |error: kube::config::KubeconfigError| kube::Error::Service(Box::new(error));
    let file = Kubeconfig::read_from(kubeconfig).map_err(broken)?;
    let config = crate::client::configuration(file).await.map_err(broken)?;
    Client::try_from(config)
}

async fn cordon(client: &Client, pool: &str) -> Result<Vec<String>, kube::Error> {
    let api: Api<Node> = Api::all(client.clone());
    let nodes = api.list(&ListParams::default().labels(&format!("agentpool={pool}"))).await?;
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
        for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let namespace = pod.namespace().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            match api.evict(&pod.name_any(), &EvictParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                // A disruption budget; the next round may be luckier.
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    kept.push(format!("{namespace}/{}: {}", pod.name_any(), status.message));
                }
                Err(error) => return Err(failure(pool, &error)),
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

/// Pods on those nodes that have to go elsewhere: not those of DaemonSets, not static ones, not finished ones.
async fn pods_to_move(client: &Client, nodes: &[String]) -> Result<Vec<Pod>, kube::Error> {
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
    let is_on =
        |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some_and(|node| nodes.contains(node));
    Ok(pods.items.into_iter().filter(|pod| is_on(pod) && has_to_move(pod)).collect())
}

fn has_to_move(pod: &Pod) -> bool {
    let of_daemon_set =
        pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
    let is_static = pod.annotations().contains_key("kubernetes.io/config.mirror");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !of_daemon_set && !is_static && !matches!(phase, Some("Succeeded" | "Failed"))
}

fn failure(pool: &str, error: &kube::Error) -> Error {
    Error::new(Kind::Failed, anyhow::Error::msg(error.to_string()).context(format!("could not drain pool `{pool}`")))
}
