//! A drain, as `kubectl drain` does it: nodes are cordoned, and their pods evicted round by round, budgets respected.
//!
//! How long to go on, and what is said meanwhile, is the caller's affair.
//! See <https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/>.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::apply::patch_parameters;
use crate::client::objects;
use klab_lab::verify::Snapshot;
use klab_scheduler::owner::is_of_daemon_set;

/// Keeps new pods off a node, as klab's own change of it; says whether the node is there.
///
/// # Errors
/// When the server refuses or does not answer.
pub async fn cordon(client: &Client, node: &str) -> Result<bool, kube::Error> {
    let api = objects::writer::<Node>(client);
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    match api.patch(node, &patch_parameters(), &patch).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// The pods on these nodes that a drain evicts; those that have ended are among them, as with kubectl.
///
/// # Errors
/// When the server refuses or does not answer.
pub async fn pods_to_move(client: &Client, nodes: &BTreeSet<String>) -> Result<Vec<Pod>, kube::Error> {
    let parameters = match nodes.first() {
        Some(only) if nodes.len() == 1 => ListParams::default().fields(&format!("spec.nodeName={only}")),
        _ => ListParams::default(),
    };
    let pods: Vec<Pod> = objects::list(client, None, &parameters).await?;
    let is_there = |pod: &Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        node.is_some_and(|node| nodes.contains(node))
    };
    Ok(pods.into_iter().filter(|pod| is_there(pod) && is_moved(pod)).collect())
}

/// Whether a drain evicts a pod: not those of DaemonSets, whose controller ignores cordons, and not those of the node itself.
// upstream: staging/src/k8s.io/kubectl/pkg/drain/filters.go daemonSetFilter, mirrorPodFilter (v1.36). kubectl also evicts
// pods of DaemonSets that have ended; it lists pods once, where klab would meet their successors in each round.
fn is_moved(pod: &Pod) -> bool {
    !is_of_daemon_set(pod) && !pod.annotations().contains_key("kubernetes.io/config.mirror")
}

/// Whether all that a pod was for is over.
pub fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// `namespace/name`.
pub fn path(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// What one round of evictions came to. Pods that have ended are evicted with the others and stand nowhere here: nothing
/// of them runs, so that no drain waits for one that a finalizer keeps.
#[derive(Debug, Default)]
pub struct Evictions {
    /// Pods that were still there when the round began; the drain is over when there is none.
    pub left: Vec<String>,
    /// Those (by uid) that are on their way out.
    pub leaving: Vec<String>,
    /// Those that a disruption budget protects now, with the server's words.
    pub refused: Vec<String>,
    /// The first whose eviction failed for another reason, and why.
    pub failed: Option<(String, kube::Error)>,
}

/// Evicts pods that [`pods_to_move`] found, each once.
pub async fn round(client: &Client, pods: &[Pod]) -> Evictions {
    let mut round = Evictions::default();
    for pod in pods {
        let waited_for = !has_ended(pod);
        let evicted = evict(client, pod).await;
        if waited_for {
            round.left.push(path(pod));
        }
        match evicted {
            Ok(Eviction::Accepted) if waited_for => round.leaving.push(pod.uid().unwrap_or_default()),
            Ok(Eviction::Refused(words)) => round.refused.push(format!("{}: {words}", path(pod))),
            Err(error) if round.failed.is_none() => round.failed = Some((path(pod), error)),
            Ok(Eviction::Accepted) | Err(_) => {}
        }
    }
    round
}

/// What an eviction came to.
enum Eviction {
    /// The pod goes, or is gone.
    Accepted,
    /// A disruption budget does not allow it now, in the server's words; it may allow it later.
    Refused(String),
}

/// Evicts a pod; one that is being deleted already is left to it.
async fn evict(client: &Client, pod: &Pod) -> Result<Eviction, kube::Error> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Ok(Eviction::Accepted);
    }
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    match api.evict(&pod.name_any(), &EvictParams::default()).await {
        Ok(_) => Ok(Eviction::Accepted),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Eviction::Accepted),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(Eviction::Refused(status.message.clone())),
        Err(error) => Err(error),
    }
}

/// Most evictions that one snapshot asks about.
const MAX_QUESTIONS: usize = 16;

