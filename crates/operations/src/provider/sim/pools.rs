//! Node pools of the embedded cluster: observed and changed as node objects through the Kubernetes API.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node, Taint};
use kube::api::{Api, DeleteParams, ListParams, Patch};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::{devices, node_pools, upgrades};
use crate::apply::patch_parameters;
use crate::client::{cause, objects};
use crate::drain;
use crate::error::{Code, Error, Result};
use crate::event::{About, Events, Verb};
use klab_api_machinery::pool_upgrades::{End, UPGRADE_STATUS_LABEL};
use klab_cluster::VERSION_ANNOTATION;
use klab_lab::names::{DECLARED_ANNOTATION, DEVICES_ANNOTATION, MODE_LABEL, NODE_IMAGE_LABEL, POOL_LABEL};
use klab_lab::nodes::{self, VERSION, full_version};
use klab_lab::plan::{
    Action, Declared, Observed, ObservedNode, ObservedPool, is_system_taint, is_version, scale_text, size_name,
    wanted_version,
};
use klab_lab::spec::{KubernetesVersion, Lab, Pool};
use klab_lab::words::{nodes_of_size, plural};

/// How many requests are under way at once.
const CONCURRENCY: usize = 32;

/// The pools as the nodes show them.
pub(super) async fn observe(client: &Client, file: Option<&Lab>) -> Result<Observed> {
    let mut observed = Observed { exists: true, ..Observed::default() };
    let upgrades = upgrades::read(client).await?;
    for node in upgrades::settled(nodes_of(client, None).await?, &upgrades) {
        let Some(name) = node.labels().get(POOL_LABEL) else { continue };
        let wanted = file.and_then(|lab| wanted_version(lab, lab.pool(name)));
        let pool = observed.pools.entry(name.clone()).or_default();
        if let Some(declared) =
            node.annotations().get(DECLARED_ANNOTATION).and_then(|text| serde_json::from_str(text).ok())
        {
            pool.declared = declared;
        }
        let version =
            node.status.as_ref().and_then(|status| status.node_info.as_ref()).map(|info| &info.kubelet_version);
        pool.kubernetes = version_of_all(pool.kubernetes.take(), version.map(String::as_str), wanted.as_deref());
        let image = node.labels().get(NODE_IMAGE_LABEL).cloned();
        pool.node_image = pool.node_image.take().into_iter().chain(image).min();
        pool.nodes.push(ObservedNode { name: node.name_any(), labels: node.labels().clone(), taints: taints(&node) });
    }
    for (name, upgrade) in upgrades {
        let Some(pool) = observed.pools.get_mut(&name) else { continue };
        pool.upgrading = upgrade.end.is_none();
        // Nodes differ meanwhile: it is what it becomes.
        if let Some(declared) = upgrade.pool.templates.first().and_then(node_pools::declared).filter(|_| pool.upgrading)
        {
            pool.declared = declared;
        }
        let becomes = upgrade.pool.templates.first().map(|node| node["status"]["nodeInfo"]["kubeletVersion"].clone());
        if let Some(Value::String(becomes)) = becomes.filter(|_| pool.upgrading) {
            let wanted = file.and_then(|lab| wanted_version(lab, lab.pool(&name)));
            pool.kubernetes = version_of_all(pool.kubernetes.take(), Some(&becomes), wanted.as_deref());
        }
        let back = upgrade.rollback.and_then(|back| Some((back.kubernetes, back.node_image, back.used?.to_string())));
        pool.rollback = back;
        pool.failed = matches!(upgrade.end, Some(End::Failed(_) | End::Canceled(_)));
    }
    let autoscaled = node_pools::read(client).await?;
    observed.autoscaler = autoscaled.settings;
    for (name, declared) in autoscaled.pools {
        observed.pools.entry(name).or_insert_with(|| ObservedPool { declared, ..ObservedPool::default() });
    }
    Ok(observed)
}

/// The version of a pool, of which nodes have these: it is as old as its oldest node, or as one that an upgrade brought further. A
/// node that differs is reason enough to recreate the nodes.
fn version_of_all(known: Option<String>, version: Option<&str>, wanted: Option<&str>) -> Option<String> {
    let is_wanted = |version: &str| wanted.is_some_and(|wanted| is_version(version, wanted));
    let version = version.map(|version| version.trim_start_matches('v').to_owned());
    match (known, version) {
        (Some(known), Some(version)) if is_wanted(&known) => Some(version),
        (Some(known), Some(version)) if is_wanted(&version) => Some(known),
        (Some(known), Some(version)) => Some(known.min(version)),
        (known, version) => known.or(version),
    }
}