/// Why the API server would refuse to evict pods of cordoned nodes, in its words, by namespace and name. It is asked by dry runs,
/// which change nothing: for one pod of each owner on each node. Budgets, which a snapshot holds, are left out.
pub async fn refused_evictions(client: &Client, snapshot: &Snapshot) -> BTreeMap<(String, String), String> {
    let is_cordoned = |node: &Node| node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let nodes: BTreeSet<&str> = snapshot
        .nodes
        .iter()
        .filter(|node| is_cordoned(node))
        .filter_map(|node| node.metadata.name.as_deref())
        .collect();
    let mut each: BTreeMap<(&str, &str, &str), (String, String)> = BTreeMap::new();
    for pod in &snapshot.pods {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let Some(node) = node.and_then(|node| nodes.get(node)) else { continue };
        if !is_moved(pod) || has_ended(pod) || pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let (namespace, name) = (pod.metadata.namespace.as_deref().unwrap_or_default(), pod.name_any());
        let owner = pod.owner_references().first().map(|owner| owner.uid.as_str());
        let key = (*node, namespace, owner.or(pod.metadata.name.as_deref()).unwrap_or_default());
        each.entry(key).or_insert_with(|| (namespace.to_owned(), name));
    }
    if each.is_empty() || !may_have_admission(client).await {
        return BTreeMap::new();
    }
    let asked = stream::iter(each.into_values().take(MAX_QUESTIONS)).map(|(namespace, name)| async move {
        let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let dry = EvictParams {
            post_options: PostParams { dry_run: true, ..PostParams::default() },
            ..EvictParams::default()
        };
        match api.evict(&name, &dry).await {
            Err(kube::Error::Api(status)) if !matches!(status.code, 404 | 429) => {
                Some(((namespace, name), status.message.clone()))
            }
            _ => None,
        }
    });
    asked.buffered(CONCURRENCY).filter_map(|answer| async { answer }).collect().await
}

/// Whether the cluster has a policy or a webhook that could refuse anything; one that does not say may have some.
async fn may_have_admission(client: &Client) -> bool {
    const KINDS: [&str; 3] =
        ["validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies"];
    let has_some = |kind| async move {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}?limit=1");
        let Ok(request) = http::Request::get(path).body(Vec::new()) else { return true };
        match client.request::<Value>(request).await {
            Ok(list) => list["items"].as_array().is_none_or(|items| !items.is_empty()),
            Err(kube::Error::Api(status)) => status.code != 404,
            Err(_) => true,
        }
    };
    join_all(KINDS.map(has_some)).await.contains(&true)
}

/// How many requests are under way at once.
const CONCURRENCY: usize = 32;