/// Does one action on the pools; `make` makes nodes, many at a time, and leaves those that are there already as they are: a
/// klab may have been killed before it could say that it made them.
pub(super) async fn perform(
    client: &Client,
    make: impl AsyncFn(Vec<Value>) -> Result<()>,
    pass: impl AsyncFn(Duration),
    lab: &Lab,
    action: &Action,
    events: &Events,
) -> Result<()> {
    let find = |name: &str| {
        lab.pool(name).ok_or_else(|| Error::message(Code::KlabFault, format!("the lab has no pool `{name}`")))
    };
    let of = |pool: &str| events.about(About::Pool, pool);
    match action {
        Action::CreateCluster => Ok(()),
        // The embedded cluster has no control plane of its own to upgrade: what it says of itself is all there is of one.
        Action::UpgradeCluster { to, .. } => answer_as(client, to.parse().ok()).await,
        Action::SetAutoscaler { changes } => {
            node_pools::set_profile(client, &lab.autoscaler_settings()).await?;
            events.note(Verb::SetAutoscaler, format!("the cluster autoscaler: {}", changes.join(", ")));
            Ok(())
        }
        // The autoscaler learns of a pool once its nodes are there, and before its removal begins.
        Action::AddPool { pool, nodes, size, .. } => {
            let what = format!("pool {pool} ({})", nodes_of_size(*nodes, size));
            let activity = of(pool).counting(*nodes as usize).start(Verb::CreatePool, what.clone());
            scale(client, make, lab, find(pool)?, *nodes).await?;
            node_pools::set(client, lab, find(pool)?).await?;
            activity.finish(what);
            Ok(())
        }
        Action::ScalePool { pool, from, to, sizes } => {
            let what = format!("pool {pool} {}", scale_text(*from, *to, sizes));
            let activity = of(pool).counting(*to as usize).start(Verb::ScalePool, what.clone());
            upgrades::refuse_under_way(client, pool).await?;
            scale(client, make, lab, find(pool)?, *to).await?;
            node_pools::set(client, lab, find(pool)?).await?;
            activity.finish(what);
            Ok(())
        }
        Action::UpdatePool { pool, changes } => {
            let activity = of(pool).start(Verb::ChangePool, format!("pool {pool}: {}", changes.join(", ")));
            upgrades::refuse_under_way(client, pool).await?;
            update(client, find(pool)?, events).await?;
            node_pools::set(client, lab, find(pool)?).await?;
            activity.finish(format!("pool {pool}: {}", changes.join(", ")));
            Ok(())
        }
        Action::ReplacePool { pool, nodes, changes } => {
            let activity = of(pool)
                .counting(*nodes as usize)
                .start(Verb::ReplacePool, format!("pool {pool}: {}", changes.join(", ")));
            upgrades::forget(client, pool, true).await?;
            node_pools::forget(client, pool).await?;
            remove(client, nodes_of(client, Some(pool)).await?).await?;
            scale(client, make, lab, find(pool)?, *nodes).await?;
            node_pools::set(client, lab, find(pool)?).await?;
            activity.finish(format!(
                "the nodes of pool {pool} ({}): {}",
                nodes_of_size(*nodes, &size_name(find(pool)?)),
                changes.join(", ")
            ));
            Ok(())
        }
        Action::UpgradePool { pool, kind, nodes, changes, no_wait } => {
            let what = format!("pool {pool}: {}", changes.join(", "));
            let activity = of(pool).counting(*nodes as usize).start(Verb::UpgradePool, what.clone());
            let is_new = upgrades::begin(client, lab, find(pool)?, nodes_of(client, Some(pool)).await?, *kind).await?;
            // What the autoscaler adds once the upgrade is over is of the new version, too.
            node_pools::set(client, lab, find(pool)?).await?;
            if *no_wait {
                let follow = "`kubectl get events --field-selector source=upgrader` shows how far it is";
                if is_new {
                    activity.finish_as(Verb::BeginUpgrade, format!("the upgrade of {what}; {follow}"));
                }
                return Ok(());
            }
            upgrades::wait(client, pool, pass, &activity, &what).await?;
            activity.finish(what);
            Ok(())
        }
        Action::RemovePool { pool, nodes } => {
            let activity = of(pool).counting(*nodes as usize).start(Verb::RemovePool, format!("pool {pool}"));
            upgrades::forget(client, pool, true).await?;
            node_pools::forget(client, pool).await?;
            remove(client, nodes_of(client, Some(pool)).await?).await?;
            activity.finish(format!("pool {pool} and its {}", plural(*nodes as usize, "node")));
            Ok(())
        }
    }
}

/// Has the API server answer as this version; as its own, where there is none.
pub(super) async fn answer_as(client: &Client, version: Option<KubernetesVersion>) -> Result<()> {
    let other = version.map(full_version).filter(|version| version != VERSION);
    let patch = json!({ "metadata": { "annotations": { VERSION_ANNOTATION: other } } });
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let patched = namespaces.patch_metadata("kube-system", &patch_parameters(), &Patch::Merge(&patch)).await;
    patched.map(drop).map_err(|error| failure("change", "kube-system", &error))
}

/// Brings a pool to this many nodes: missing ones are made in order of their numbers, then the last ones go first.
async fn scale(
    client: &Client,
    make: impl AsyncFn(Vec<Value>) -> Result<()>,
    lab: &Lab,
    pool: &Pool,
    wanted: u32,
) -> Result<()> {
    let all = nodes_of(client, None).await?;
    let taken: BTreeSet<String> = all.iter().map(ResourceExt::name_any).collect();
    let mut live: Vec<Node> =
        all.into_iter().filter(|node| node.labels().get(POOL_LABEL) == Some(&pool.name.value)).collect();
    // Those that an upgrade could not drain go first, then the last ones.
    let is_quarantined = |node: &Node| node.labels().contains_key(UPGRADE_STATUS_LABEL);
    live.sort_by_key(|node| (is_quarantined(node), node.name_any().len(), node.name_any()));
    let (live, surplus) = nodes::kept(pool, live, wanted);
    let declared = serde_json::to_string(&Declared::of(pool)).unwrap_or_default();
    let fresh: Vec<Value> = nodes::missing(lab, pool, &live, taken)
        .take((wanted as usize).saturating_sub(live.len()))
        .map(|mut node| {
            node["metadata"]["annotations"][DECLARED_ANNOTATION] = json!(declared);
            node
        })
        .collect();
    if !fresh.is_empty() {
        make(fresh).await?;
    }
    remove(client, surplus).await
}

/// Puts the declared labels, taints and devices on every node of a pool and takes off what was declared before.
async fn update(client: &Client, pool: &Pool, events: &Events) -> Result<()> {
    let declared = Declared::of(pool);
    let wanted: Vec<Taint> = pool.taints.iter().map(|taint| taint.value.clone()).collect();
    let mode_label = MODE_LABEL.to_owned();
    let api = objects::writer::<Node>(client);
    let nodes = nodes_of(client, Some(&pool.name.value)).await?;
    devices::tell_who_keeps(client, pool, &nodes, events).await?;
    for node in nodes {
        let before: Declared = node
            .annotations()
            .get(DECLARED_ANNOTATION)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let mut labels: BTreeMap<&String, Value> = before.labels.keys().map(|key| (key, Value::Null)).collect();
        labels.extend(declared.labels.iter().map(|(key, value)| (key, json!(value))));
        labels.insert(&mode_label, json!(declared.mode));
        let mut all = wanted.clone();
        all.extend(taints(&node).into_iter().filter(is_system_taint));
        let patch = json!({
            "metadata": { "labels": labels, "annotations": {
                DECLARED_ANNOTATION: serde_json::to_string(&declared).unwrap_or_default(),
                DEVICES_ANNOTATION: nodes::devices_annotation(pool),
            } },
            "spec": { "taints": all },
        });
        let name = node.name_any();
        api.patch_metadata(&name, &patch_parameters(), &Patch::Merge(&patch))
            .await
            .map_err(|error| failure("change", &name, &error))?;
    }
    Ok(())
}

/// Removes nodes, and the pods that were on them: AKS and kind empty a node before they take it away, so that it does not take
/// the garbage collector to find out.
async fn remove(client: &Client, nodes: Vec<Node>) -> Result<()> {
    let names: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
    if names.is_empty() {
        return Ok(());
    }
    remove_nodes(client, nodes).await?;
    drain::forget_pods(client, &names).await.map_err(|error| failure("remove", "the pods of nodes", &error))
}

async fn remove_nodes(client: &Client, nodes: Vec<Node>) -> Result<()> {
    let api = objects::writer::<Node>(client);
    stream::iter(nodes)
        .map(|node| {
            let api = api.clone();
            async move {
                let name = node.name_any();
                match api.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => Ok(()),
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    Err(error) => Err(failure("remove", &name, &error)),
                }
            }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

async fn nodes_of(client: &Client, pool: Option<&str>) -> Result<Vec<Node>> {
    let parameters = match pool {
        Some(pool) => ListParams::default().labels(&format!("{POOL_LABEL}={pool}")),
        None => ListParams::default(),
    };
    objects::list(client, None, &parameters).await.map_err(|error| failure("list", "nodes", &error))
}

fn taints(node: &Node) -> Vec<Taint> {
    node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default()
}

pub(super) fn failure(verb: &str, what: &str, error: &kube::Error) -> Error {
    Error::new(Code::ClusterRefused, cause(error).context(format!("could not {verb} `{what}` on the embedded cluster")))
}