/// Removes the pods that were on nodes that are gone: the garbage collector would find out after most of a minute.
///
/// # Errors
/// When the API server refuses.
pub async fn forget_pods(client: &Client, nodes: &BTreeSet<String>) -> Result<(), kube::Error> {
    let pods: Vec<Pod> = objects::list(client, None, &ListParams::default()).await?;
    let lost = pods.into_iter().filter(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        node.is_some_and(|node| nodes.contains(node))
    });
    stream::iter(lost)
        .map(|pod| async move {
            let api = objects::writer_in::<Pod>(client, &pod.namespace().unwrap_or_default());
            match api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                deleted => deleted.map(drop),
            }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use klab_cluster::Cluster;
    use klab_server::Seed;
    use kube::api::{PatchParams, PostParams};
    use serde_json::Value;

    /// Runs something on a cluster with one node and these objects.
    fn on_cluster<T>(objects: &[Value], act: impl AsyncFnOnce(&Client, &BTreeSet<String>) -> T) -> T {
        let cluster = Cluster::new("drain", &Seed::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let client = cluster.client();
            let node = json!({ "metadata": { "name": "n", "labels": { "pool": "p" } },
                "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "20" } } });
            let node = serde_json::from_value(node).unwrap();
            Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await.unwrap();
            cluster.add_objects(objects).unwrap();
            for object in objects.iter().filter(|object| object["kind"] == "Pod") {
                let status = Patch::Merge(json!({ "status": object["status"] }));
                let name = object["metadata"]["name"].as_str().unwrap();
                let api = Api::<Pod>::namespaced(client.clone(), "default");
                api.patch_status(name, &PatchParams::default(), &status).await.unwrap();
            }
            act(&client, &BTreeSet::from(["n".to_owned()])).await
        })
    }

    fn pod(name: &str, metadata: Value, phase: &str) -> Value {
        let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] }, "status": { "phase": phase } });
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!("default");
        pod
    }

    async fn names(client: &Client) -> Vec<String> {
        let pods = Api::<Pod>::namespaced(client.clone(), "default").list(&ListParams::default()).await.unwrap();
        pods.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).map(ResourceExt::name_any).collect()
    }

    #[test]
    fn cordon_is_klabs_own_change_and_says_whether_the_node_is_there() {
        on_cluster(&[], async |client, _| {
            assert!(cordon(client, "n").await.unwrap());
            assert!(!cordon(client, "nobody").await.unwrap());
            let node = Api::<Node>::all(client.clone()).get("n").await.unwrap();
            assert_eq!(node.spec.as_ref().unwrap().unschedulable, Some(true));
            let owns = |entry: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
                serde_json::to_string(&entry.fields_v1).unwrap().contains("f:unschedulable")
            };
            let managers: Vec<_> = node.managed_fields().iter().filter(owns).map(|entry| &entry.manager).collect();
            assert_eq!(managers, [&Some(klab_lab::names::MANAGER.to_owned())]);
        });
    }

    #[test]
    fn pods_of_daemon_sets_and_of_the_node_itself_stay() {
        let owned = |kind: &str, controller: bool| {
            json!({ "ownerReferences": [{ "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u",
                "controller": controller }] })
        };
        let mirrored = json!({ "annotations": { "kubernetes.io/config.mirror": "m" } });
        for (metadata, moved) in [
            (owned("DaemonSet", true), false),
            (owned("DaemonSet", false), true),
            (owned("ReplicaSet", true), true),
            (mirrored, false),
            (json!({}), true),
        ] {
            let pod = serde_json::from_value(pod("p", metadata.clone(), "Running")).unwrap();
            assert_eq!(is_moved(&pod), moved, "{metadata}");
        }
    }

    #[test]
    fn pods_that_have_ended_are_evicted_and_keep_nobody_waiting() {
        let kept = json!({ "finalizers": ["example.com/kept"] });
        let pods =
            [pod("ended", json!({}), "Succeeded"), pod("kept", kept, "Failed"), pod("web", json!({}), "Running")];
        on_cluster(&pods, async |client, nodes| {
            let found = pods_to_move(client, nodes).await.unwrap();
            assert_eq!(found.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["ended", "kept", "web"]);
            let first = round(client, &found).await;
            assert_eq!((first.left, first.leaving.len()), (vec!["default/web".to_owned()], 1));
            assert!(first.refused.is_empty() && first.failed.is_none(), "{:?}", first.failed);
            assert!(!names(client).await.iter().any(|name| ["ended", "kept", "web"].contains(&name.as_str())));
            let stuck: Vec<Pod> = pods_to_move(client, nodes).await.unwrap();
            let stuck: Vec<Pod> = stuck.into_iter().filter(|pod| pod.name_any() != "web").collect();
            assert_eq!(stuck.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["kept"], "its finalizer keeps it");
            assert!(round(client, &stuck).await.left.is_empty(), "and it keeps nobody waiting");
        });
    }

    #[test]
    fn budget_refuses_and_another_failure_is_told_after_the_round() {
        let labelled = json!({ "labels": { "app": "web" } });
        let budget = |name: &str| {
            json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": { "name": name, "namespace": "default" },
                "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": name } } } })
        };
        let both = json!({ "labels": { "app": "web", "tier": "both" } });
        let mut second = budget("second");
        second["spec"]["selector"]["matchLabels"] = json!({ "tier": "both" });
        let pods = [
            budget("web"),
            second,
            pod("a", both, "Running"),
            pod("b", labelled, "Running"),
            pod("c", json!({}), "Running"),
        ];
        on_cluster(&pods, async |client, nodes| {
            let found = pods_to_move(client, nodes).await.unwrap();
            let round = round(client, &found).await;
            assert_eq!(round.left, ["default/a", "default/b", "default/c"]);
            let (pod, error) = round.failed.unwrap();
            assert!(pod == "default/a" && error.to_string().contains("more than one"), "{pod}: {error}");
            assert!(round.refused.len() == 1 && round.refused[0].starts_with("default/b: "), "{:?}", round.refused);
            assert!(round.refused[0].contains("disruption budget"), "{:?}", round.refused);
            assert_eq!(names(client).await, ["a", "b"]);
        });
    }
}
